"""Deletes documents and items whose time to live is over. Each deletion is a record: followers see it as any other."""

from __future__ import annotations

import asyncio
import logging

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.core.timers import Timer, Timers
from headwater.documents.calls import ExpiryCall
from headwater.documents.metrics import DocumentMetrics
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.path import ResourcePath

_logger = logging.getLogger("headwater.documents")
_AT_ONCE = 500  # deletions that are queued together
_RETRY = 15_000  # ms after a failure
_NEVER = 1 << 62


class DocumentExpiry:
    """Wakes for the earliest date of each partition that this process owns. Belongs to the event loop."""

    def __init__(self, documents: OpenDocuments, *, timers: Timers, clock: Clock, metrics: DocumentMetrics) -> None:
        self._documents, self._timers, self._clock, self._metrics = documents, timers, clock, metrics
        self._alarms: dict[int, Timer] = {}
        self._passes: dict[int, asyncio.Task[None]] = {}
        self._again: set[int] = set()  # partitions to be looked at once more after the pass under way
        self._running = False

    def start(self) -> None:
        """Look after the partitions that are owned, and those that will be. Starting twice is no error."""
        if not self._running:
            self._running = True
            self._documents.activated.append(self.look)
            self._documents.expiring.append(self.at)
            for number in self._documents.owned():
                self.look(number)

    async def stop(self) -> None:
        """Delete nothing more; a pass under way is finished. Stopping twice is no error."""
        if self._running:
            self._running = False
            self._documents.activated.remove(self.look)
            self._documents.expiring.remove(self.at)
        for alarm in self._alarms.values():
            alarm.cancel()
        self._alarms.clear()
        await asyncio.gather(*self._passes.values(), return_exceptions=True)

    def at(self, number: int, date: int) -> None:
        """Something of a partition expires at a date, in ms."""
        alarm = self._alarms.get(number)
        if self._running and (alarm is None or not alarm.pending or date < alarm.when_ms):
            if alarm is not None:
                alarm.cancel()
            self._alarms[number] = self._timers.at(date, lambda: self.look(number))

    def look(self, number: int) -> None:
        """Delete what has expired in a partition, and wake for what expires next."""
        before = self._passes.get(number)
        if not self._running:
            return
        if before is None or before.done():
            self._passes[number] = asyncio.create_task(self._passed(number))
        else:
            self._again.add(number)  # it may have looked before this came

    async def _passed(self, number: int) -> None:
        await self._pass(number)
        while self._running and number in self._again:
            self._again.discard(number)
            await self._pass(number)

    async def _pass(self, number: int) -> None:
        try:
            while True:
                due, date = await asyncio.to_thread(self._due, number)
                if not due:
                    break
                done = await asyncio.gather(*(self._documents.call_partition(number, ExpiryCall(path)) for path in due))
                self._metrics.expired.add(sum(answer is not None for answer in done))
        except Exception as error:
            if self._documents.opened(number) is None:
                return  # its next owner looks after it
            fault = not isinstance(error, HeadwaterError)
            _logger.warning("What has expired in partition %s is not deleted yet: %s", number, error, exc_info=fault)
            date = self._clock.now_ms() + _RETRY
        if date < _NEVER:
            self.at(number, date)

    def _due(self, number: int) -> tuple[list[ResourcePath], int]:
        """What has expired, and the date at which the next thing does."""
        now = self._clock.now_ms()
        with self._documents.partition_view(number) as view:
            due = [ResourcePath(uri, item) for uri, item in view.expiring(now + 1, _AT_ONCE)]
            if due:
                return due, now
            for uri, item in view.expiring(_NEVER, 1):
                row = view.row(uri, item)
                if row is not None:
                    return [], row.expires
        return [], _NEVER

"""Recovery: what is durable comes into the store, whatever has died between.

*Hot*: with the taking of a partition, and every `hot_retry` from then on, changes that are durable and not applied are applied. A partition
without a living owner is taken: at once by a process that has just been started, because what expires, views and the building of indexes
stand still meanwhile; later only if no change of it is younger than `background_task_timeout`, and not applied.

*Stale*: the changes of the last day, or since the checkpoint where that lies further back, are compared with the store again and again, up
to those that are younger than `hot_recovery`, at most five times as fast as they have come; between two pages of changes it pauses for
`stale_retry` at most. A store that lacks one is folded anew. The checkpoint of a partition is the time up to which
everything was compared.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from headwater.cluster import Ownership
from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError, NotOwner
from headwater.core.files import Files, explaining, make_dirs, replace
from headwater.core.timers import Timers
from headwater.documents.calls import RedriveCall
from headwater.documents.comparison import compare_changes
from headwater.documents.metrics import DocumentMetrics
from headwater.documents.named_loop import PartitionLoop
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.settings import DocumentSettings

_logger = logging.getLogger("headwater.documents")
_PAGE = 1000  # records that are compared at once
_SPEED = 5  # times as fast as they have come, at most, changes are compared again: that leaves the machine to those who ask


class HotRecovery:
    """Applies what is durable and not applied. `loop`: start and stop it."""

    def __init__(
        self,
        documents: OpenDocuments,
        owners: Callable[[], Ownership],
        *,
        settings: DocumentSettings,
        clock: Clock,
        timers: Timers,
        metrics: DocumentMetrics,
    ) -> None:
        self._documents, self._owners, self._settings, self._clock, self._metrics = documents, owners, settings, clock, metrics
        self._looked: set[int] = set()  # partitions that were looked after before
        self.loop = PartitionLoop(
            "hot-recovery",
            lambda: range(documents.partitions),
            self.look,
            period=int(settings.hot_retry),
            timers=timers,
            clock=clock,
            failed=metrics.recovery_failures.add,
        )

    async def look(self, number: int) -> int:
        """Bring one partition up to date; how many changes were applied. Errors: those of the log and the store."""
        began = self._clock.monotonic()
        partition = self._documents.opened(number)
        anew = number not in self._looked
        self._looked.add(number)
        applied = 0
        if partition is not None:
            if partition.backlog:
                applied = int(await partition.call(RedriveCall()))
        elif (behind := await asyncio.to_thread(self._orphaned, number, anew)) is not None:
            with suppress(NotOwner):  # another process was quicker, or it is not this one's share
                await self._documents.activate(number)
                applied = behind
        self._metrics.hot_incomplete.add(applied)
        self._metrics.hot_pass_seconds.observe(self._clock.monotonic() - began)
        return applied

    def _orphaned(self, number: int, anew: bool) -> int | None:
        """How many changes wait in a partition that has records and no living owner; None: there is one, or may be about to come."""
        reads = self._documents.reads(number)
        end = reads.end()
        if not end or self._owners().owner(self._documents.topic_name, number) is not None:
            return None
        applied = reads.applied()
        if not anew and applied < end:
            waiting = reads.tail.records(applied, min(end, applied + _PAGE))
            if waiting and waiting[0].time > self._clock.now_ms() - self._settings.background_task_timeout:
                return None
        return max(0, end - applied)


class RecoveryNotes:
    """The checkpoints of stale recovery: `<folder>/<partition>.json`. Blocking."""

    def __init__(self, folder: Path, *, files: Files | None = None) -> None:
        self._folder, self._files = folder, files or Files()

    def checkpoint(self, number: int) -> int | None:
        """The time up to which everything was compared, in ms; None where there is none, or the note cannot be read."""
        try:
            return msgspec.json.decode((self._folder / f"{number}.json").read_bytes(), type=int)
        except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError):
            return None

    def note(self, number: int, time: int) -> None:
        """Errors: those of the disk."""
        with explaining(self._folder):
            make_dirs(self._files, self._folder)
            replace(self._files, self._folder / f"{number}.json", msgspec.json.encode(time))


class StaleRecovery:
    """Compares the changes of the last day with the store. `loop`: start and stop it.

    `repair`: folds the store of a partition anew; the partition's own thread does unless it is given.
    """

    def __init__(
        self,
        documents: OpenDocuments,
        notes: RecoveryNotes,
        *,
        settings: DocumentSettings,
        clock: Clock,
        timers: Timers,
        metrics: DocumentMetrics,
        repair: Callable[[int], Awaitable[object]] | None = None,
    ) -> None:
        self._documents, self._notes, self._settings, self._clock = documents, notes, settings, clock
        self._timers, self._metrics, self._repair = timers, metrics, repair or self._fold_anew
        self.loop = PartitionLoop(
            "stale-recovery",
            documents.owned,
            self.look,
            period=int(settings.stale_retry),
            timers=timers,
            clock=clock,
            failed=metrics.recovery_failures.add,
        )

    async def look(self, number: int) -> int:
        """Compare one partition; how many changes the store lacked. Errors: those of the log, the store and the repair."""
        began, now = self._clock.monotonic(), self._clock.now_ms()
        line, until = now - self._settings.stale_recovery, now - self._settings.hot_recovery
        checkpoint = await asyncio.to_thread(self._notes.checkpoint, number)
        since = line if checkpoint is None else min(checkpoint, line)
        missing = await self._compared(number, since, until)
        if missing:
            self._metrics.stale_incomplete.add(missing)
            _logger.error("The store lacks %s changes of %s/%s: it is folded anew.", missing, self._documents.topic_name, number)
            await self._repair(number)
        await asyncio.to_thread(self._notes.note, number, until)
        self._metrics.stale_pass_seconds.observe(self._clock.monotonic() - began)
        return missing

    async def _compared(self, number: int, since: int, until: int) -> int:
        log, missing = self._documents.log, 0
        bounds = await asyncio.to_thread(log.bounds, self._documents.topic_name, number)
        at = max(bounds.start, await asyncio.to_thread(log.offset_at, self._documents.topic_name, number, max(0, since)))
        end = await asyncio.to_thread(log.offset_at, self._documents.topic_name, number, max(0, until))
        while at < end:
            began = self._clock.monotonic()
            page = min(end, at + _PAGE)
            compared = await asyncio.to_thread(compare_changes, self._documents, number, at, page)
            missing += compared.lacking
            at = page
            pause = compared.span // _SPEED - round(1000 * (self._clock.monotonic() - began))
            if at < end and pause > 0:
                await self._timers.sleep_until(self._clock.now_ms() + min(pause, int(self._settings.stale_retry)))
        return missing

    async def _fold_anew(self, number: int) -> None:
        try:
            await self._documents.call_partition(number, RedriveCall(rebuild=True))
        except HeadwaterError as error:
            _logger.error("The store of %s/%s was not folded anew: %s", self._documents.topic_name, number, error)
            raise

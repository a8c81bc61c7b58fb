"""Follows what happens to a region: the records of its data topic as they become durable, and the cleans of this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial

from headwater.client.local import LocalLog
from headwater.client.watch import Watch
from headwater.core.errors import OffsetGone, RegionNotFound, UnknownTopic
from headwater.log import Log
from headwater.log.epochs import Epochs
from headwater.log.record import Record
from headwater.wal.answers import PinnedLog, RegionEvent
from headwater.wal.events import event_of
from headwater.wal.region_list import known_region
from headwater.wal.region_topics import RegionTopics

_MOST = 1000  # records that are read at once
_BYTES = 1 << 20
FollowedEvent = tuple[int | None, RegionEvent | None]
"""An id, where it has one, and the event. Without an event: events between were missed, and the id is where it goes on."""


class RegionFollower:
    """`cleaned`: gives the event that the next clean sets. Cleans of another process are seen with the next record that comes. `pinned`:
    what was told last of a table that pins the log, here."""

    def __init__(
        self, log: LocalLog, topics: RegionTopics, cleaned: Callable[[], asyncio.Event], pinned: Callable[[], PinnedLog | None]
    ) -> None:
        self._log, self._topics, self._cleaned, self._pinned = log, topics, cleaned, pinned

    async def follow(self, last: int | None) -> AsyncGenerator[FollowedEvent]:
        """Events behind the id `last`, or from now on, for ever. Errors: `RegionNotFound`, also once the region is deleted."""
        await self._log.work(lambda log: known_region(log, self._topics))
        try:
            async with aclosing(self._events(last)) as events:
                async for event in events:
                    yield event
        except UnknownTopic:
            raise RegionNotFound(f"Region {self._topics} was deleted.", hint="`headwater wal regions` lists regions.") from None

    async def _events(self, last: int | None) -> AsyncGenerator[FollowedEvent]:
        topic, last_pinned = self._topics.data, self._pinned()
        # Before the look at the end: of what comes behind it, no record of a former owner is an event. Embedded records carry no epoch.
        epoch = await self._log.work(lambda log: log.epoch(topic, 0) if last is None and log.engine == "kafka" else 0)
        bounds = await self._log.bounds(topic, 0)
        start, kept, epochs = bounds.end if last is None else last + 1, bounds.start, Epochs(epoch)
        if not bounds.start <= start <= bounds.end:  # cleaned since, or restored from a backup
            start = min(max(start, bounds.start), bounds.end)
            yield start, None
        async with self._log.watched(topic, 0) as watch:
            while True:
                cleaned = self._cleaned()  # before the look at the start: a later clean sets it
                now = (await self._log.bounds(topic, 0)).start
                if now > start:
                    start = now
                    yield start, None
                if now > kept:
                    kept = now
                    yield None, RegionEvent(kind="clean", offset=now)
                if (pinned := self._pinned()) is not None and pinned is not last_pinned:
                    last_pinned = pinned
                    yield None, RegionEvent(kind="pin", offset=pinned.tables[0].offset, table=pinned.table, bytes=pinned.bytes)
                end = await self._moved(watch, start, cleaned)
                while start < end:
                    try:
                        records = await self._log.work(partial(_read, topic=topic, start=start))
                    except OffsetGone:
                        break  # a clean has come in between, which is told with the next turn
                    for record in records:
                        if (event := event_of(record, epochs)) is not None:
                            yield record.offset, event
                    start = (records[-1].offset or 0) + 1 if records else end

    async def _moved(self, watch: Watch, start: int, cleaned: asyncio.Event) -> int:
        """The end of the log, once it lies behind `start` or the region was cleaned."""
        waits = [asyncio.ensure_future(watch.beyond(start)), asyncio.ensure_future(cleaned.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return int(waits[0].result()) if waits[0].done() else start
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)


def _read(log: Log, topic: str, start: int) -> list[Record]:
    return log.read(topic, 0, start, limit=_MOST, max_bytes=_BYTES)

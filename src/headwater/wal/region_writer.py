"""Writes the records of a region: numbered when the call is made, synced together with all calls that wait, then applied to the state.

The order of the calls, of the numbers and of the offsets is one. A failed append fails everything that was numbered behind it. Then the
region is claimed anew and the end of its log is read: what arrived is adopted, and the lowest unused number is the next one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from headwater.cluster import OwnedPartition
from headwater.core.errors import Closed, Fenced, HeadwaterError
from headwater.log import Log, Writer
from headwater.log.record import Record
from headwater.wal.fold import RegionFold
from headwater.wal.layout import KEY_LENGTH, OVERHEAD, RecordKind
from headwater.wal.region_appender import Numbers, RegionAppender, Settled
from headwater.wal.region_meta import RegionChanges, RegionMeta

T = TypeVar("T")


class RegionWriter:
    """The write side of an owned region. Belongs to one event loop; `locked` guards the state, which another thread changes."""

    def __init__(self, log: Log, owned: OwnedPartition, meta: RegionMeta, region: int, *, settled: Sequence[Settled] = ()) -> None:
        """`settled`: calls that the loop makes after each commit, whatever came of it."""
        self._log, self._owned, self._region, self._settled = log, owned, region, settled
        self.meta, self.locked = meta, threading.Lock()
        self.limit = log.topic(owned.topic).settings.max_record - KEY_LENGTH - OVERHEAD
        self._claiming = threading.Lock()
        self._mending: asyncio.Task[None] | None = None
        self._closed = self._lost = False
        self._begin()

    def _begin(self) -> None:
        self.tables = {number: Numbers(table.next, table.marked) for number, table in self.meta.tables.items()}
        self._appender = RegionAppender(
            self._append,
            self._apply,
            tables=self.tables,
            region=self._region,
            limit=self.limit,
            settled=self._settled,
            name=self._owned.topic,
        )
        self.write, self.append = self._appender.write, self._appender.append
        self.append_for, self.start = self._appender.append_for, self._appender.start

    # -- what the region calls ----------------------------------------------------------------------------------

    def add(self, kind: RecordKind, table: int, sequence: int, value: bytes, count: int = 1) -> asyncio.Future[int]:
        """Queue a record that the caller has numbered, and notes when this returns. Errors: as for `write`."""
        return self._appender.add(kind, table, sequence, value, count)

    async def ready(self) -> None:
        """Return when the region can be written: after a failed append, once it is claimed anew and its end is read.

        Errors: `Fenced` where another process is the owner; `Closed`; whatever claiming and reading raise, which the next call tries again.
        """
        if self._closed:
            raise _closed(self._owned.topic)
        if self._appender.failure is None:
            return
        if self._mending is None or self._mending.done():
            self._mending = asyncio.create_task(self._mend())
        await asyncio.shield(self._mending)

    def housekeep(self, call: Callable[[Writer], T]) -> T:
        """What `call` returns for the Writer of the newest claim. Blocking.

        A claim that is made anew after a failed append waits for it: otherwise the region would seem to be another process's by now.
        """
        with self._claiming:
            return call(self._owned.writer)

    @property
    def fenced(self) -> bool:
        """Whether a call was `Fenced`: then every later one is, too."""
        return self._lost or isinstance(self._appender.failure, Fenced)

    async def aclose(self) -> None:
        """Wait for what is queued, then refuse further calls."""
        self._closed = True
        if self._mending is not None:  # it makes another appender
            await asyncio.wait({self._mending})
        await self._appender.aclose()

    # -- in the appender's thread ---------------------------------------------------------------------------------

    def _append(self, batch: Sequence[Record], frees: bool) -> Sequence[int]:
        if frees:
            return self._log.with_reserve(lambda: self._owned.writer.append(batch))
        return self._owned.writer.append(batch)

    def _apply(self, changes: RegionChanges, offsets: Sequence[int]) -> None:
        with self.locked:
            self.meta.apply_all(changes, offsets)

    # -- after a failure ------------------------------------------------------------------------------------------

    async def _mend(self) -> None:
        failure = self._appender.failure
        if isinstance(failure, Fenced):
            raise failure.with_traceback(None)  # else each call would add its own to those before
        await self._appender.aclose()  # its thread has failed everything that was queued
        try:
            await asyncio.to_thread(self._reread)
        except Fenced:
            self._lost = True
            raise
        self._begin()

    def _reread(self) -> None:
        """1. Claim anew: what is under way no longer counts. 2. Apply what lies behind the last applied record."""
        with self._claiming:
            self._owned.renew()
        with self.locked:
            fold = RegionFold(self.meta, self._owned.topic, self._region)
            for batch in self._log.scan(self._owned.topic, 0, self.meta.watermark):
                fold.apply(batch)


def _closed(topic: str) -> HeadwaterError:
    return Closed(f"The region of {topic} is closed.", hint="Open it again.")

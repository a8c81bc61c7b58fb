"""A queue's fold beside its table of a region: writes the records of calls, knows which are durable, and folds anew after a failure.

A call changes the fold when it is made. When its record cannot be written, the fold is not what the log says: everything under way fails
with it, and the log is folded again before the next call.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa

from headwater.core.clock import Alarm, Clock
from headwater.core.errors import Closed, Damaged, Fenced, HeadwaterError
from headwater.core.memory import give_back_freed
from headwater.queue.data_place import LARGE
from headwater.queue.date_heap import NEVER
from headwater.queue.decisions import Decisions
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.fold import QueueFold
from headwater.queue.quick_replay import done_ids
from headwater.queue.records import Malformed
from headwater.queue.replay import replay
from headwater.queue.shared_calls import SharedCalls
from headwater.wal.layout import RecordKind
from headwater.wal.region import Region
from headwater.wal.region_meta import RegionChanges

T = TypeVar("T")
_logger = logging.getLogger("headwater.queue")
_RETRY_S = 1.0
_MANY = 100_000  # rows: with fewer, what reading them leaves in memory is not worth the look


class QueueLog:
    """The log side of an open queue. Belongs to one event loop. `open_log` makes it."""

    def __init__(
        self, region: Region, table: int, fold: QueueFold, *, settings: EffectiveSettings, clock: Clock, large: int = LARGE
    ) -> None:
        self.region, self.table, self._append = region, table, region.append
        self.decisions = Decisions(fold, settings, large=large)
        self.broken = False
        """The fold is not what the log says, or the queue is closed: `ready` says when to go on."""
        self.on_settled: Callable[[], None] = _nothing
        """Is called after each commit, and after each folding anew."""
        self.on_end: Callable[[HeadwaterError], None] = _nothing_more
        """Is called when the queue can never be written again."""
        self.on_break: Callable[[], None] = _nothing
        """Is called when the fold has become broken."""
        self.unheard: list[str] = []
        """Tokens of claims that are in the log, although their callers were told that nobody knows: to be released after folding anew."""
        self._clock = clock
        self._durable = fold.sequence
        self._failed = NEVER  # the first sequence whose record has failed since the last folding
        self._tails: deque[tuple[int, asyncio.Future[bool]]] = deque()
        self._last: asyncio.Future[Any] | None = None  # of the last record
        self._end: HeadwaterError | None = None
        self._mending: asyncio.Task[None] | None = None
        self._retry: Alarm | None = None
        region.settled.append(self._settled)

    @property
    def durable(self) -> int:
        """The sequence of the last record that is known to be durable."""
        return self._durable

    # -- writing ------------------------------------------------------------------------------------------------------

    def append(self, value: bytes, answer: T) -> asyncio.Future[T] | None:
        """Write a record whose changes the fold has; the future ends with `answer` once it is durable.

        None: it was not written, and the fold is broken. Errors: `TooLarge`, likewise.
        """
        try:
            future = None if self.broken else self._append(self.table, value, self.decisions.fold.sequence, answer)
        except BaseException:
            self.break_fold()
            raise
        if future is None:
            self.break_fold()
        else:
            self._last = future
        return future

    def append_for(self, value: bytes, calls: SharedCalls) -> None:
        """`append` for several calls. Where it was not written, they are told so, and the fold is broken."""
        try:
            self.region.append_for(self.table, value, self.decisions.fold.sequence, calls)
        except Exception as error:
            self.fail(calls, error)
        else:
            self._last = calls.futures[-1]

    def fail(self, calls: SharedCalls, error: Exception) -> None:
        """Calls whose record is not written: the fold, which has some of their changes, is broken."""
        self.break_fold()
        calls.set_exception(error)

    async def tail(self) -> bool:
        """Wait for the last record under way. False: it was not written, and what was read of the fold is not so."""
        sequence = self.decisions.fold.sequence
        if self.broken:
            return False
        if sequence <= self._durable:
            return True
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._tails.append((sequence, future))
        return await future

    async def ready(self) -> None:
        """Return when the fold is what the log says. Errors: `Fenced`, `Closed`; why the log cannot be read, which is tried again."""
        while self.broken:
            if self._end is not None:
                await asyncio.sleep(0)  # a caller that tries again, over and over, must not keep the loop from everybody else
                raise self._end.with_traceback(None)  # that of each call would be added to those before, without an end
            await asyncio.shield(self._mended())

    def close(self, error: HeadwaterError) -> None:
        """Refuse further calls with this error."""
        if self._end is None:
            self._end, self.broken = error, True
            if self._settled in self.region.settled:
                self.region.settled.remove(self._settled)
            if self._retry is not None:
                self._retry.cancel()
            self._fail_tails()

    # -- after a commit ------------------------------------------------------------------------------------------------

    def _settled(self, changes: RegionChanges, error: Exception | None) -> None:
        if error is not None:
            for place, table in enumerate(changes.tables):
                if table == self.table and changes.kinds[place] == RecordKind.ENTRY:
                    self._failed = min(self._failed, changes.sequences[place])
                    break
            self.break_fold()
            return
        for place in range(len(changes.tables) - 1, -1, -1):
            if changes.tables[place] == self.table and changes.kinds[place] == RecordKind.ENTRY:
                self._durable = changes.sequences[place]
                break
        else:
            return
        while self._tails and self._tails[0][0] <= self._durable:
            _resolve(self._tails.popleft()[1], True)
        if not self.broken:
            self.on_settled()

    # -- after a failure -----------------------------------------------------------------------------------------------

    def break_fold(self) -> None:
        """The fold is not what the log says: fold it anew. What it has changed without a record is forgotten."""
        if self.broken:
            return
        self.broken = True
        self.on_break()
        self._fail_tails()
        self._mended()

    def _fail_tails(self) -> None:
        while self._tails:
            _resolve(self._tails.popleft()[1], False)

    def _mended(self) -> asyncio.Task[None]:
        """The attempt to go on that is under way, or another one."""
        if self._mending is None or self._mending.done():
            self._mending = asyncio.create_task(self._mend())
            self._mending.add_done_callback(_looked_at)  # nobody may wait for it
        return self._mending

    def _try_again(self) -> None:
        self._mended()

    async def _mend(self) -> None:
        """1. Let the records under way end: the fold would lack them. 2. Let the region claim its log anew and read its end. 3. Fold the
        table. 4. Go on."""
        if self._retry is not None:
            self._retry.cancel()
        if self._last is not None and not self._last.done():
            await asyncio.wait({self._last})
        try:
            await self.region.ready()
            fold = await folded(self.region, self.table, self._clock, self.decisions.settings)
        except (Fenced, Closed) as error:
            self.close(error)
            self.on_end(error)
            return
        except Exception as error:
            _logger.warning("The queue at table %s of region %s cannot go on: %s", self.table, self.region.topics, error)
            if self._end is None:  # waiting claims are no calls that would try again
                self._retry = self._clock.call_later(_RETRY_S, self._try_again)
            raise
        if self._end is None:
            self.decisions = self.decisions.on(fold)
            self.unheard = [claim.token for claim in fold.claims.by_slot.values() if claim.sequence >= self._failed]
            self._durable, self._failed, self.broken = fold.sequence, NEVER, False
            self.on_settled()


async def open_log(region: Region, table: int, *, settings: EffectiveSettings, clock: Clock, large: int = LARGE) -> QueueLog:
    """Fold a table. Errors: `Damaged`, `Closed`, `Fenced`."""
    await region.ready()
    return QueueLog(region, table, await folded(region, table, clock, settings), settings=settings, clock=clock, large=large)


async def folded(region: Region, table: int, clock: Clock, settings: EffectiveSettings | None = None) -> QueueFold:
    """The fold of a table's live records. `settings`: of its rate.

    Errors: `Damaged` for a record that cannot be read.
    """
    known = region.look(lambda meta: meta.tables.get(table) and (meta.tables[table].marked, meta.tables[table].next))
    first, following = known or (1, 1)
    fold = QueueFold(first, table=table)
    if settings is not None:
        fold.starts.use(settings.rate, int(settings.rate_period))
    await asyncio.to_thread(_replay, fold, region.payloads(table), region)
    fold.skip_to(following)
    await asyncio.to_thread(fold.finish, clock.now_ms())
    if len(fold.columns) > _MANY:
        await asyncio.to_thread(_forget_read)
    return fold


def _forget_read() -> None:
    """Give back the memory into which the log was read."""
    pa.default_memory_pool().release_unused()
    give_back_freed()


def _replay(fold: QueueFold, parts: Iterator[tuple[int, list[bytes]]], region: Region) -> None:
    for first, payloads in parts:
        done = done_ids(payloads)
        for sequence, payload in enumerate(payloads, first):
            try:
                replay(fold, sequence, payload, done)
            except Malformed as error:
                raise Damaged(
                    f"Payload {sequence} of a queue in region {region.topics} cannot be read: {error}.",
                    hint=f"See it with `headwater log show {region.topics.data}`.",
                ) from error


def _resolve(future: asyncio.Future[bool], durable: bool) -> None:
    if not future.done():
        future.set_result(durable)


def _looked_at(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()


def _nothing() -> None: ...


def _nothing_more(error: HeadwaterError) -> None: ...

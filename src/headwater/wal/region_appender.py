"""The group commit of a region: one thread appends the records of all tables that wait, and applies them to the region's state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, takewhile
from typing import Any, Protocol, TypeVar

from headwater.core.errors import Closed, DiskFull, TooLarge, Unavailable
from headwater.log.commit_thread import MOST_BYTES, CommitThread
from headwater.log.group_commit import not_tried
from headwater.log.record import Record
from headwater.log.record_columns import RecordColumns
from headwater.wal.layout import KEY_LENGTH, OVERHEAD, RecordKind, encode_keys
from headwater.wal.region_meta import RegionChanges
from headwater.wal.region_topics import checked_id

_ENTRY = RecordKind.ENTRY
_FREEING = frozenset((RecordKind.MARK, RecordKind.DROP))
_MOST_FREEING = 500  # marks and drops of a batch that may be written to a full disk, some 50 KiB
_AGAIN = "Write again: the region reads its end first."  # what a region does after a failed append, before the next call
# The last one: what the future ends with. One object for each call: all that wait are looked at by `gc`.
_Queued = tuple[RecordKind, int, int, int, bytes, "RecordEnd", Any]

T = TypeVar("T")
Settled = Callable[[RegionChanges, Exception | None], None]
"""Is told what was committed, or what was not and why: in the loop, once the futures of the records have ended."""


class RecordEnd(Protocol):
    """Is told once whether a record is durable: a future; or what tells all those who share the record."""

    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, exception: Exception, /) -> None: ...
    def done(self) -> bool: ...


class Numbers:
    """The numbers of a table as of the last call, whose record may be under way."""

    __slots__ = ("marked", "next")

    def __init__(self, next: int = 1, marked: int = 1) -> None:
        self.next, self.marked = next, marked


class RegionAppender(CommitThread[_Queued]):
    """Appends records that its caller has numbered, in the order of the calls, or not at all: by the rules of `OrderedAppender`.

    It takes less time for each call. What all calls have in common, making records and changing the state, is done in the thread and for
    all that wait at once.
    """

    def __init__(
        self,
        append: Callable[[Sequence[Record], bool], Sequence[int]],
        apply: Callable[[RegionChanges, Sequence[int]], None],
        *,
        tables: dict[int, Numbers],
        region: int,
        limit: int,
        name: str,
        settled: Sequence[Settled] = (),
    ) -> None:
        """`append`: as a Writer's, with whether space becomes free through these records. `apply`: called in the thread with what was
        appended, and where. `limit`: the most bytes of a value. `settled`: who is told of each commit.
        """
        self._append, self._apply, self._region, self.tables = append, apply, region, tables
        self._limit, self._settled = limit, settled
        self.failure: Exception | None = None  # the failure that stopped it
        super().__init__(name=name)

    def write(self, table: int, value: bytes, count: int) -> asyncio.Future[int] | None:
        """Number payloads and queue their record; return the future of `add`. None, and nothing was done, where `add` would not take it.

        Errors: `BadInput` for what is no number of a table, `TooLarge`; then nothing was numbered.
        """
        numbers = self.tables.get(table) if type(table) is int else None
        if numbers is None:  # else the number is known to be one: every write comes here
            checked_id(table, "table")
        if self.failure is not None or self._stopping:
            return None
        if len(value) > self._limit:
            raise self._too_large(value)
        if numbers is None:
            numbers = self.tables[table] = Numbers()
        first = numbers.next
        numbers.next = first + count
        future: asyncio.Future[int] = self._future()
        self._queue.append((_ENTRY, table, first, count, value, future, first + count - 1))
        if self._idle:
            self._rouse()
        return future

    def append(self, table: int, value: bytes, sequence: int, answer: T) -> asyncio.Future[T] | None:
        """Queue the record of one payload, whose number its caller knows; the future ends with `answer`.

        None, and nothing was done, where `add` would not take it or the next number is another. Errors: as for `write`.
        """
        numbers = self.tables.get(table)
        if numbers is None:
            checked_id(table, "table")
            numbers = Numbers()
        if self.failure is not None or self._stopping or numbers.next != sequence:
            return None
        if len(value) > self._limit:
            raise self._too_large(value)
        if sequence == 1:
            self.tables[table] = numbers
        numbers.next = sequence + 1
        future: asyncio.Future[T] = self._future()
        self._queue.append((_ENTRY, table, sequence, 1, value, future, answer))
        if self._idle:
            self._rouse()
        return future

    def append_for(self, table: int, value: bytes, sequence: int, end: RecordEnd) -> None:
        """`append` of a record whose end several calls wait for: `end` is told None. `start` has it committed, or any other call.

        Errors: as for `add`, and `Unavailable` where the next number is another; then nothing was queued.
        """
        numbers = self.tables.get(table)
        if numbers is None:
            checked_id(table, "table")
            numbers = Numbers()
        self._check(value)
        if numbers.next != sequence:
            raise Unavailable(f"Payload {sequence} was not written: {numbers.next} is next.", hint=_AGAIN)
        if sequence == 1:
            self.tables[table] = numbers
        numbers.next = sequence + 1
        self._queue.append((_ENTRY, table, sequence, 1, value, end, None))

    def start(self) -> None:
        """Commit what is queued."""
        if self._idle and self._queue:
            self._rouse()

    def add(self, kind: RecordKind, table: int, sequence: int, value: bytes, count: int = 1) -> asyncio.Future[int]:
        """Queue a record; the future has its last sequence once it is durable and applied.

        Raises `TooLarge`, `Closed`, and the failure of a call before: nothing was queued. Errors of the future: as for `OrderedAppender`.
        """
        self._check(value)
        future: asyncio.Future[int] = self._future()
        self._queue.append((kind, table, sequence, count, value, future, sequence + count - 1))
        if self._idle:
            self._rouse()
        return future

    def _check(self, value: bytes) -> None:
        if self.failure is not None:
            raise not_tried(self.failure, _AGAIN)
        if self._stopping:
            raise Closed("The region has been closed.", hint="Open it again.")
        if len(value) > self._limit:
            raise self._too_large(value)

    def _too_large(self, value: bytes) -> TooLarge:
        return TooLarge(
            f"A record of {len(value)} bytes does not fit into the log, which takes {self._limit}.",
            hint="Write fewer payloads at once, or create the region with a larger max_record.",
        )

    def _commit(self) -> None:
        waiting = self._queue[:]
        kinds, tables, sequences, counts, values, futures, answers = zip(*waiting, strict=True)
        if _size(values) > MOST_BYTES:
            kinds, tables, sequences, counts, values, futures, answers = zip(*waiting[: _fitting(values)], strict=True)
        del self._queue[: len(values)]
        changes = RegionChanges(kinds, tables, sequences, counts)
        frees = _FREEING.issuperset(kinds) and len(kinds) <= _MOST_FREEING
        if self.failure is not None:  # queued after it, or at the moment of its failure
            self._tell(self._fail, futures, changes, not_tried(self.failure, _AGAIN))
            return
        try:
            self._store(changes, values, frees)
        except Exception as error:
            self.failure = error
            places = list(_freeing(changes))[:_MOST_FREEING] if isinstance(error, DiskFull) and not frees else []
            if places:
                chosen = [waiting[place] for place in places]
                self._free(_chosen(changes, places), chosen)
                left = sorted({*range(len(values))}.difference(places))
                changes, futures = _chosen(changes, left), tuple(futures[place] for place in left)
            self._tell(self._fail, futures, changes, error)
            return
        self._tell(self._resolve, futures, answers, changes)

    def _store(self, changes: RegionChanges, values: Sequence[bytes], frees: bool) -> None:
        keys = encode_keys(self._region, changes.kinds, changes.tables, changes.sequences)
        self._apply(changes, self._append(RecordColumns(keys, values), frees))

    def _free(self, changes: RegionChanges, chosen: Sequence[_Queued]) -> None:
        """Append the marks and drops of a batch for which the disk is too full: the payloads beside them must not use what it keeps."""
        _, _, _, _, values, futures, answers = zip(*chosen, strict=True)
        try:
            self._store(changes, values, True)
        except Exception as error:
            self._tell(self._fail, futures, changes, error)
            return
        self._tell(self._resolve, futures, answers, changes)

    def _resolve(self, futures: Sequence[RecordEnd], answers: Sequence[Any], changes: RegionChanges) -> None:
        for future, answer in zip(futures, answers, strict=True):
            try:
                future.set_result(answer)
            except asyncio.InvalidStateError:
                continue  # the caller has given up; its record is appended nevertheless
        for call in self._settled:
            call(changes, None)

    def _fail(self, futures: Sequence[RecordEnd], changes: RegionChanges, error: Exception) -> None:
        for future in futures:
            if not future.done():
                future.set_exception(error)
        for call in self._settled:
            call(changes, error)


def _freeing(changes: RegionChanges) -> Iterator[int]:
    """The places of the marks and drops that hold without the payloads of the batch."""
    lost: dict[int, int] = {}  # by table: the first sequence that is not written
    for place, (kind, table, sequence) in enumerate(zip(changes.kinds, changes.tables, changes.sequences, strict=True)):
        if kind is _ENTRY:
            lost.setdefault(table, sequence)
        elif kind in _FREEING and sequence <= lost.get(table, sequence) and (table not in lost or kind is RecordKind.MARK):
            yield place


def _chosen(changes: RegionChanges, places: Sequence[int]) -> RegionChanges:
    kinds, tables, sequences, counts = changes
    return RegionChanges(
        [kinds[place] for place in places], *([column[place] for place in places] for column in (tables, sequences, counts))
    )


def _size(values: Sequence[bytes]) -> int:
    """About how many bytes the records of these values take."""
    return (KEY_LENGTH + OVERHEAD) * len(values) + sum(map(len, values))


def _fitting(values: Sequence[bytes]) -> int:
    """How many fit, and at least one."""
    sizes = accumulate(KEY_LENGTH + OVERHEAD + len(value) for value in values)
    return sum(1 for _ in takewhile(lambda size: size <= MOST_BYTES, sizes)) or 1

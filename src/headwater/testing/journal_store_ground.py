"""What the contract suite of journal stores stands on: stores that are closed afterwards, and a partition's history as changes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Protocol

import msgspec
import pytest

from headwater.journal.action import Action, ActionRecord, Append, Delete, Mark, Purge
from headwater.journal.change import EventRow, JournalChange, PartitionChange
from headwater.journal.digest import digest
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.head import EMPTY, Head, HeadFold, fold_of
from headwater.journal.store import JournalStore, PartitionStore

BEGAN = 1_700_000_000_000


class OpenJournalStore(Protocol):
    """Opens one more store on the same place."""

    def __call__(self, segment_size: int = ...) -> JournalStore: ...


class History:
    """The records of one partition, and what any range of them changes. Offsets count from 0, times by a second each."""

    def __init__(self, topic: str, partition: int = 0, generation: str = "g1") -> None:
        self.topic, self.partition, self.generation = topic, partition, generation
        self.records: list[ActionRecord] = []
        self.rows: list[tuple[EventRow, ...]] = []
        self.expiries: list[int | None] = []

    @property
    def end(self) -> int:
        return len(self.records)

    def append(
        self, id: str, *numbers: int, expire_after: int | None = None, payload: bytes | None = None, timestamp: int | None = None
    ) -> int:
        """One Append with events of these numbers; its offset. The payload says which Append it was, unless it is given."""
        offset = self.end
        content = payload if payload is not None else b'{"at":%d}' % offset
        time = BEGAN + 1000 * offset if timestamp is None else timestamp
        rows = tuple(
            EventRow(
                seq_nr=number,
                timestamp=time,
                partition=self.partition,
                offset=offset,
                origin="host",
                version="1.0",
                tags=("b", "a") if number % 2 else (),
                metadata='{"header":{"data":1}}',
                payload=Payload(PayloadKind.JSON, content),
                headers=(("name", "value"),) if offset % 2 else (),
            )
            for number in numbers
        )
        return self.add(id, Append(numbers[0], numbers[-1], origin="host", version="1.0"), rows, expire_after, time)

    def delete(self, id: str, to: int) -> int:
        return self.add(id, Delete(to))

    def purge(self, id: str) -> int:
        return self.add(id, Purge())

    def mark(self, id: str) -> int:
        return self.add(id, Mark("m"))

    def add(
        self, id: str, action: Action, rows: tuple[EventRow, ...] = (), expire_after: int | None = None, timestamp: int | None = None
    ) -> int:
        offset = self.end
        self.records.append(ActionRecord(id, action, offset, BEGAN + 1000 * offset if timestamp is None else timestamp))
        self.rows.append(rows)
        self.expiries.append(expire_after)
        return offset

    def change(self, start: int = 0, end: int | None = None, *, epoch: int = 0) -> PartitionChange:
        """What the records [start, end) change."""
        end = self.end if end is None else end
        folds: dict[str, HeadFold] = {}
        rows: dict[str, list[EventRow]] = {}
        for record, events, expire_after in list(zip(self.records, self.rows, self.expiries, strict=True))[start:end]:
            if isinstance(record.action, Mark):
                continue
            folds[record.id] = folds.get(record.id, EMPTY).then(fold_of(record, expire_after))
            if isinstance(record.action, Purge):
                rows[record.id] = []
            rows.setdefault(record.id, []).extend(events)
        journals = tuple(JournalChange(id, fold, tuple(rows[id])) for id, fold in folds.items())
        newest = self.records[end - 1].timestamp if end > start else 0
        return PartitionChange(self.topic, self.partition, self.generation, start, end, journals, newest, epoch)

    def split(self, cuts: Sequence[int]) -> list[PartitionChange]:
        """All records, in ranges that end at these offsets."""
        ends = sorted({cut for cut in cuts if 0 < cut < self.end} | {self.end})
        return [self.change(start, end) for start, end in zip([0, *ends], ends, strict=False)]


class JournalStoreGround:
    """The fixtures. An engine's test class gives `open_store`. Each test has topics of its own, so that tests may share a store."""

    @pytest.fixture
    def open_store(self) -> OpenJournalStore:
        raise NotImplementedError("Give a fixture `open_store`: a function that opens a JournalStore of a segment size on one place.")

    @pytest.fixture
    def another(self, open_store: OpenJournalStore) -> Iterator[OpenJournalStore]:
        """Opens one more store on the same place; all are closed afterwards."""
        with ExitStack() as opened:
            yield lambda segment_size=10_000: opened.enter_context(open_store(segment_size))

    @pytest.fixture
    def topic(self) -> str:
        return f"journal-{uuid.uuid4().hex[:12]}"

    @pytest.fixture
    def history(self, topic: str) -> History:
        return History(topic)

    @pytest.fixture
    def store(self, another: OpenJournalStore) -> JournalStore:
        return another()

    @pytest.fixture
    def copy(self, store: JournalStore, topic: str) -> PartitionStore:
        return partition(store, topic)

    @pytest.fixture(params=[2, 10_000, (1 << 31) - 1], ids=["size 2", "size 10000", "size 2^31-1"])
    def sized(self, another: OpenJournalStore, topic: str, request: pytest.FixtureRequest) -> PartitionStore:
        """The copy with each of the segment sizes."""
        return partition(another(request.param), topic)


def partition(store: JournalStore, topic: str, number: int = 0, generation: str = "g1") -> PartitionStore:
    """The copy of a partition, made where there is none."""
    copy = store.partition(topic, number, generation)
    assert copy is not None
    return copy


def head_of(copy: PartitionStore, id: str) -> Head | None:
    with copy.view() as view:
        return view.head(id)


def rows_of(copy: PartitionStore, id: str, start: int = 1, stop: int | None = None, *, batch: int = 1000) -> list[EventRow]:
    """What a reader of the store alone gets."""
    with copy.view() as view:
        head = view.head(id)
        return [] if head is None else [row for rows in view.rows(id, head, start, stop, batch=batch) for row in rows]


def numbers(copy: PartitionStore, id: str, start: int = 1, stop: int | None = None) -> list[int]:
    return [row.seq_nr for row in rows_of(copy, id, start, stop)]


def digest_of(copy: PartitionStore) -> str:
    with copy.view() as view:
        return digest(view)


def state(copy: PartitionStore, id: str) -> tuple[int, int | None, list[int]] | None:
    """Last number, delete_to, and the numbers of the rows; None: there is no such journal."""
    head = head_of(copy, id)
    return None if head is None else (head.seq_nr, head.delete_to, numbers(copy, id))


def renumbered(change: PartitionChange, start: int) -> PartitionChange:
    """The change as one of a range that begins elsewhere."""
    return msgspec.structs.replace(change, start=start)

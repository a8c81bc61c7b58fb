"""What the cases of journals stand on: journals of one topic with their log and their store, and a check at every step of replication."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from copy import copy as shallow
from typing import TypeVar

import msgspec
import pytest

from headwater.core.clock import SystemClock
from headwater.journal.action import Append, Delete, Mark, PayloadMetadata, Purge
from headwater.journal.append_draft import draft
from headwater.journal.cache import CacheLimits
from headwater.journal.change import EventRow
from headwater.journal.digest import digest
from headwater.journal.discovery import JournalTopic, snapshots_of
from headwater.journal.event import Event, NumberedEvent, Payload, PayloadKind
from headwater.journal.event_bodies import encode_events
from headwater.journal.head import Head
from headwater.journal.open_topic import OpenTopic
from headwater.journal.partition import JournalPartition
from headwater.journal.read import JournalRead
from headwater.journal.replication_task import PartitionOutcome, PartitionTask, copy_partition
from headwater.journal.settings import Duplicates, JournalSettings
from headwater.journal.store import JournalStore, PartitionStore
from headwater.journal.topics import PART, Writers
from headwater.journal.wire import write_record
from headwater.journal.write import ALWAYS, ActionPlaced, Appended, Condition, DeleteDraft, Draft, MarkDraft, Outcome, PurgeDraft
from headwater.log import Log
from headwater.log.partitioner import partition_for
from headwater.log.record import Record

OpenJournalStore = Callable[[int], JournalStore]
"""Opens a store on one place; new journals get segments of that size."""
MakeJournals = Callable[..., "CaseJournals"]
FORGETFUL = CacheLimits(actions=0, record_bytes=0, offsets=0)
"""A cache of these limits keeps nothing: every look-up scans the log."""
T = TypeVar("T")
_HIT, _MISS = "hit", "miss"


def raw_append(
    id: str, *numbers: int, label: str = "raw", expire_after: int | None = None, metadata: bytes | None = None, timestamp: int | None = None
) -> Record:
    """An Append as another writer may send it: any numbers, in any order."""
    events = [NumberedEvent(number, Payload(PayloadKind.JSON, b'"%b"' % label.encode())) for number in numbers]
    kind, body = encode_events(events, PayloadMetadata(expire_after))
    return write_record(id, Append(numbers[0], numbers[-1], kind, "there", "1", metadata), value=body, timestamp=timestamp)


def raw_delete(id: str, to: int) -> Record:
    return write_record(id, Delete(to, "there"))


def raw_purge(id: str) -> Record:
    return write_record(id, Purge("there"))


def raw_mark(id: str, mark: str = "m") -> Record:
    return write_record(id, Mark(mark, "there"))


class CaseJournals:
    """The journals of a topic of its own. Blocking.

    `exact`: the writer numbers events; otherwise the cases' numbers are given. `twice`: every record comes twice.
    """

    def __init__(self, log: Log, store: JournalStore, *, twice: bool = False, exact: bool = True, partitions: int = 1) -> None:
        self.log, self.store, self.twice, self.exact = log, store, twice, exact
        self.topic = log.create_topic(f"journal-{uuid.uuid4().hex[:12]}", partitions=partitions, part=PART)
        self.settings = JournalSettings()
        self._clock, self._time = SystemClock(), 0
        self._runner = asyncio.Runner()
        self._open = self._opened()

    def _opened(self) -> OpenTopic:
        writers: Writers = "owner" if self.exact else "shared"
        by = ("here", "1")
        return OpenTopic(self.log, lambda: self.store, self.topic, writers=writers, settings=self.settings, clock=SystemClock(), by=by)

    def reopen(self) -> None:
        """Write from now on as a process that has just begun."""
        self._runner.run(self._open.aclose())
        self._open = self._opened()

    def beside(self) -> CaseJournals:
        """Another process that writes the same topic. Close it."""
        other = shallow(self)
        other._runner, other._open = asyncio.Runner(), self._opened()
        return other

    def close(self) -> None:
        self._runner.run(self._open.aclose())
        self._runner.close()

    # -- writing ----------------------------------------------------------------------------------------------

    def append(
        self, id: str, *numbers: int, label: str = "", expected: int | None = None, metadata: object = None, expire_after: str | None = None
    ) -> Appended:
        """Append events, whose payloads are `label`. `numbers` are those that they must get."""
        payload = label or f"{id} {numbers[0]}"
        contents = [payload] * len(numbers) if self.exact else [Event(payload, number) for number in numbers]
        made = draft(id, contents, metadata=metadata, expire_after=expire_after, by=("here", "1"))
        outcome = self.write(made, ALWAYS if expected is None else Condition(expected))
        assert isinstance(outcome, Appended)
        assert (outcome.first, outcome.last) == (numbers[0], numbers[-1])
        return outcome

    def delete(self, id: str, to: int) -> ActionPlaced | None:
        return self._placed(DeleteDraft(id, to))

    def purge(self, id: str) -> ActionPlaced | None:
        return self._placed(PurgeDraft(id))

    def mark(self, id: str, mark: str = "m") -> ActionPlaced | None:
        return self._placed(MarkDraft(id, mark))

    def raw(self, *records: Record, partition: int = 0) -> None:
        """Append records past the journals' writer, as others do. Each has a millisecond of its own: the tables of kafka-journal hold one
        row for each number and millisecond."""
        for record in records:
            self.raw_at_once(record, partition=partition)

    def raw_at_once(self, *records: Record, partition: int = 0) -> None:
        """As `raw`, with one call of the log."""
        timed: list[Record] = []
        for record in records:
            if record.timestamp is None:
                self._time = max(self._time + 1, self._clock.now_ms())
                record = msgspec.structs.replace(record, timestamp=self._time)
            timed += [record, record] if self.twice else [record]
        self.log.append(self.topic.name, partition, timed, part=PART)

    def save(self, id: str, seq_nr: int) -> None:
        """Save a snapshot."""
        snapshots = self._open.snapshots(id)
        living = snapshots.living(id)
        assert living is not None
        snapshots.save(id, seq_nr, Payload(PayloadKind.TEXT, str(seq_nr).encode()), living, ("here", "1"))

    def _placed(self, action_draft: Draft) -> ActionPlaced | None:
        outcome = self.write(action_draft)
        assert outcome is None or isinstance(outcome, ActionPlaced)
        return outcome

    def write(self, action_draft: Draft, condition: Condition = ALWAYS) -> Outcome:
        async def write() -> Outcome:
            return await self._open.writer(action_draft.id).write(action_draft, condition)

        outcome = self._runner.run(write())
        if self.twice and isinstance(outcome, Appended | ActionPlaced):
            [record] = self.log.read(self.topic.name, outcome.partition, outcome.offset, limit=1)
            self.log.append(self.topic.name, outcome.partition, [msgspec.structs.replace(record, offset=None)], part=PART)
        return outcome

    # -- replication ------------------------------------------------------------------------------------------

    def place(self, id: str) -> int:
        return partition_for(id.encode(), self.topic.partitions)

    def end(self, partition: int = 0) -> int:
        return self.log.bounds(self.topic.name, partition).end

    def copy(self, partition: int = 0) -> PartitionStore:
        copy = self.store.partition(self.topic.name, partition, self.topic.generation)
        assert copy is not None
        return copy

    def replicate(self, end: int | None = None, *, partition: int = 0, records: int = 20_000) -> PartitionOutcome:
        """Copy the records of a partition below `end`, at most so many in one change."""
        task = PartitionTask(
            topic=self.topic.name, partition=partition, generation=self.topic.generation, end=self.end(partition) if end is None else end
        )
        return copy_partition(self.log, self.store, task, records=records)

    def replicate_snapshots(self) -> None:
        """Copy the snapshots of the first partition."""
        topic = self._snapshots()
        task = PartitionTask(
            topic=topic.name, partition=0, generation=topic.generation, end=self.log.bounds(topic.name, 0).end, holds="snapshots"
        )
        assert copy_partition(self.log, self.store, task).problem is None

    def _snapshots(self) -> JournalTopic:
        topic = snapshots_of(self.log, JournalTopic(self.topic.name, self.topic.partitions, self.topic.generation))
        assert topic is not None
        return topic

    def stages(self, id: str) -> Iterator[int]:
        """Everything between not replicated and replicated, one record more each time, from an empty copy on."""
        partition = self.place(id)
        self.copy(partition).clear()
        yield -1
        for end in range(1, self.end(partition) + 1):
            outcome = self.replicate(end, partition=partition)
            assert outcome.problem is None, outcome.problem
            yield end - 1

    def digest(self, partition: int = 0) -> str:
        with self.copy(partition).view() as view:
            return digest(view)

    # -- reading ----------------------------------------------------------------------------------------------

    def partition(self, number: int = 0, *, limits: CacheLimits | None = None, duplicates: Duplicates = "first") -> JournalPartition:
        settings = msgspec.structs.replace(self.settings, duplicates=duplicates)
        return JournalPartition(self.log, lambda: self.store, self.topic, number, settings=settings, limits=limits)

    def rows(self, id: str, start: int = 1, stop: int | None = None, *, partition: JournalPartition | None = None) -> list[EventRow]:
        source = partition or self.partition(self.place(id))
        return _read(source, id, start, stop)

    def head(self, id: str) -> Head | None:
        """The head in the store."""
        with self.copy(self.place(id)).view() as view:
            return view.head(id)

    def slots(self, id: str) -> dict[int, int]:
        """The numbers of the snapshots in the store, by slot."""
        topic = self._snapshots()
        rings = self.store.snapshots(topic.name, 0, topic.generation)
        assert rings is not None
        with rings.view() as view:
            return {slot: snapshot.seq_nr for slot, snapshot in sorted(view.ring(id).slots.items())}

    def stored(self, id: str) -> list[int]:
        """The numbers of the rows in the store."""
        with self.copy(self.place(id)).view() as view:
            head = view.head(id)
            return [] if head is None else [row.seq_nr for rows in view.rows(id, head, 1) for row in rows]

    def state(self, id: str) -> tuple[int, int | None, list[int]] | None:
        """Last number, delete_to and rows of the store; None: it has no such journal."""
        head = self.head(id)
        return None if head is None else (head.seq_nr, head.delete_to, self.stored(id))

    def shows(
        self, id: str, numbers: Sequence[int], pointer: int | None, *, start: int = 1, stop: int | None = None, labels: Sequence[str] = ()
    ) -> None:
        """A reader gets these events and this last number: not replicated, partly and wholly; with a head cache and without."""
        place = self.place(id)
        readers = {_HIT: self.partition(place), _MISS: self.partition(place, limits=FORGETFUL)}
        for copied in self.stages(id):
            end = self.end(place)
            for way, reader in readers.items():
                rows = _read(reader, id, start, stop, page=1000 if way is _HIT else 2)
                assert [row.seq_nr for row in rows] == list(numbers), (way, copied)
                if labels:
                    assert [label_of(row) for row in rows] == list(labels), (way, copied)
                head = reader.joined(id, end).head
                assert (None if head is None else head.last) == pointer, (way, copied)
        hits, misses = readers[_HIT].cache, readers[_MISS].cache
        if end and hits is not None:
            assert misses is not None
            assert hits.counts.miss == 0
            assert misses.counts.miss > 0 or not numbers

    def fails(self, id: str, kind: type[Exception], *, duplicates: Duplicates = "first") -> None:
        """Every reader of a journal gets this error, whatever is replicated."""
        for _ in self.stages(id):
            for limits in (None, FORGETFUL):
                with pytest.raises(kind):
                    self.rows(id, partition=self.partition(self.place(id), limits=limits, duplicates=duplicates))


def _read(partition: JournalPartition, id: str, start: int, stop: int | None, *, page: int = 1000) -> list[EventRow]:
    read = JournalRead(partition, id, start=start, stop=stop, end=partition.end())
    events: list[EventRow] = []
    while rows := read.page(page):
        events += rows
    return events


def label_of(row: EventRow) -> str:
    assert row.payload is not None
    value = row.payload.value()
    assert isinstance(value, str)
    return value


class JournalCasesGround:
    """The fixtures. A test class gives `open_log` and `open_store`; `exact` is False where the log has no guards."""

    exact: bool = True

    @pytest.fixture
    def open_log(self) -> Callable[[], Log]:
        raise NotImplementedError("Give a fixture `open_log`: a function that opens a Log.")

    @pytest.fixture
    def open_store(self) -> OpenJournalStore:
        raise NotImplementedError("Give a fixture `open_store`: a function that opens a JournalStore of a segment size.")

    @pytest.fixture
    def make(self, open_log: Callable[[], Log], open_store: OpenJournalStore) -> Iterator[MakeJournals]:
        """Makes journals; `segment_size` is the store's."""
        with ExitStack() as opened:
            logs: list[Log] = []

            def made(*, segment_size: int = 10_000, twice: bool = False, partitions: int = 1) -> CaseJournals:
                if not logs:
                    logs.append(opened.enter_context(open_log()))
                store = opened.enter_context(open_store(segment_size))
                journals = CaseJournals(logs[0], store, twice=twice, exact=self.exact, partitions=partitions)
                opened.callback(journals.close)
                return journals

            yield made

    @pytest.fixture(params=[False, True], ids=["once", "twice"])
    def journals(self, make: MakeJournals, request: pytest.FixtureRequest) -> CaseJournals:
        """Journals whose records come once, or twice each."""
        return make(twice=request.param)

    @pytest.fixture
    def single(self, make: MakeJournals) -> CaseJournals:
        """Journals whose records come once."""
        return make()

"""A random walk over journals: two writers, every action, a replicator that stops, splits and starts again. All of it equals the model."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable
from random import Random

from headwater.core.clock import SystemClock
from headwater.core.errors import Damaged, Differs, WrongExpected
from headwater.journal.append_draft import draft
from headwater.journal.cache import CacheLimits
from headwater.journal.change import EventRow
from headwater.journal.event import MAX_SEQ_NR, Event
from headwater.journal.event_bodies import decode_events
from headwater.journal.head import Expiry, record_id
from headwater.journal.open_topic import OpenTopic
from headwater.journal.partition import JournalPartition
from headwater.journal.read import JournalRead
from headwater.journal.replication_task import PartitionTask, copy_partition
from headwater.journal.settings import Duplicates, JournalSettings
from headwater.journal.store import JournalStore, PartitionStore
from headwater.journal.topics import PART, Writers
from headwater.journal.wire import read_record
from headwater.journal.write import ALWAYS, ActionPlaced, Appended, Condition, DeleteDraft, Draft, MarkDraft, Outcome, PurgeDraft
from headwater.log import Log
from headwater.log.record import Record
from headwater.testing.journal_cases_ground import FORGETFUL, OpenJournalStore, raw_append, raw_delete, raw_mark, raw_purge
from headwater.testing.journal_model import JournalModel, ModelJournal

_IDS = ("a", "b", "c", "id of d", "ä", "id-6")
_POLICIES: tuple[Duplicates, ...] = ("first", "last", "fail")
_SMALL = CacheLimits(journals=2, actions=9, record_bytes=2000, drop=0.5)
_SIZES = (2, 3, 10_000)


class JournalWalk:
    """Call `step` as often as you like, then `finish`. Errors: `AssertionError` at the first difference from the model.

    `open_log`: a log for each writer, as of two processes. `truncates`: the log is deleted up to durable pointers, too.
    """

    def __init__(
        self, open_log: Callable[[], Log], open_store: OpenJournalStore, seed: int, *, exact: bool = True, truncates: bool = True
    ) -> None:
        self._random, self._open_store = Random(seed), open_store
        self._exact, self._truncates = exact, truncates
        self._logs = [open_log(), open_log()]
        self._log = self._logs[0]
        self.topic = self._log.create_topic(f"journal-{uuid.uuid4().hex[:12]}", partitions=2, part=PART)
        self._store = open_store(self._random.choice(_SIZES))
        self._models = [JournalModel(), JournalModel()]
        self._seen = [0, 0]
        self._runner = asyncio.Runner()
        self._writers = [self._writer(log) for log in self._logs]
        self._readers = [self._reader() for _ in range(4)]
        self._keys: dict[str, tuple[str, str, Appended]] = {}
        self.counts: Counter[str] = Counter()

    def close(self) -> None:
        for writer in self._writers:
            self._runner.run(writer.aclose())
        self._runner.close()
        self._store.close()
        for log in self._logs:
            log.close()

    def step(self) -> None:
        """One action, one piece of replication, or one read."""
        weights = {
            self._append: 24,
            self._append_expected: 8,
            self._append_again: 4,
            self._append_given: 6,
            self._delete: 7,
            self._purge: 4,
            self._mark: 4,
            self._raw: 8,
            self._replicate: 14,
            self._read: 36,
            self._pointer: 10,
            self._restart_writer: 2,
            self._restart_store: 2,
            self._new_reader: 3,
            self._truncate: 2,
        }
        [chosen] = self._random.choices(list(weights), list(weights.values()))
        chosen()
        self.counts[chosen.__name__.strip("_")] += 1

    def finish(self) -> None:
        """Copy the rest, and compare the whole store with the model."""
        for number in range(2):
            self._copied(number, self._end(number), 20_000)
            self._compare_store(number)
        for id in _IDS:
            for reader in self._readers:
                self._compare_read(reader[self._place(id)], id, 1, None)

    # -- writing ----------------------------------------------------------------------------------------------

    def _id(self) -> str:
        return self._random.choice(_IDS)

    def _append(self) -> None:
        id, count = self._id(), self._random.choice((1, 1, 1, 2, 5))
        last = self._last(id)
        outcome = self._wrote(draft(id, self._payloads(last, count), expire_after=self._random.choice((None, None, "1d"))))
        assert isinstance(outcome, Appended)
        assert (outcome.first, outcome.last) == (last + 1, last + count)

    def _append_expected(self) -> None:
        if not self._exact:
            return
        id, last = self._id(), 0
        last = self._last(id)
        expected = max(0, last + self._random.choice((0, 0, 0, 1, -1)))
        try:
            outcome = self._wrote(draft(id, ["x"]), Condition(expected))
        except WrongExpected:
            assert expected != last
        else:
            assert isinstance(outcome, Appended)
            assert (expected, outcome.first) == (last, last + 1)

    def _append_again(self) -> None:
        """With an idempotency key: a new one, or one that was used."""
        used = self._random.choice(list(self._keys)) if self._keys and self._random.random() < 0.6 else None
        if used is not None:
            id, payload, before = self._keys[used]
            made = draft(id, [payload] if self._exact else [Event(payload, before.first)])
            again = self._wrote(made, Condition(None, used, made.digest(None)))
            assert isinstance(again, Appended)
            assert (again.first, again.last, again.offset, again.replayed) == (before.first, before.last, before.offset, True)
            return
        id, key = self._id(), uuid.UUID(int=self._random.getrandbits(128)).hex
        made = draft(id, self._payloads(self._last(id), 1, key))
        outcome = self._wrote(made, Condition(None, key, made.digest(None)))
        assert isinstance(outcome, Appended)
        self._keys[key] = (id, key, outcome)
        if len(self._keys) > 20:
            del self._keys[next(iter(self._keys))]

    def _append_given(self) -> None:
        """Numbers of the caller's own: with gaps, or twice."""
        id = self._id()
        first = max(1, self._last(id) + self._random.choice((1, 1, 2, 5, 0, -1)))
        self._wrote(draft(id, [Event("given", first), Event(b"given", first + self._random.choice((1, 2)))]))

    def _delete(self) -> None:
        id, to = self._id(), self._random.choice((1, 2, 5, 20, 100, MAX_SEQ_NR))
        last = self._last(id)
        outcome = self._wrote(DeleteDraft(id, to))
        assert isinstance(outcome, ActionPlaced) if last else outcome is None
        if isinstance(outcome, ActionPlaced):
            assert outcome.to == min(to, last)

    def _purge(self) -> None:
        id = self._id()
        last = self._last(id)
        assert (self._wrote(PurgeDraft(id)) is None) is (last == 0)

    def _mark(self) -> None:
        self._wrote(MarkDraft(self._id(), "m"))

    def _raw(self) -> None:
        """Records of others: unordered events, deletes that are not capped, purges of nobody, records that are no actions."""
        id, last = self._id(), 0
        last = self._last(id)
        lowest = max(1, last - 1)
        record = self._random.choice(
            (
                raw_append(id, last + 1, expire_after=self._random.choice((None, 60_000))),
                raw_append(id, lowest, lowest + 2),
                raw_append(id, last + 1, last + 3),
                raw_delete(id, last + 7),
                raw_delete(id, max(1, last // 2)),
                raw_purge(id),
                raw_mark(id),
                Record(id.encode(), b"value"),
                Record(None, b"value"),
                Record(id.encode(), b"value", (("journal.action", b'{"new":{}}'),)),
            )
        )
        self._random.choice(self._logs).append(self.topic.name, self._place(id), [record], part=PART)
        self._look()

    def _payloads(self, last: int, count: int, payload: str = "") -> list[object]:
        contents: list[object] = [payload or self._random.choice(("text", b"bytes", {"json": 1}, None)) for _ in range(count)]
        return contents if self._exact else [Event(content, number) for number, content in enumerate(contents, last + 1)]

    def _wrote(self, action_draft: Draft, condition: Condition = ALWAYS) -> Outcome:
        writer = self._random.choice(self._writers)

        async def write() -> Outcome:
            return await writer.writer(action_draft.id).write(action_draft, condition)

        try:
            return self._runner.run(write())
        finally:
            self._look()

    # -- the model --------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Let the model take what has come into the log."""
        for number, model in enumerate(self._models):
            while self._seen[number] < self._end(number):
                for record in self._log.read(self.topic.name, number, self._seen[number], limit=1000):
                    self._take(model, record)
                    self._seen[number] = (record.offset or 0) + 1

    @staticmethod
    def _take(model: JournalModel, record: Record) -> None:
        journal_record = read_record(record)
        if journal_record is None:
            return
        if journal_record.value is None:
            model.add(journal_record)
            return
        body = decode_events(journal_record.action.payload_type, journal_record.value)  # type: ignore[union-attr]
        model.add(journal_record, tuple(event.seq_nr for event in body.events), body.metadata.expire_after)

    def _modelled(self, id: str) -> ModelJournal | None:
        return self._models[self._place(id)].journals.get(id)

    def _last(self, id: str) -> int:
        journal = self._modelled(id)
        return 0 if journal is None else max(journal.seq_nr, journal.delete_to)

    # -- replication ------------------------------------------------------------------------------------------

    def _replicate(self) -> None:
        number = self._random.randrange(2)
        start = self._copy(number).pointer().offset + 1
        self._copied(number, self._random.randint(start, self._end(number)), self._random.choice((1, 2, 7, 20_000)))

    def _copied(self, number: int, end: int, records: int) -> None:
        task = PartitionTask(topic=self.topic.name, partition=number, generation=self.topic.generation, end=end)
        outcome = copy_partition(self._random.choice(self._logs), self._store, task, records=records)
        assert outcome.problem is None, outcome.problem

    def _copy(self, number: int) -> PartitionStore:
        copy = self._store.partition(self.topic.name, number, self.topic.generation)
        assert copy is not None
        return copy

    def _truncate(self) -> None:
        if not self._truncates:
            return
        number = self._random.randrange(2)
        copy = self._copy(number)
        copy.checkpoint()
        durable = copy.pointer().offset  # no power is cut here
        if durable >= 0:
            start = self._random.randint(0, durable + 1)
            self._log.delete_before(self.topic.name, number, start, part=PART)
            self._keys.clear()  # keys go with the records that hold them

    def _restart_store(self) -> None:
        store, self._store = self._store, self._open_store(self._random.choice(_SIZES))
        for position, log in enumerate(self._logs):
            self._runner.run(self._writers[position].aclose())
            self._writers[position] = self._writer(log)
        self._readers = [self._reader() for _ in self._readers]
        store.close()

    def _restart_writer(self) -> None:
        position = self._random.randrange(2)
        self._runner.run(self._writers[position].aclose())
        self._writers[position] = self._writer(self._logs[position])

    # -- reading ----------------------------------------------------------------------------------------------

    def _new_reader(self) -> None:
        self._readers[self._random.randrange(len(self._readers))] = self._reader()

    def _reader(self) -> list[JournalPartition]:
        settings = JournalSettings(duplicates=self._random.choice(_POLICIES))
        log, limits, store = self._random.choice(self._logs), self._random.choice((None, _SMALL, FORGETFUL)), self._store
        return [JournalPartition(log, lambda: store, self.topic, number, settings=settings, limits=limits) for number in range(2)]

    def _read(self) -> None:
        id = self._id()
        start = self._random.choice((1, 1, 1, 2, 5, self._last(id) or 1))
        stop = self._random.choice((None, None, start, start + 3))
        self._compare_read(self._random.choice(self._readers)[self._place(id)], id, start, stop)

    def _pointer(self) -> None:
        id = self._id()
        reader = self._random.choice(self._readers)[self._place(id)]
        assert reader.last_number(id, reader.end()) == self._last(id)

    def _compare_read(self, reader: JournalPartition, id: str, start: int, stop: int | None) -> None:
        journal, policy = self._modelled(id), reader.settings.duplicates
        read = JournalRead(reader, id, start=start, stop=stop, end=reader.end())
        events: list[EventRow] = []
        try:
            while rows := read.page(self._random.choice((1, 2, 1000))):
                events += rows
        except Damaged:
            assert policy == "fail"
            assert journal is not None
            try:
                journal.visible("fail")
            except Differs:
                return
            raise
        wanted = [] if journal is None else journal.visible("first" if policy == "fail" else policy)
        wanted = [(number, offset) for number, offset in wanted if number >= start and (stop is None or number <= stop)]
        assert [(row.seq_nr, row.offset) for row in events] == wanted, (id, start, stop, policy, reader.pointer().offset)

    # -- the store --------------------------------------------------------------------------------------------

    def _compare_store(self, number: int) -> None:
        """Heads and rows, field by field, but for the size of segments."""
        model = self._models[number]
        with self._copy(number).view() as view:
            heads = dict(view.heads())
            assert set(heads) == set(model.journals)
            for id, head in heads.items():
                journal = model.journals[id]
                expiry = Expiry(journal.expire_after, journal.appended)
                first = journal.first
                assert (head.seq_nr, head.delete_to, head.offset) == (journal.seq_nr, journal.delete_to or None, journal.offset)
                assert (head.created, head.updated, head.origin) == (first.timestamp, journal.timestamp, first.action.origin)
                assert (head.expire_after, head.expire_on) == (expiry.after, expiry.on)
                assert head.record_id == record_id(self.topic.generation, number, first.offset)
                rows = [(row.seq_nr, row.offset) for rows in view.rows(id, head, 1, batch=3) for row in rows]
                assert rows == sorted(event for event in journal.events if event[0] > journal.delete_to)

    # -- the topic --------------------------------------------------------------------------------------------

    def _writer(self, log: Log) -> OpenTopic:
        writers: Writers = "owner" if self._exact else "shared"
        return OpenTopic(log, self._current_store, self.topic, writers=writers, settings=JournalSettings(), clock=SystemClock())

    def _current_store(self) -> JournalStore:
        return self._store

    def _place(self, id: str) -> int:
        return self._writers[0].place(id)

    def _end(self, number: int) -> int:
        return self._log.bounds(self.topic.name, number).end


def walk(
    open_log: Callable[[], Log], open_store: OpenJournalStore, seed: int, *, steps: int, exact: bool = True, truncates: bool = True
) -> Counter[str]:
    """Walk so many steps, and compare at the end. Errors: `AssertionError` that names the seed and the step."""
    journey = JournalWalk(open_log, open_store, seed, exact=exact, truncates=truncates)
    try:
        for _ in range(steps):
            journey.step()
        journey.finish()
    except Exception as error:
        error.add_note(f"seed {seed}, step {journey.counts.total()} of {steps}")
        raise
    finally:
        journey.close()
    return journey.counts

"""The snapshots of one partition as readers see them: the store's rings, and what the log says behind their pointer."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from headwater.core.errors import (
    Closed,
    Conflict,
    Differs,
    HeadwaterError,
    LogGap,
    OffsetGone,
    Unavailable,
    UnknownTopic,
    UnreadableRecord,
    Unsupported,
)
from headwater.journal.change import Pointer
from headwater.journal.control import ControlLog
from headwater.journal.discovery import JournalTopic, generation_of_journals, snapshot_generation, snapshots_of
from headwater.journal.event import Payload
from headwater.journal.head import Head
from headwater.journal.names import key_of, snapshot_topic
from headwater.journal.partition import AGAIN
from headwater.journal.snapshot import EMPTY_RING, Ring, Snapshot, SnapshotAction, SnapshotCriteria
from headwater.journal.snapshot_sealing import SnapshotSealing
from headwater.journal.snapshot_wire import JournalLife, deletion_record, read_snapshot, save_record
from headwater.journal.store import JournalStore, RingStore, RingView
from headwater.journal.topics import PART
from headwater.journal.whole import WholeJournals
from headwater.log import Log
from headwater.log.layout import decode_headers
from headwater.log.record import Record, Topic

T = TypeVar("T")
_FEW = 500  # records that are cheaper to read one by one than as columns
_MOST = 20_000  # actions that are kept in memory
_COLUMNS = ("offset", "timestamp", "key", "headers")


class LivingJournal(msgspec.Struct, frozen=True):
    """A journal at the end of its partition, and its life as snapshots name it."""

    head: Head
    life: JournalLife


class SnapshotPartition:
    """Reads and writes of the snapshots of one partition of journals. Blocking, and safe for several threads.

    Errors of every call: those of the log, the store and the reads of `JournalPartition`; `LogGap` where the log of snapshots begins behind
    the pointer + 1; `UnreadableRecord` for a journal with a snapshot that cannot be decoded and is not quarantined.
    """

    def __init__(
        self, log: Log, store: Callable[[], JournalStore], topic: Topic, journals: WholeJournals, *, sealing: SnapshotSealing
    ) -> None:
        """`journals`: those of the partition. `sealing`: encrypts what is saved, where the topic is encrypted."""
        self._sealing = sealing
        self._log, self._store, self._journals, self._whole = log, store, topic, journals
        self.number, self.name = journals.partition.number, snapshot_topic(topic.name)
        self._copy: tuple[str, RingStore] | None = None
        self._tail = SnapshotTail()
        self._absent = False  # no snapshot was ever copied, and there is no topic of them
        self._checked = ""  # the generation whose copy was compared with the log's end

    # -- reading ----------------------------------------------------------------------------------------------

    def living(self, id: str) -> LivingJournal | None:
        """A journal now; None: there is none."""
        head, at = self._whole.head(id)
        return None if head is None else LivingJournal(head, JournalLife(self._journals.generation, head.record_id, at))

    def find(self, id: str, criteria: SnapshotCriteria) -> list[Snapshot]:
        """The snapshots of a journal that match, the newest first, without their payloads."""
        living = self.living(id)
        if living is None:
            return []
        ring = self._viewed(lambda read: read.ring(id), EMPTY_RING)
        return [snapshot for _, snapshot in ring.of(living.life.record_id) if criteria.matches(snapshot)]

    def load(self, id: str, criteria: SnapshotCriteria) -> Snapshot | None:
        """The newest snapshot that matches, with its payload in clear. Errors: `Differs` where it was saved behind the end of the journals'
        log, which is older then; `Erased`; `Undecryptable`; those of `TopicCipher.keys`."""
        living = self.living(id)
        if living is None:
            return None
        newest = self._viewed(lambda read: read.newest(id, living.life.record_id, criteria), None)
        if newest is None:
            return None
        self._check_known(id, newest, living)
        return self._sealing.opened(id, newest)

    def _check_known(self, id: str, newest: Snapshot, living: LivingJournal) -> None:
        """Errors: `Differs` for a snapshot of events that the journals' log does not hold: one that was restored from an older backup, or
        goes on from there. They would be in the state of an entity, and in no journal."""
        if not _ahead(newest, living):
            return
        now = self.living(id)  # another process may have appended and saved meanwhile
        if now is not None and now.life.record_id == living.life.record_id and _ahead(newest, now):
            raise Differs(
                f"A snapshot of journal {id!r:.60} is of event {newest.seq_nr}, saved when {self._journals.name}/{self.number} ended at "
                f"offset {newest.at}; now it ends at {now.life.at}, and the journal with event {now.head.last}: the log is older.",
                hint="Bring the newer log back, or let go of what was made of it: "
                f"`headwater journal snapshot delete {self._journals.name} ID --min-seq-nr {min(newest.seq_nr, now.head.last + 1)}`.",
            )

    # -- writing ----------------------------------------------------------------------------------------------

    def holds(self, id: str, seq_nr: int, offset: int) -> bool:
        """Whether a journal has its event of a number in the record at an offset."""
        row = self._whole.event(id, seq_nr, seq_nr)
        return row is not None and row.offset == offset

    def save(self, id: str, seq_nr: int, payload: Payload, living: LivingJournal, by: tuple[str | None, str | None]) -> int:
        """Write a snapshot down; returns its offset once it is durable. Makes the topic where it is missing. Errors: `TooLarge`;
        `Unsupported` where the journals' topic has grown since; those of `SnapshotSealing.sealed`."""
        sealed = self._sealing.sealed(id, seq_nr, payload, living.head)
        return self._append(save_record(id, seq_nr, sealed, living.life, by))

    def delete(self, id: str, criteria: SnapshotCriteria, life: JournalLife, by: tuple[str | None, str | None]) -> int:
        """Write down that the snapshots which match are deleted; returns the record's offset once it is durable."""
        return self._append(deletion_record(id, criteria, life, by))

    def _append(self, record: Record) -> int:
        try:
            topic = self._log.topic(self.name)
        except UnknownTopic:
            settings = msgspec.structs.replace(self._journals.settings, owner="")
            topic = self._log.create_topic(self.name, partitions=self._journals.partitions, settings=settings, part=PART)
        if topic.partitions != self._journals.partitions:
            raise Unsupported(
                f"{self._journals.name} has {self._journals.partitions} partitions, and {self.name} has {topic.partitions}.",
                hint=f"Give {self.name} as many with Kafka's own tools, or delete it where its snapshots are of earlier journals.",
            )
        self._check_end(
            JournalTopic(self.name, topic.partitions, snapshot_generation(topic.generation, self._journals.generation), "snapshots")
        )
        return self._log.append(self.name, self.number, [record], part=PART)[0]

    def _check_end(self, topic: JournalTopic) -> None:
        """Once, before the first record. A store that cannot be asked keeps nobody from saving. Errors: as `check_copied`."""
        if self._checked == topic.generation:
            return
        try:
            copy = self._opened(topic)
            pointer = Pointer(-1) if copy is None else copy.pointer()
            if pointer.generation == topic.generation:
                check_copied(self._log, topic, self.number, pointer)
        except Differs:
            raise
        except HeadwaterError:
            return
        self._checked = topic.generation

    # -- both together ----------------------------------------------------------------------------------------

    def _viewed(self, call: Callable[[_SnapshotRead], T], nothing: T) -> T:
        """Call with a view; again where the store has changed it, or the log was deleted up to a newer pointer."""
        topic = snapshots_of(self._log, JournalTopic(self._journals.name, self._journals.partitions, self._journals.generation))
        if topic is None:
            self._check_absent()
        if topic is None or self.number >= topic.partitions:
            return nothing
        for left in range(AGAIN, -1, -1):
            try:
                return self._reached(topic, call)
            except (OffsetGone, Conflict):
                if not left:
                    raise
        raise AssertionError("unreachable")

    def _reached(self, topic: JournalTopic, call: Callable[[_SnapshotRead], T]) -> T:
        """Call with a view, or with the log alone: it stands in for a store that does not answer, where it holds everything."""
        reach, whole = self._whole.partition.reach, self._log.bounds(self.name, self.number).start == 0
        if whole and reach.away():
            return call(_SnapshotRead(self._log, topic, self.number, tail=self._tail, view=None, start=0))
        try:
            answer = self._once(topic, call)
        except Unavailable as error:
            if not whole or isinstance(error, Closed):
                raise
            reach.lost()
            return call(_SnapshotRead(self._log, topic, self.number, tail=self._tail, view=None, start=0))
        reach.found()
        return answer

    def _check_absent(self) -> None:
        """Once, where no topic of snapshots is there. Errors: `Differs` where the store has copied some: an entity whose events are deleted
        up to a snapshot would be loaded without it, as if it had begun there."""
        if self._absent:
            return
        copy = self._store().snapshots(self.name, self.number, "", create=False)
        pointer = Pointer(-1) if copy is None else copy.pointer()
        if pointer.offset >= 0 and generation_of_journals(pointer.generation) == self._journals.generation:
            raise Differs(
                f"There is no topic {self.name}, and the store has copied {self.name}/{self.number} up to offset {pointer.offset}.",
                hint="Bring the topic back from its backup. Without one, save a snapshot: that makes the topic anew, without the old ones.",
            )
        self._absent = True

    def _once(self, topic: JournalTopic, call: Callable[[_SnapshotRead], T]) -> T:
        copy, start = self._opened(topic), 0
        if copy is not None:
            try:
                with copy.view() as view:
                    return call(_SnapshotRead(self._log, topic, self.number, tail=self._tail, view=view, start=view.pointer.offset + 1))
            except Differs:
                if copy.pointer().generation == topic.generation:
                    raise
                # The copy is of an earlier topic of journals. What the log has deleted was copied then, and counts for nothing now.
                start = self._log.bounds(self.name, self.number).start
        return call(_SnapshotRead(self._log, topic, self.number, tail=self._tail, view=None, start=start))

    def _opened(self, topic: JournalTopic) -> RingStore | None:
        if self._copy is None or self._copy[0] != topic.generation:
            copy = self._store().snapshots(topic.name, self.number, topic.generation, create=False)
            if copy is None:
                return None
            self._copy = topic.generation, copy
        return self._copy[1]


class _SnapshotRead:
    """One read: the store's rings at one moment, and the log from `start` on."""

    def __init__(self, log: Log, topic: JournalTopic, partition: int, *, tail: SnapshotTail, view: RingView | None, start: int) -> None:
        self._log, self._topic, self._partition, self._tail, self._view, self._start = log, topic, partition, tail, view, start

    def ring(self, id: str) -> Ring:
        return self._both(id)[1]

    def newest(self, id: str, record_id: uuid.UUID | None, criteria: SnapshotCriteria) -> Snapshot | None:
        """The newest snapshot that matches, with its payload."""
        stored, ring = self._both(id)
        for slot, snapshot in ring.of(record_id):
            if criteria.matches(snapshot):
                try:
                    return msgspec.structs.replace(snapshot, payload=self._payload(stored, id, slot, snapshot))
                except UnreadableRecord as error:
                    if error.offset not in self._quarantined():
                        raise
        return None

    def _both(self, id: str) -> tuple[Ring, Ring]:
        """The ring in the store, and the ring at the end of the log."""
        stored = EMPTY_RING if self._view is None else self._view.ring(id)
        bounds = self._log.bounds(self._topic.name, self._partition)
        if self._view is not None:
            check_copied(self._log, self._topic, self._partition, self._view.pointer)
        if self._start < bounds.start:
            raise LogGap(
                f"{self._topic.name}/{self._partition} begins at offset {bounds.start}, and the store lacks the snapshots from "
                f"{self._start} on.",
                hint="Restore the store from a backup that is newer; the log no longer holds them.",
            )
        actions = self._tail.actions(self._log, self._topic, self._partition, key_of(id), self._start, bounds.end)
        return stored, stored.then(self._readable(actions))

    def _readable(self, actions: Iterable[SnapshotAction | UnreadableRecord]) -> list[SnapshotAction]:
        readable: list[SnapshotAction] = []
        for action in actions:
            if not isinstance(action, UnreadableRecord):
                readable.append(action)
            elif action.offset not in self._quarantined():
                raise action
        return readable

    def _quarantined(self) -> tuple[int, ...]:
        control = ControlLog(self._log, self._topic.journals)
        control.look()
        return control.partition(self._topic.generation, self._partition).quarantined

    def _payload(self, stored: Ring, id: str, slot: int, snapshot: Snapshot) -> Payload:
        if self._view is not None and stored.slots.get(slot) is snapshot:
            return self._view.payload(id, slot, snapshot)
        record = self._log.read_at(self._topic.name, self._partition, [snapshot.offset])[0]
        read = None if record is None else read_snapshot(record, generation_of_journals(self._topic.generation))
        if read is None or not isinstance(read[1], Snapshot) or read[1].payload is None:
            raise OffsetGone(f"{self._topic.name}/{self._partition} no longer holds offset {snapshot.offset}.", hint="Read again.")
        return read[1].payload


def _ahead(snapshot: Snapshot, living: LivingJournal) -> bool:
    return snapshot.at > living.life.at or snapshot.seq_nr > living.head.last


def check_copied(log: Log, topic: JournalTopic, partition: int, pointer: Pointer) -> None:
    """Errors: `Differs` where the store has copied more than the log holds: new snapshots would count as copied, and nobody would ever
    read them."""
    end = log.bounds(topic.name, partition).end
    if pointer.offset >= end:
        raise Differs(
            f"The store has copied {topic.name}/{partition} up to offset {pointer.offset}, and the log ends at {end}: it is older.",
            hint=f"Bring the newer log back, or make the copy anew: `headwater journal rebuild {topic.journals}`.",
        )


class SnapshotTail:
    """What the records behind a store's pointer do, by journal, without their payloads: read once, and kept up to a bound."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._forget("", 0)

    def _forget(self, generation: str, since: int) -> None:
        self._generation, self._since, self._end, self._count = generation, since, since, 0
        self._actions: dict[bytes, list[SnapshotAction | UnreadableRecord]] = {}

    def actions(
        self, log: Log, topic: JournalTopic, partition: int, key: bytes, start: int, end: int
    ) -> list[SnapshotAction | UnreadableRecord]:
        """The actions of a journal in [start, end), in their order; an error stands for a record that cannot be decoded."""
        if end - start > _MOST:  # more than memory may hold: find those of this journal alone
            return _found(log, topic, partition, key, start, end)
        with self._guard:
            if self._generation != topic.generation or start > self._end or start < self._since:
                self._forget(topic.generation, start)
            if self._end < end:
                if self._count > _MOST:
                    self._drop(start)
                self._read(log, topic, partition, end)
            return [action for action in self._actions.get(key, ()) if start <= action.offset < end]

    def _drop(self, start: int) -> None:
        """Forget what is copied by now."""
        remaining = {key: [action for action in actions if action.offset >= start] for key, actions in self._actions.items()}
        self._actions = {key: actions for key, actions in remaining.items() if actions}
        self._count, self._since = sum(map(len, self._actions.values())), max(self._since, start)

    def _read(self, log: Log, topic: JournalTopic, partition: int, end: int) -> None:
        if end - self._end <= _FEW:
            while self._end < end:
                records = log.read(topic.name, partition, self._end, limit=end - self._end)
                self._add(topic, records)
                self._end = (records[-1].offset or 0) + 1 if records else end
        else:
            for batch in log.scan(topic.name, partition, self._end, end):
                columns = [batch.column(name).to_pylist() for name in _COLUMNS]
                self._add(topic, (_described(*row) for row in zip(*columns, strict=True)))
            self._end = end

    def _add(self, topic: JournalTopic, records: Iterable[Record]) -> None:
        for record in records:
            action = _action(topic, record)
            if action is not None and record.key is not None:
                self._actions.setdefault(record.key, []).append(action)
                self._count += 1


def _found(log: Log, topic: JournalTopic, partition: int, key: bytes, start: int, end: int) -> list[SnapshotAction | UnreadableRecord]:
    """The actions of one journal, found in the log."""
    import pyarrow as pa
    import pyarrow.compute as pc

    actions: list[SnapshotAction | UnreadableRecord] = []
    for batch in log.scan(topic.name, partition, start, end):
        rows = pc.indices_nonzero(pc.equal(batch.column("key").cast(pa.binary()), pa.scalar(key, pa.binary()))).to_pylist()
        columns = [batch.column(name) for name in _COLUMNS]
        for row in rows:
            action = _action(topic, _described(*(column[row].as_py() for column in columns)))
            if action is not None:
                actions.append(action)
    return actions


def _action(topic: JournalTopic, record: Record) -> SnapshotAction | UnreadableRecord | None:
    """What a record does, without its payload."""
    try:
        read = read_snapshot(record, generation_of_journals(topic.generation), payload=False)
    except UnreadableRecord as error:
        return error
    return None if read is None else read[1]


def _described(offset: int, timestamp: int, key: bytes | None, block: bytes | None) -> Record:
    """A record without its value."""
    return Record(key, None, () if block is None else tuple(decode_headers(block)), timestamp, offset=offset)

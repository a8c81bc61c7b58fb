"""A topic of journals that this process has open: its partitions and their writers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial

from headwater.cluster import OwnedPartition
from headwater.core.clock import Clock
from headwater.core.errors import Differs, Fenced, HeadwaterError, OutcomeUnknown
from headwater.journal.claims import has_claims
from headwater.journal.counts import note_count, partition_counts
from headwater.journal.discovery import JournalTopic
from headwater.journal.entity_keys import EntityKeys
from headwater.journal.envelope import is_sealed
from headwater.journal.expiry import has_expired
from headwater.journal.grown import GrownJournal, GrownRead, journals_of
from headwater.journal.grown_keys import GrownKeys, OlderKeys
from headwater.journal.grown_snapshots import GrownSnapshots
from headwater.journal.head import Head
from headwater.journal.idempotency import KeyIndex
from headwater.journal.journal_log import ClaimLost
from headwater.journal.names import key_of
from headwater.journal.partition import JournalPartition
from headwater.journal.partition_writer import PartitionWriter
from headwater.journal.places import places_of
from headwater.journal.read import JournalRead
from headwater.journal.sealing import PartitionSealing
from headwater.journal.settings import JournalSettings
from headwater.journal.snapshot_partition import SnapshotPartition
from headwater.journal.snapshot_sealing import SnapshotSealing
from headwater.journal.store import JournalStore
from headwater.journal.store_reach import StoreReach
from headwater.journal.topic_cipher import TopicCipher
from headwater.journal.topics import PART, Writers
from headwater.journal.whole import WholeJournals
from headwater.log import Guard, Log
from headwater.log.partitioner import partition_for
from headwater.log.record import Record, Topic

_PATIENCE = 5.0  # seconds that the first append waits for the store to say how far it has copied
_MOST_PLACES = 200_000  # ids whose partition is remembered: hashing one costs more than a whole look-up


Own = Callable[[str, int], OwnedPartition]
"""Owns a partition of a topic of ours, or raises `NotOwner`. Blocking."""


def record_shown(partition: JournalPartition, id: str, seq_nr: int, offset: int) -> bool:
    """Whether reads of a journal give the event of a number from the record at an offset; False also where nothing can be read."""
    try:
        rows = JournalRead(partition, id, start=seq_nr, stop=seq_nr, end=partition.end()).page(1)
    except HeadwaterError:
        return False
    return bool(rows) and (rows[0].partition, rows[0].offset) == (partition.number, offset)


class _PartitionLog:
    """What the logs of partitions have in common."""

    _partition: JournalPartition

    def expired(self, id: str, today: date, end: int) -> bool:
        """Whether a journal, as of an offset, has expired by a day."""
        head = self._partition.full_head(id, end)
        return head is not None and has_expired(head, today)

    def sealed_at(self, id: str, seq_nr: int, end: int) -> bool:
        """Whether the event of this number, below an offset, is encrypted."""
        rows = JournalRead(self._partition, id, start=seq_nr, end=end).page(1)
        return bool(rows) and is_sealed(rows[0].payload)


class EndCheck:
    """Compares the end of a partition with its copy, in a thread of its own. `error`: what that has found, once `ended` is set."""

    def __init__(self, partition: JournalPartition) -> None:
        self._partition, self.ended = partition, threading.Event()
        self.error: Exception | None = None
        threading.Thread(target=self._run, name="headwater-journal-end", daemon=True).start()

    def _run(self) -> None:
        try:
            self._partition.check_end()
        except Exception as error:
            self.error = error
        self.ended.set()


class PlainJournalLog(_PartitionLog):
    """The log of a partition that needs no claim: on this machine, or shared with others on Kafka."""

    alone = False
    epoch = 0

    def __init__(self, partition: JournalPartition, *, exact: bool, part: str) -> None:
        self._partition, self.exact, self._part = partition, exact, part
        self.generation = partition.topic.generation
        self.read, self.last_number, self.near = partition.read, partition.last_number, partition.near
        self._checked = self._waited = False
        self._end_check: EndCheck | None = None

    def prepare(self) -> bool:
        """Nothing is to be owned."""
        return False

    def end(self) -> int:
        """The durable end, of memory where the log has it there: an append finds out whether the topic is still the one."""
        partition = self._partition
        known_end = partition.log.known_end(partition.topic.name, partition.number)
        return partition.end() if known_end is None else known_end

    def append(self, records: Sequence[Record], guard: Guard | None) -> Sequence[int]:
        """As `Log.append`. Errors: also `Differs` where the store has copied more than the log holds."""
        partition = self._partition
        if not self._checked:
            self._check()
        return partition.log.append(partition.topic.name, partition.number, records, guard=guard, part=self._part)

    def _check(self) -> None:
        """Once, before the first record: events that bring their numbers ask no store, and would be taken for copied ones. A store that
        cannot be asked keeps nobody from appending: it is waited for once, and asked again beside later appends. Where
        it differs, it is waited for anew."""
        check = self._end_check = self._end_check or EndCheck(self._partition)
        if not check.ended.wait(0 if self._waited else _PATIENCE):
            self._waited = True
            return
        self._end_check = None
        if isinstance(check.error, Differs):
            self._waited = False  # the next append waits for its own look, or it would be taken and never read
            raise check.error
        self._waited = True
        self._checked = check.error is None


class OwnedJournalLog(_PartitionLog):
    """The log of a partition on Kafka that this process owns: its records alone count, as long as no newer claim lies before them."""

    alone = exact = True

    def __init__(self, partition: JournalPartition, own: Own) -> None:
        self._partition, self._own = partition, own
        self.generation = partition.topic.generation
        self.end, self.read, self.last_number, self.near = partition.end, partition.read, partition.last_number, partition.near
        self._owned: OwnedPartition | None = None
        self._unknown = False
        self.epoch = 0

    def prepare(self) -> bool:
        """Own the partition; claim it again after an append of unknown outcome, so that records under way no longer count."""
        anew = self._prepare()
        self.epoch = 0 if self._owned is None else self._owned.writer.epoch
        return anew

    def _prepare(self) -> bool:
        if self._owned is not None and self._owned.lost:
            self._release()
        if self._owned is not None and self._unknown:
            try:
                self._owned.renew()
            except Fenced:
                self._release()
            else:
                self._unknown = False
                return True
        if self._owned is None:
            self._owned, self._unknown = self._own(self._partition.topic.name, self._partition.number), False
            return True
        return False

    def append(self, records: Sequence[Record], guard: Guard | None) -> Sequence[int]:
        """As `Writer.append`."""
        assert self._owned is not None
        try:
            return self._owned.writer.append(records)
        except OutcomeUnknown:
            self._unknown = True
            raise
        except Fenced:
            self._release()
            raise ClaimLost from None

    def _release(self) -> None:
        owned, self._owned = self._owned, None
        if owned is not None:
            owned.release()


class OpenTopic:
    """Belongs to one event loop. `by`: the origin and the version that records name."""

    def __init__(
        self,
        log: Log,
        store: Callable[[], JournalStore],
        topic: Topic,
        *,
        writers: Writers,
        settings: JournalSettings,
        clock: Clock,
        by: tuple[str | None, str | None] = (None, None),
        own: Own | None = None,
        quick: bool = False,
        keys: Callable[[], EntityKeys | None] = lambda: None,
    ) -> None:
        """`own`: for a log without a lock of its own, which is Kafka's. `quick`: as of `JournalPartition`. `keys`: as of `TopicCipher`."""
        self._own = own
        self.cipher = TopicCipher(log, topic, keys, clock=clock, exact=writers == "owner")
        """The topic's encryption."""
        self.log, self.topic, self.writers, self._clock, self.by = log, topic, writers, clock, by
        reach = StoreReach(clock)
        self.partitions = [
            JournalPartition(log, store, topic, number, settings=settings, quick=quick, reach=reach) for number in range(topic.partitions)
        ]
        self._store = store
        self._snapshots: list[SnapshotPartition | None] = [None] * topic.partitions
        self._writers: list[PartitionWriter | None] = [None] * topic.partitions
        self._places: dict[str, int] = {}
        self._counts: tuple[int, ...] = () if log.engine == "kafka" else (topic.partitions,)

    def journal(self, id: str) -> GrownJournal | None:
        """A journal that has several places, because the topic grew; None for one that its partition has whole. Blocking.

        Errors: those of the store, which keeps the numbers of partitions.
        """
        if not self._counts:
            topic = JournalTopic(self.topic.name, self.topic.partitions, self.topic.generation)
            note_count(self._store(), topic)
            self._counts = partition_counts(self._store(), topic)
        return journals_of(id, self._counts, self.partitions.__getitem__) if len(self._counts) > 1 else None

    def read(self, id: str, *, start: int = 1, stop: int | None = None, end: int | None) -> JournalRead | GrownRead:
        """A read of a journal. `end`: the offset of its newest place below which records count; None: the store alone. Blocking."""
        grown = self.journal(id)
        if grown is not None:
            return grown.read(start=start, stop=stop, end=end, opens=self.cipher.open_rows)
        return JournalRead(self.partition(id), id, start=start, stop=stop, end=end, opens=self.cipher.open_rows)

    def head(self, id: str, end: int | None, *, full: bool = False) -> Head | None:
        """The head of a journal. `full`: with its expiry and origin. Blocking."""
        grown = self.journal(id)
        if grown is not None:
            return grown.head(end, full=full)
        partition = self.partition(id)
        return partition.full_head(id, end) if full else partition.joined(id, end).head

    def places(self, id: str) -> tuple[int, ...]:
        """All partitions with records of a journal. Blocking."""
        self.journal(id)
        return places_of(key_of(id), self._counts)

    @property
    def grown(self) -> bool:
        """Whether the topic grew, as far as a call of `journal` has found out."""
        return len(self._counts) > 1

    def place(self, id: str) -> int:
        """The partition of a journal. Errors: `BadInput` for what is no id."""
        place = self._places.get(id)
        if place is None:
            place = partition_for(key_of(id), self.topic.partitions)
            if len(self._places) >= _MOST_PLACES:
                self._places.clear()
            self._places[id] = place
        return place

    def partition(self, id: str) -> JournalPartition:
        """The partition of a journal. Errors: `BadInput` for what is no id."""
        return self.partitions[self.place(id)]

    def snapshots(self, id: str) -> SnapshotPartition | GrownSnapshots:
        """Where the snapshots of a journal lie. Blocking. Errors: `BadInput` for what is no id; those of `journal`."""
        places = (self.place(id),) if self.journal(id) is None else self.places(id)
        snapshots = [self.snapshots_of(number) for number in places]
        return snapshots[0] if len(snapshots) == 1 else GrownSnapshots(snapshots)

    def snapshots_of(self, number: int) -> SnapshotPartition:
        """The snapshots of one partition."""
        snapshots = self._snapshots[number]
        if snapshots is None:
            journals = WholeJournals(self.partitions[number], self.journal)
            sealing = SnapshotSealing(self.cipher, journals)
            snapshots = self._snapshots[number] = SnapshotPartition(self.log, self._store, self.topic, journals, sealing=sealing)
        return snapshots

    def writer(self, id: str) -> PartitionWriter:
        """The writer of a journal's partition."""
        place = self._places.get(id)
        number = self.place(id) if place is None else place
        writer = self._writers[number]
        if writer is None:
            writer = self._writers[number] = self._made(number)
        return writer

    def _made(self, number: int) -> PartitionWriter:
        name = self.topic.name
        log: OwnedJournalLog | PlainJournalLog
        if self._own is not None and self.writers == "owner":
            log = OwnedJournalLog(self.partitions[number], self._own)
        else:
            part = PART if self.topic.settings.owner == PART else ""
            log = PlainJournalLog(self.partitions[number], exact=self.writers == "owner", part=part)
        if self.log.engine == "kafka":
            log.last_number = partial(self._last_number, self.partitions[number])
            log.expired = self._expired  # type: ignore[method-assign]
        largest = self.topic.settings.max_record
        keys = self._keys(number)
        if self.log.engine == "kafka":
            keys = GrownKeys(keys, self._older_keys(number))
        sealing = PartitionSealing(
            self.cipher, log, partition=number, mine=lambda id: self.place(id) == number, clock=self._clock, by=self.by, max_record=largest
        )
        return PartitionWriter(log, partition=number, keys=keys, by=self.by, name=f"{name}-{number}", max_record=largest, sealing=sealing)

    def _keys(self, number: int) -> KeyIndex:
        claimed, shown = has_claims(self.log, self.topic), partial(record_shown, self.partitions[number])
        return KeyIndex(self.log, self.topic.name, number, now=self._clock.now_ms, claimed=claimed, shown=shown)

    def _older_keys(self, number: int) -> OlderKeys:
        """The keys of older places, for the writer of a partition."""
        indexes: dict[int, KeyIndex] = {}

        def older(id: str) -> list[tuple[KeyIndex, int]]:
            older_indexes = []
            for place in self.places(id):
                if place != number:
                    indexes[place] = indexes.get(place) or self._keys(place)
                    older_indexes.append((indexes[place], self.partitions[place].end()))
            return older_indexes

        return older

    def _last_number(self, partition: JournalPartition, id: str, end: int) -> int:
        grown = self.journal(id)
        return partition.last_number(id, end) if grown is None else grown.last_number(end)

    def _expired(self, id: str, today: date, end: int) -> bool:
        head = self.head(id, end, full=True)
        return head is not None and has_expired(head, today)

    async def aclose(self) -> None:
        """Finish the calls under way, and end the writers' threads."""
        writers, self._writers = self._writers, [None] * self.topic.partitions
        await asyncio.gather(*(writer.aclose() for writer in writers if writer is not None))

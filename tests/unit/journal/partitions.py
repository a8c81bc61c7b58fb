"""A partition of journals over a directory: records are written as they are, and copied into the store as far as a test says."""

from __future__ import annotations

from pathlib import Path

from headwater.core.clock import SystemClock
from headwater.journal.action import Action, Append, PayloadMetadata
from headwater.journal.append_draft import payload_of
from headwater.journal.cache import CacheLimits
from headwater.journal.event import MAX_SEQ_NR, Event, NumberedEvent
from headwater.journal.event_bodies import decode_events, encode_events
from headwater.journal.partition import JournalPartition
from headwater.journal.range_fold import fold_range
from headwater.journal.read import JournalRead
from headwater.journal.settings import Duplicates, JournalSettings
from headwater.journal.snapshot_sealing import SnapshotSealing
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.topic_cipher import TopicCipher
from headwater.journal.topics import PART
from headwater.journal.whole import WholeJournals
from headwater.journal.wire import read_record, write_record
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.journal_model import JournalModel

TOPIC = "journal-bank"


class Ground:
    """One partition with its log, its store and the model of what was written."""

    def __init__(self, folder: Path, *, segment_size: int = 3, limits: CacheLimits | None = None, duplicates: Duplicates = "first") -> None:
        self.log = EmbeddedLog(folder / "data")
        self.topic = self.log.create_topic(TOPIC, part=PART)
        self.store = SqliteJournalStore(folder / "store", segment_size=segment_size)
        self.settings = JournalSettings(segment_size=segment_size, duplicates=duplicates)
        self.limits = limits
        self.partition = self.opened()
        self.model = JournalModel()
        self.short = self.long = 0  # reads that took the short way, and that could not

    def opened(self) -> JournalPartition:
        """The partition as another process opens it."""
        return JournalPartition(self.log, lambda: self.store, self.topic, 0, settings=self.settings, limits=self.limits, quick=True)

    def put(self, id: str, action: Action, events: list[Event] | None = None, expire_after: int | None = None) -> int:
        """Write a record as it is."""
        value = None
        if events is not None:
            numbered = [NumberedEvent(event.seq_nr or 0, payload_of(event.payload), tuple(event.tags)) for event in events]
            kind, value = encode_events(numbered, PayloadMetadata(expire_after))
            assert isinstance(action, Append)
            action = Append(action.first, action.last, kind, action.origin, action.version)
        (offset,) = self.log.append(TOPIC, 0, [write_record(id, action, value=value)], part=PART)
        self.count(offset)
        return offset

    def append(self, id: str, *numbers: int, payload: object = None, expire_after: int | None = None) -> int:
        """Write an Append of these numbers."""
        events = [Event({"n": number} if payload is None else payload, number) for number in numbers]
        return self.put(id, Append(numbers[0], numbers[-1]), events, expire_after)

    def count(self, offset: int) -> None:
        """Let the model take the record at an offset."""
        (record,) = self.log.read(TOPIC, 0, offset, limit=1)
        found = read_record(record)
        if found is None:
            return
        numbers: tuple[int, ...] = ()
        after = None
        if isinstance(found.action, Append):
            body = decode_events(found.action.payload_type, found.value or b"")
            numbers, after = tuple(event.seq_nr for event in body.events), body.metadata.expire_after
        self.model.add(found, numbers, after)

    def copy(self, end: int | None = None) -> None:
        """Copy the log into the store, up to an offset."""
        copy = self.store.partition(TOPIC, 0, self.topic.generation)
        assert copy is not None
        pointer = copy.pointer()
        start, end = pointer.offset + 1, self.partition.end() if end is None else end
        if end > start:
            records = self.log.read(TOPIC, 0, start, limit=end - start)
            folded = fold_range(
                topic=TOPIC, partition=0, generation=self.topic.generation, start=start, end=end, records=records, epoch=pointer.epoch
            )
            assert folded.poison is None
            assert copy.apply(folded.change)

    def read(self, id: str, start: int = 1, stop: int | None = None, *, page: int = 1000, end: int | None = None) -> list[tuple[int, int]]:
        """Numbers and offsets of the events that a read gives."""
        reading = JournalRead(self.partition, id, start=start, stop=stop, end=self.partition.end() if end is None else end)
        found = []
        while rows := reading.page(page):
            assert len(rows) <= page
            found += [(row.seq_nr, row.offset) for row in rows]
        return found

    def numbers(self, id: str, start: int = 1, stop: int | None = None, *, page: int = 1000) -> list[int]:
        return [number for number, _ in self.read(id, start, stop, page=page)]

    def pointer(self, id: str) -> int | None:
        head = self.partition.joined(id, self.partition.end()).head
        return None if head is None else head.seq_nr

    def check(self, id: str, page: int = 1000) -> None:
        """Compare a journal with the model."""
        journal = self.model.journals.get(id)
        head = self.partition.full_head(id, self.partition.end())
        assert (head is None) == (journal is None), id
        if journal is not None and head is not None:
            told = (head.seq_nr, head.deleted, head.offset, head.expire_after, head.created)
            assert told == (journal.seq_nr, journal.delete_to, journal.offset, journal.expire_after, journal.first.timestamp), id
        expected = [] if journal is None else journal.visible(self.settings.duplicates)
        assert self.read(id, page=page) == expected, id
        self.check_short(id, 1, MAX_SEQ_NR, expected)
        if expected:
            start, stop = expected[len(expected) // 3][0], expected[-1 - len(expected) // 3][0]
            self.check_short(id, start, stop, [place for place in expected if start <= place[0] <= stop])

    def check_short(self, id: str, start: int, stop: int, expected: list[tuple[int, int]]) -> None:
        """Compare the short way of a read, where it is open, with what the long one gives."""
        events = self.partition.short_read(id, start, stop)
        if events is None:
            self.long += 1
        else:
            assert [(event.seq_nr, event.offset) for event in events] == expected, id
            self.short += 1

    def close(self) -> None:
        self.log.close()
        self.store.close()


def clear_sealing(ground: Ground) -> SnapshotSealing:
    """Of a topic that is not encrypted."""
    return SnapshotSealing(TopicCipher(ground.log, ground.topic, lambda: None, clock=SystemClock()), WholeJournals(ground.partition))

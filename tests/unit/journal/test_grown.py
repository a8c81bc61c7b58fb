from __future__ import annotations

from random import Random

from tests.unit.journal.ground import TOPIC, Ground, appended, deleted, purged, random_records

from headwater.journal.grown import GrownJournal, journals_of
from headwater.journal.head import Head
from headwater.journal.partition import JournalPartition
from headwater.journal.places import places_of
from headwater.journal.replication_task import PartitionTask, copy_partition
from headwater.journal.settings import JournalSettings
from headwater.log.record import Record

COUNTS = (2, 4)
ID = next(name for name in map(str, range(100)) if len(places_of(name.encode(), COUNTS)) == 2)
OLD, NEW = places_of(ID.encode(), COUNTS)


class Grown:
    """A topic of four partitions that had two; the records of one journal in its older and its newer place."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.topic = ground.log.create_topic(TOPIC, partitions=4, part="journal")

    def copy(self, place: int, end: int | None = None) -> None:
        until = self.ground.log.bounds(TOPIC, place).end if end is None else end
        task = PartitionTask(topic=TOPIC, partition=place, generation=self.topic.generation, end=until, counts=COUNTS)
        assert copy_partition(self.ground.log, self.ground.store, task).problem is None

    def partition(self, number: int) -> JournalPartition:
        return JournalPartition(self.ground.log, lambda: self.ground.store, self.topic, number, settings=JournalSettings())

    def journal(self) -> GrownJournal:
        found = journals_of(ID, COUNTS, self.partition)
        assert found is not None
        return found

    def head(self) -> Head | None:
        return self.journal().head(self.partition(NEW).end())

    def numbers(self, start: int = 1) -> list[int]:
        read = self.journal().read(start=start, end=self.partition(NEW).end())
        found: list[int] = []
        while rows := read.page(2):
            found += [row.seq_nr for row in rows]
        return found

    def shows(self, numbers: list[int], last: int | None) -> None:
        """At every step of replication of both places."""
        for old in range(self.ground.log.bounds(TOPIC, OLD).end + 1):
            for place in (OLD, NEW):
                copy = self.ground.store.partition(TOPIC, place, self.topic.generation)
                assert copy is not None
                copy.clear()
            self.copy(OLD, old)
            for new in range(self.ground.log.bounds(TOPIC, NEW).end + 1):
                self.copy(NEW, new)
                head = self.head()
                assert self.numbers() == numbers, (old, new)
                assert (None if head is None else head.last) == last, (old, new)


def test_events_of_both_places_are_read_older_first(ground: Ground) -> None:
    grown = Grown(ground)
    ground.append(appended(ID, 1, 2), appended("other", 1), appended(ID, 3), partition=OLD)
    grown.shows([1, 2, 3], 3)
    ground.append(appended(ID, 4, 5), appended(ID, 6), partition=NEW)
    grown.shows([1, 2, 3, 4, 5, 6], 6)
    assert grown.numbers(3) == [3, 4, 5, 6]


def test_a_delete_in_the_newer_place_removes_events_of_the_older_one(ground: Ground) -> None:
    grown = Grown(ground)
    ground.append(appended(ID, 1, 5), partition=OLD)
    ground.append(deleted(ID, 2), partition=NEW)
    grown.shows([3, 4, 5], 5)
    ground.append(appended(ID, 6), deleted(ID, 4), deleted(ID, 3), partition=NEW)
    grown.shows([5, 6], 6)
    ground.append(deleted(ID, 100), partition=NEW)
    grown.shows([], 6)


def test_a_purge_in_the_newer_place_ends_what_lies_in_the_older_one(ground: Ground) -> None:
    grown = Grown(ground)
    ground.append(appended(ID, 1, 5), partition=OLD)
    ground.append(purged(ID), partition=NEW)
    grown.shows([], None)
    ground.append(appended(ID, 1), partition=NEW)
    grown.shows([1], 1)


def test_a_journal_that_was_never_in_its_older_place(ground: Ground) -> None:
    grown = Grown(ground)
    grown.shows([], None)
    ground.append(deleted(ID, 3), appended(ID, 1, 2), partition=NEW)
    grown.shows([1, 2], 2)


def test_what_is_read_is_the_same_for_every_step_of_replication_of_random_histories(ground: Ground) -> None:
    for seed in range(3):
        random = Random(seed)
        grown = Grown(ground)
        for place in (OLD, NEW):
            records: list[Record] = random_records(random, 4, ids=(ID,))
            ground.append(*records, partition=place)
        head = grown.head()
        grown.shows(grown.numbers(), None if head is None else head.last)
        ground.log.delete_topic(TOPIC, part="journal")


def test_what_was_copied_before_the_growth_was_noticed_is_read(ground: Ground) -> None:
    grown = Grown(ground)
    ground.append(appended(ID, 1, 2), partition=OLD)
    ground.append(appended(ID, 3), partition=NEW)
    task = PartitionTask(topic=TOPIC, partition=NEW, generation=grown.topic.generation, end=1)  # without counts
    assert copy_partition(ground.log, ground.store, task).pointer == 0
    assert grown.numbers() == [1, 2, 3]


def test_a_journal_with_one_place_is_none(ground: Ground) -> None:
    grown = Grown(ground)
    stays = next(name for name in map(str, range(100)) if len(places_of(name.encode(), COUNTS)) == 1)
    assert journals_of(stays, COUNTS, grown.partition) is None

"""Snapshots of journals of a topic that grew: they lie where their journals lay when they were saved."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended, deleted, purged
from tests.unit.journal.test_grown import COUNTS, ID, NEW, OLD, Grown

from headwater.core.clock import SystemClock
from headwater.journal.counts import note_count
from headwater.journal.discovery import JournalTopic, snapshots_of
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.open_topic import OpenTopic
from headwater.journal.replication_task import PartitionTask, copy_partition
from headwater.journal.settings import JournalSettings
from headwater.journal.snapshot import Snapshot, SnapshotCriteria
from headwater.journal.verify import verify_topic
from headwater.log.embedded.log import EmbeddedLog

NAME = f"snapshot-{TOPIC}"
ALL = SnapshotCriteria()


class GrowingLog(EmbeddedLog):
    """A log whose topics may have had fewer partitions, as Kafka's."""

    engine = "kafka"


class GrownSnapshotsGround:
    """A topic of four partitions that had two, as a process has it open; the snapshots of one journal in both of its places."""

    def __init__(self, ground: Ground) -> None:
        ground.log.close()
        ground.log = GrowingLog(ground.data, clock=ground.clock)
        self.ground, self.grown = ground, Grown(ground)
        generation = self.grown.topic.generation
        for count in COUNTS:
            note_count(ground.store, JournalTopic(TOPIC, count, generation))
        self.topic = OpenTopic(
            ground.log, lambda: ground.store, self.grown.topic, writers="shared", settings=JournalSettings(), clock=SystemClock()
        )

    def save(self, seq_nr: int, value: bytes = b"{}") -> None:
        snapshots = self.topic.snapshots(ID)
        living = snapshots.living(ID)
        assert living is not None
        snapshots.save(ID, seq_nr, Payload(PayloadKind.JSON, value), living, ("host", "1.0"))

    def save_before(self, seq_nr: int) -> None:
        """Save a snapshot in the journal's older place, as a process did before the topic grew."""
        older = self.topic.snapshots_of(OLD)
        living = older.living(ID)
        assert living is not None
        older.save(ID, seq_nr, Payload(PayloadKind.JSON, b"{}"), living, ("host", "1.0"))

    def load(self, criteria: SnapshotCriteria = ALL) -> Snapshot | None:
        return self.topic.snapshots(ID).load(ID, criteria)

    def newest(self, criteria: SnapshotCriteria = ALL) -> int | None:
        found = self.load(criteria)
        return None if found is None else found.seq_nr

    def numbers(self) -> list[int]:
        return [one.seq_nr for one in self.topic.snapshots(ID).find(ID, ALL)]

    def generation(self) -> str:
        topic = snapshots_of(self.ground.log, JournalTopic(TOPIC, 4, self.grown.topic.generation))
        assert topic is not None
        return topic.generation

    def copy_snapshots(self, place: int, end: int | None = None) -> None:
        end = self.ground.log.bounds(NAME, place).end if end is None else end
        task = PartitionTask(topic=NAME, partition=place, generation=self.generation(), end=end, holds="snapshots")
        assert copy_partition(self.ground.log, self.ground.store, task).problem is None

    def copy(self) -> None:
        for place in (OLD, NEW):
            self.grown.copy(place)
            self.copy_snapshots(place)

    def verified(self) -> str:
        found = verify_topic(
            self.ground.log, self.ground.store, JournalTopic(TOPIC, 4, self.grown.topic.generation), address=self.ground.address
        )
        return next((one.difference for one in found.partitions if one.difference), "")


@pytest.fixture
def snapshots(tmp_path: Path) -> Iterator[GrownSnapshotsGround]:
    ground = Ground(tmp_path)
    yield GrownSnapshotsGround(ground)
    ground.close()


@pytest.mark.parametrize("copied", [False, True])
def test_a_snapshot_from_before_the_growth_is_loaded(snapshots: GrownSnapshotsGround, copied: bool) -> None:
    ground = snapshots.ground
    ground.append(appended(ID, 1, 5), partition=OLD)
    snapshots.save_before(5)
    ground.append(deleted(ID, 5), partition=NEW)
    if copied:
        snapshots.copy()
    assert snapshots.newest() == 5
    ground.append(appended(ID, 6), partition=NEW)
    if copied:
        snapshots.copy()
    assert (snapshots.newest(), snapshots.newest(SnapshotCriteria(max_seq_nr=4)), snapshots.numbers()) == (5, None, [5])
    found = snapshots.load()
    head = snapshots.topic.head(ID, snapshots.grown.partition(NEW).end())
    assert found is not None
    assert head is not None
    assert found.record_id == head.record_id


@pytest.mark.parametrize("copies", ["nothing", "snapshots first", "journals first"])
def test_a_snapshot_behind_the_growth_is_of_the_same_life(snapshots: GrownSnapshotsGround, copies: str) -> None:
    ground = snapshots.ground
    ground.append(appended(ID, 1, 3), partition=OLD)
    snapshots.save_before(3)
    snapshots.save(3, b'"newer"')  # before the journal has a record in its new place
    if copies == "journals first":
        snapshots.copy()
    ground.append(appended(ID, 4, 5), partition=NEW)
    snapshots.save(5)
    for copy in (snapshots.copy_snapshots, snapshots.grown.copy) if copies == "snapshots first" else ():
        for place in (NEW, OLD):
            copy(place)
    if copies != "nothing":
        snapshots.copy()
        assert snapshots.verified() == ""
    assert (snapshots.newest(), snapshots.numbers()) == (5, [5, 3])
    found = snapshots.load(SnapshotCriteria(max_seq_nr=3))
    assert found is not None
    assert found.payload == Payload(PayloadKind.JSON, b'"newer"')


@pytest.mark.parametrize("copied", [False, True])
def test_a_deletion_removes_snapshots_of_both_places(snapshots: GrownSnapshotsGround, copied: bool) -> None:
    ground = snapshots.ground
    ground.append(appended(ID, 1, 3), partition=OLD)
    for number in (1, 2, 3):
        snapshots.save_before(number)
    ground.append(appended(ID, 4), partition=NEW)
    snapshots.save(2)
    snapshots.save(4)
    opened = snapshots.topic.snapshots(ID)
    living = opened.living(ID)
    assert living is not None
    opened.delete(ID, SnapshotCriteria(max_seq_nr=2), living.life, ("host", "1.0"))
    if copied:
        snapshots.copy()
        assert snapshots.verified() == ""
    assert snapshots.numbers() == [4, 3]


@pytest.mark.parametrize("copied", [False, True])
def test_a_purge_behind_the_growth_ends_the_snapshots_of_both_places(snapshots: GrownSnapshotsGround, copied: bool) -> None:
    ground = snapshots.ground
    ground.append(appended(ID, 1, 3), partition=OLD)
    snapshots.save_before(3)
    ground.append(appended(ID, 4), partition=NEW)
    snapshots.save(4)
    ground.append(purged(ID), partition=NEW)
    copy = snapshots.copy if copied else lambda: None
    copy()
    assert (snapshots.newest(), snapshots.numbers()) == (None, [])
    ground.append(appended(ID, 1), partition=NEW)
    copy()
    assert (snapshots.newest(), snapshots.numbers()) == (None, [])
    snapshots.save(1)
    copy()
    assert (snapshots.newest(), snapshots.numbers()) == (1, [1])


def test_the_event_of_a_snapshot_is_looked_for_in_both_places(snapshots: GrownSnapshotsGround) -> None:
    [before] = snapshots.ground.append(appended(ID, 1, 3), partition=OLD)
    [after] = snapshots.ground.append(appended(ID, 4), partition=NEW)
    opened = snapshots.topic.snapshots(ID)
    assert [opened.holds(ID, number, offset) for number, offset in ((3, before), (4, after), (3, before + 9))] == [
        True,
        True,
        False,
    ]


def test_rings_of_both_places_are_the_same_for_every_step_of_replication(snapshots: GrownSnapshotsGround) -> None:
    ground = snapshots.ground
    ground.append(appended(ID, 1, 3), partition=OLD)
    snapshots.save_before(3)
    ground.append(appended(ID, 4), partition=NEW)
    snapshots.save(4)
    ground.append(purged(ID), appended(ID, 1, 2), partition=NEW)
    snapshots.save(2)
    ends = [ground.log.bounds(name, place).end for name in (TOPIC, NAME) for place in (OLD, NEW)]
    assert ends == [1, 3, 1, 2]
    for order in ((TOPIC, NAME), (NAME, TOPIC)):
        generation = snapshots.grown.topic.generation
        for place in (OLD, NEW):
            journals = ground.store.partition(TOPIC, place, generation)
            rings = ground.store.snapshots(NAME, place, snapshots.generation())
            assert journals is not None
            assert rings is not None
            journals.clear()
            rings.clear()
        for name in order:
            for place in (OLD, NEW):
                step = partial(snapshots.grown.copy, place) if name == TOPIC else partial(snapshots.copy_snapshots, place)
                for end in range(1, ground.log.bounds(name, place).end + 1):
                    step(end)
                    assert snapshots.numbers() == [2]

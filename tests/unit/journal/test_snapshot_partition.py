from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.unit.journal.partitions import TOPIC, Ground, clear_sealing

from headwater.core.errors import Differs, LogGap, TooLarge, UnreadableRecord, Unsupported
from headwater.journal import snapshot_partition
from headwater.journal.action import Purge
from headwater.journal.dead import quarantine
from headwater.journal.discovery import JournalTopic, snapshots_of
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.replication_task import PartitionTask, copy_partition
from headwater.journal.snapshot import SnapshotCriteria
from headwater.journal.snapshot_fold import SnapshotsChange
from headwater.journal.snapshot_partition import SnapshotPartition
from headwater.journal.snapshot_wire import HEADER
from headwater.journal.topics import PART
from headwater.journal.whole import WholeJournals
from headwater.log.record import Record

NAME = f"snapshot-{TOPIC}"
ALL = SnapshotCriteria()


class SnapshotGround(Ground):
    """A partition of journals with its snapshots."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.snapshots = self.opened_snapshots()

    def opened_snapshots(self) -> SnapshotPartition:
        return SnapshotPartition(self.log, lambda: self.store, self.topic, WholeJournals(self.partition), sealing=clear_sealing(self))

    def save(self, id: str, seq_nr: int, value: bytes = b"{}") -> int:
        living = self.snapshots.living(id)
        assert living is not None
        return self.snapshots.save(id, seq_nr, Payload(PayloadKind.JSON, value), living, ("host", "1.0"))

    def topic_of_snapshots(self) -> JournalTopic:
        found = snapshots_of(self.log, JournalTopic(TOPIC, 1, self.topic.generation))
        assert found is not None
        return found

    def copy_snapshots(self, end: int | None = None) -> None:
        topic = self.topic_of_snapshots()
        end = self.log.bounds(NAME, 0).end if end is None else end
        outcome = copy_partition(
            self.log, self.store, PartitionTask(topic=NAME, partition=0, generation=topic.generation, end=end, holds="snapshots")
        )
        assert outcome.problem is None, outcome.problem

    def numbers_of(self, id: str, criteria: SnapshotCriteria = ALL) -> list[int]:
        return [one.seq_nr for one in self.snapshots.find(id, criteria)]


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[SnapshotGround]:
    made = SnapshotGround(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_snapshot_of_events_that_an_older_log_lacks_is_told(ground: SnapshotGround, copied: bool, goes_on: bool) -> None:
    ground.append("a", 1, 2)
    ground.save("a", 2)
    living = ground.snapshots.living("a")
    assert living is not None
    lost = msgspec.structs.replace(living, life=msgspec.structs.replace(living.life, at=9))
    ground.snapshots.save("a", 5, Payload(PayloadKind.JSON, b"5"), lost, ("host", "1.0"))  # as the log held it before
    if goes_on:
        ground.append("a", 3)
    if copied:
        ground.copy()
        ground.copy_snapshots()
    with pytest.raises(Differs, match="is of event 5, saved when") as failed:
        ground.snapshots.load("a", ALL)
    assert f"--min-seq-nr {4 if goes_on else 3}" in failed.value.hint
    older = ground.snapshots.load("a", SnapshotCriteria(max_seq_nr=4))
    assert older is not None
    assert older.seq_nr == 2
    assert ground.numbers_of("a") == [5, 2]
    ground.snapshots.delete("a", SnapshotCriteria(min_seq_nr=3), living.life, ("host", "1.0"))
    newest = ground.snapshots.load("a", ALL)
    assert newest is not None
    assert newest.seq_nr == 2


def test_a_topic_of_snapshots_that_is_gone_is_told(ground: SnapshotGround) -> None:
    ground.append("a", 1, 2)
    assert ground.snapshots.load("a", ALL) is None  # none was saved yet
    ground.save("a", 2)
    ground.copy()
    ground.copy_snapshots()
    ground.log.delete_topic(NAME, part=PART)
    again = ground.opened_snapshots()
    for call in (again.load, again.find):
        with pytest.raises(Differs, match=r"has copied .* up to offset 0"):
            call("a", ALL)
    living = again.living("a")
    assert living is not None
    again.save("a", 2, Payload(PayloadKind.JSON, b"2"), living, ("host", "1.0"))
    newest = again.load("a", ALL)
    assert newest is not None
    assert newest.payload == Payload(PayloadKind.JSON, b"2")


def test_snapshots_of_an_earlier_topic_of_journals_do_not_count_as_gone(ground: SnapshotGround) -> None:
    ground.append("a", 1)
    ground.save("a", 1)
    ground.copy()
    ground.copy_snapshots()
    for name in (NAME, TOPIC):
        ground.log.delete_topic(name, part=PART)
    ground.topic = ground.log.create_topic(TOPIC, part=PART)
    ground.partition = ground.opened()
    ground.append("a", 1)
    assert ground.opened_snapshots().load("a", ALL) is None


def test_a_snapshot_that_is_saved_while_one_is_loaded_is_no_older_log(ground: SnapshotGround, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.append("a", 1)
    before = ground.snapshots.living("a")
    ground.append("a", 2)
    ground.save("a", 2)
    known, look_up = [before], ground.snapshots.living
    monkeypatch.setattr(ground.snapshots, "living", lambda id: known.pop() if known else look_up(id))
    newest = ground.snapshots.load("a", ALL)
    assert newest is not None
    assert newest.seq_nr == 2


def test_a_save_is_seen_at_once_whatever_is_copied(ground: SnapshotGround) -> None:
    assert ground.snapshots.load("a", ALL) is None
    assert ground.numbers_of("a") == []
    ground.append("a", 1, 2, 3)
    ground.append("b", 1)
    for step in range(4):
        ground.save("a", step + 1 if step < 3 else 2, b"%d" % step)
        ground.save("b", 1)
        if step == 1:
            ground.copy_snapshots()
            ground.copy()
        newest = ground.snapshots.load("a", ALL)
        assert newest is not None
        assert newest.payload is not None
        assert (newest.seq_nr, newest.payload.data) == [(1, b"0"), (2, b"1"), (3, b"2"), (3, b"2")][step]
    second = ground.snapshots.load("a", SnapshotCriteria(max_seq_nr=2))
    assert second is not None
    assert second.payload == Payload(PayloadKind.JSON, b"3")
    assert ground.numbers_of("a") == [3, 2, 1]
    ground.copy_snapshots()
    assert ground.numbers_of("a") == [3, 2, 1]
    assert [one.seq_nr for one in ground.opened_snapshots().find("a", ALL)] == [3, 2, 1]


def test_a_purge_hides_snapshots_before_and_after_it_is_copied(ground: SnapshotGround) -> None:
    ground.append("a", 1)
    ground.save("a", 1)
    old = ground.snapshots.living("a")
    assert old is not None
    ground.copy_snapshots()
    ground.put("a", Purge())
    assert ground.snapshots.load("a", ALL) is None
    ground.append("a", 1)
    assert ground.numbers_of("a") == []
    ground.snapshots.save("a", 1, Payload(PayloadKind.JSON, b"1"), old, (None, None))  # by a process that was slow
    assert ground.numbers_of("a") == []
    ground.save("a", 1)
    ground.snapshots.save("a", 7, Payload(PayloadKind.JSON, b"1"), old, (None, None))
    assert ground.numbers_of("a") == [1]
    ground.copy()
    ground.copy_snapshots()
    assert ground.numbers_of("a") == [1]


def test_deletions_are_seen_at_once(ground: SnapshotGround) -> None:
    ground.append("a", 1, 2, 3)
    for number in (1, 2, 3):
        ground.save("a", number)
    ground.copy_snapshots()
    living = ground.snapshots.living("a")
    assert living is not None
    ground.snapshots.delete("a", SnapshotCriteria(min_seq_nr=2, max_seq_nr=2), living.life, (None, None))
    assert ground.numbers_of("a") == [3, 1]
    ground.copy_snapshots()
    assert ground.numbers_of("a") == [3, 1]


def test_a_poisoned_snapshot_stops_its_journal_alone_until_it_is_left_out(ground: SnapshotGround) -> None:
    ground.append("a", 1)
    ground.append("b", 1)
    ground.save("a", 1)
    ground.save("b", 1)
    ground.log.append(NAME, 0, [Record(b"a", b"x", ((HEADER, b"{no"),))], part=PART)
    assert ground.numbers_of("b") == [1]
    with pytest.raises(UnreadableRecord, match="offset 2"):
        ground.snapshots.load("a", ALL)
    quarantine(ground.log, ground.topic_of_snapshots(), 0, 2, why="test")
    assert ground.numbers_of("a") == [1]


def test_a_value_that_cannot_be_decoded_is_found_when_it_is_loaded(ground: SnapshotGround) -> None:
    ground.append("a", 1, 2)
    ground.save("a", 1)
    [good] = ground.log.read(NAME, 0, 0)
    header = (good.headers[0][1] or b"").replace(b'"seq_nr":1', b'"seq_nr":2')
    ground.log.append(NAME, 0, [Record(b"a", b"\xff", ((HEADER, header),))], part=PART)
    with pytest.raises(UnreadableRecord, match="no UTF-8"):
        ground.snapshots.load("a", ALL)
    quarantine(ground.log, ground.topic_of_snapshots(), 0, 1, why="test")
    found = ground.snapshots.load("a", ALL)
    assert found is not None
    assert found.seq_nr == 1


def test_a_log_that_was_deleted_ahead_of_the_store_is_a_gap(ground: SnapshotGround) -> None:
    ground.append("a", 1)
    for number in range(3):
        ground.save("a", 1, b"%d" % number)
    ground.copy_snapshots(1)
    ground.log.delete_before(NAME, 0, 2, part=PART)
    with pytest.raises(LogGap, match="lacks the snapshots from 1"):
        ground.snapshots.load("a", ALL)


def test_a_deleted_log_of_copied_snapshots_is_no_gap(ground: SnapshotGround) -> None:
    ground.append("a", 1)
    ground.save("a", 1)
    ground.copy_snapshots()
    ground.log.delete_before(NAME, 0, 1, part=PART)
    assert ground.numbers_of("a") == [1]
    found = ground.opened_snapshots().load("a", ALL)
    assert found is not None
    assert found.payload is not None


def test_snapshots_of_earlier_journals_count_for_nothing(ground: SnapshotGround) -> None:
    ground.append("a", 1)
    ground.save("a", 1)
    ground.copy_snapshots()
    ground.log.delete_before(NAME, 0, 1, part=PART)
    ground.log.delete_topic(TOPIC, part=PART)
    ground.topic = ground.log.create_topic(TOPIC, part=PART)
    ground.partition, ground.snapshots = ground.opened(), ground.opened_snapshots()
    ground.snapshots = ground.opened_snapshots()
    ground.append("a", 1)
    assert ground.numbers_of("a") == []
    ground.save("a", 1)
    assert ground.numbers_of("a") == [1]


def test_a_snapshot_that_is_too_large_is_refused(ground: SnapshotGround) -> None:
    ground.append("a", 1)
    with pytest.raises(TooLarge):
        ground.save("a", 1, b'"%b"' % (b"x" * (16 << 20)))
    assert ground.numbers_of("a") == []


def test_a_topic_of_snapshots_with_another_number_of_partitions_is_refused(ground: SnapshotGround) -> None:
    ground.log.create_topic(NAME, partitions=3, part=PART)
    ground.append("a", 1)
    with pytest.raises(Unsupported, match="has 3"):
        ground.save("a", 1)


@pytest.mark.parametrize(("most", "few"), [(3, 500), (100, 0), (3, 0)])
def test_a_tail_larger_than_memory_may_hold_is_read_again(
    ground: SnapshotGround, monkeypatch: pytest.MonkeyPatch, most: int, few: int
) -> None:
    monkeypatch.setattr(snapshot_partition, "_MOST", most)
    monkeypatch.setattr(snapshot_partition, "_FEW", few)
    ground.append("a", *range(1, 10))
    ground.append("b", 1)
    for number in range(1, 10):
        ground.save("a", number)
        ground.save("b", 1)
        assert ground.numbers_of("a") == list(range(number, 0, -1))
        if number == 5:
            ground.copy_snapshots()
    assert ground.numbers_of("b") == [1]


def test_the_life_is_looked_up_no_earlier_than_the_copy_knows(ground: SnapshotGround, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the log's end and the look at the store, the journal is purged, begun anew and copied."""
    ground.append("a", 1)
    ends = [ground.partition.end()]
    ground.put("a", Purge())
    ground.append("a", 1)
    ground.copy()
    really = ground.partition.end
    monkeypatch.setattr(ground.partition, "end", lambda: ends.pop() if ends else really())
    living = ground.snapshots.living("a")
    assert living is not None
    assert living.life.at == 3
    assert msgspec.structs.asdict(living.life)["generation"] == ground.topic.generation


def test_a_store_that_has_copied_more_than_the_log_holds_is_noticed_before_anything_is_saved(ground: SnapshotGround) -> None:
    ground.append("a", 1)
    ground.save("a", 1)
    copy = ground.store.snapshots(NAME, 0, ground.topic_of_snapshots().generation)
    assert copy is not None
    copy.apply(SnapshotsChange(NAME, 0, ground.topic_of_snapshots().generation, 0, 5))
    with pytest.raises(Differs, match="up to offset 4, and the log ends at 1"):
        ground.numbers_of("a")
    ground.snapshots = ground.opened_snapshots()
    with pytest.raises(Differs, match="rebuild journal-bank"):
        ground.save("a", 1)
    assert ground.log.bounds(NAME, 0).end == 1

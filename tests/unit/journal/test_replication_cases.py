"""What kafka-journal's replicator is known to do, case by case, in this process and in the function of Spark's tasks. Pointers take the
place of commits: a copy is the same for every split into rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime

import msgspec
import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended, deleted, ground_at, held, marked, purged

from headwater.journal.discovery import JournalTopic
from headwater.journal.head import Head
from headwater.journal.replicate import copy_in_task
from headwater.journal.replication_task import PartitionOutcome, PartitionTask, copy_partition
from headwater.journal.store import PartitionStore
from headwater.log.record import Record
from headwater.spark.ranges import Range

Copy = Callable[[Ground, JournalTopic, int, int], PartitionOutcome]


def task(topic: JournalTopic, partition: int, end: int) -> PartitionTask:
    return PartitionTask(topic=topic.name, partition=partition, generation=topic.generation, end=end)


def copy_here(ground: Ground, topic: JournalTopic, partition: int, end: int) -> PartitionOutcome:
    return copy_partition(ground.log, ground.store, task(topic, partition, end))


def copy_by_task(ground: Ground, topic: JournalTopic, partition: int, end: int) -> PartitionOutcome:
    tasks = tuple(task(topic, number, end) for number in range(topic.partitions))
    batch = copy_in_task(ground.address, tasks, ground.log, Range(topic.name, partition, 0, end))
    return msgspec.json.decode(batch.column("result")[0].as_py(), type=PartitionOutcome)


@pytest.fixture(params=[copy_here, copy_by_task])
def copy(request: pytest.FixtureRequest) -> Copy:
    found: Copy = request.param
    return found


def store_of(ground: Ground, topic: JournalTopic, partition: int = 0) -> PartitionStore:
    found = ground.store.partition(TOPIC, partition, topic.generation)
    assert found is not None
    return found


def look(ground: Ground, topic: JournalTopic, id: str = "a") -> tuple[Head | None, list[int]]:
    """The head and the numbers of the rows of a journal."""
    with store_of(ground, topic).view() as view:
        head = view.head(id)
        return head, [] if head is None else [row.seq_nr for rows in view.rows(id, head, 1) for row in rows]


def test_two_partitions_give_the_same_whether_records_come_at_once_or_one_by_one(ground: Ground, copy: Copy) -> None:
    topic = ground.topic()
    for partition, id in enumerate("ab"):
        ground.append(*[appended(id, number) for number in range(1, 5)], partition=partition)
        assert copy(ground, topic, partition, 4).pointer == 3
    with ground_at(ground.data / "other") as other:
        for partition in range(2):
            for end in range(1, 5):
                done = copy_partition(ground.log, other.store, task(topic, partition, end))
                assert (done.pointer, done.records) == (end - 1, 1)
        assert held(other.store, topic) == held(ground.store, topic)


def test_marks_move_the_pointer_alone(ground: Ground, copy: Copy) -> None:
    topic = ground.topic()
    ground.append(marked("a"), marked("a"))
    outcome = copy(ground, topic, 0, 2)
    assert (outcome.pointer, outcome.records, outcome.journals) == (1, 2, 0)
    assert look(ground, topic) == (None, [])


def test_offsets_at_or_below_the_pointer_are_not_applied(ground: Ground, copy: Copy) -> None:
    topic = ground.topic()
    ground.append(*[appended("a", number) for number in range(1, 5)])
    copy(ground, topic, 0, 2)
    assert copy(ground, topic, 0, 4).records == 2
    outcome = copy(ground, topic, 0, 4)
    assert (outcome.records, outcome.pointer) == (0, 3)
    assert look(ground, topic)[1] == [1, 2, 3, 4]


def test_the_last_expiry_of_a_range_counts(ground: Ground, copy: Copy) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1, expire_after=60_000), appended("a", 2, expire_after=120_000))
    copy(ground, topic, 0, 2)
    head, _ = look(ground, topic)
    assert head is not None
    assert head.expire_after == 120_000


def test_an_append_and_a_purge_leave_no_journal(ground: Ground, copy: Copy) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1), appended("a", 2), purged("a"))
    copy(ground, topic, 0, 1)
    copy(ground, topic, 0, 3)
    assert look(ground, topic) == (None, [])


@pytest.mark.parametrize("segments", [1, 10])
def test_a_purge_removes_every_segment(ground: Ground, copy: Copy, segments: int) -> None:
    topic = ground.topic()
    ground.append(*[appended("a", number * 10_000 + 1) for number in range(segments)])
    copy(ground, topic, 0, segments)
    ground.append(purged("a"), appended("a", 1))
    copy(ground, topic, 0, segments + 2)
    head, rows = look(ground, topic)
    assert head is not None
    assert (head.seq_nr, rows) == (1, [1])


def test_a_delete_beyond_the_end_is_capped_and_a_second_one_moves_the_offset_alone(ground: Ground, copy: Copy) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1), deleted("a", (1 << 63) - 1))
    copy(ground, topic, 0, 2)
    first, rows = look(ground, topic)
    assert first is not None
    assert (first.delete_to, first.seq_nr, rows) == (1, 1, [])
    ground.append(deleted("a", (1 << 63) - 1))
    copy(ground, topic, 0, 3)
    second, _ = look(ground, topic)
    assert second == msgspec.structs.replace(first, offset=2, updated=second.updated if second else 0)


def test_a_smaller_delete_later_takes_nothing_back(ground: Ground, copy: Copy) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1, 20), deleted("a", 10), deleted("a", 2))
    copy(ground, topic, 0, 3)
    head, rows = look(ground, topic)
    assert head is not None
    assert (head.delete_to, rows) == (10, list(range(11, 21)))


def test_events_inherit_the_record_id_of_their_life(ground: Ground, copy: Copy) -> None:
    topic = ground.topic()

    def ids(records: Sequence[Record], end: int) -> set[object]:
        ground.append(*records)
        copy(ground, topic, 0, end)
        with store_of(ground, topic).view() as view:
            head = view.head("a")
            assert head is not None
            assert {row.record_id for rows in view.rows("a", head, 1) for row in rows} == {head.record_id}
            return {head.record_id}

    first = ids([appended("a", 1)], 1)
    assert ids([appended("a", 2)], 2) == first
    assert ids([purged("a"), appended("a", 1)], 4) != first


@pytest.mark.parametrize(("after", "day"), [(86_400_000, date(2019, 12, 12)), (60_000, date(2019, 12, 11))])
def test_the_day_of_expiry_is_that_of_the_record_in_utc(ground: Ground, copy: Copy, after: int, day: date) -> None:
    topic = ground.topic()
    moment = int(datetime(2019, 12, 11, 10, 10, 10, tzinfo=UTC).timestamp() * 1000)
    ground.append(appended("a", 1, expire_after=after, timestamp=moment))
    copy(ground, topic, 0, 1)
    head, _ = look(ground, topic)
    assert head is not None
    assert head.expire_on == day
    ground.append(appended("a", 2, timestamp=moment))
    copy(ground, topic, 0, 2)
    head, _ = look(ground, topic)
    assert head is not None
    assert (head.expire_after, head.expire_on) == (None, None)

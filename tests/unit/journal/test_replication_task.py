from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.journal.ground import POISON, TOPIC, Ground, appended, deleted, ground_at, held, marked, purged, random_records

from headwater.core.errors import Conflict, Unavailable
from headwater.journal.change import PartitionChange, Pointer
from headwater.journal.discovery import JournalTopic
from headwater.journal.replication_task import PartitionOutcome, PartitionTask, copy_partition
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.sqlite_partition import SqlitePartitionStore
from headwater.journal.tally import CopyTally


def task(topic: JournalTopic, end: int, *, partition: int = 0, skip: tuple[int, ...] = ()) -> PartitionTask:
    return PartitionTask(topic=topic.name, partition=partition, generation=topic.generation, end=end, skip=skip)


def test_it_copies_rows_heads_and_pointer(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1, 3), marked("a"), appended("b", 1), deleted("a", 2))
    outcome = copy_partition(ground.log, ground.store, task(topic, 4))
    assert outcome == PartitionOutcome(
        topic=TOPIC, partition=0, pointer=3, records=4, journals=2, timestamp=ground.clock.now_ms(), bytes=304, tally=CopyTally(4)
    )
    copy = ground.store.partition(TOPIC, 0, topic.generation)
    assert copy is not None
    with copy.view() as view:
        head = view.head("a")
        assert head is not None
        assert (head.seq_nr, head.delete_to, head.offset) == (3, 2, 3)
        assert [row.seq_nr for batch in view.rows("a", head, 1) for row in batch] == [3]


def test_only_marks_move_the_pointer_and_write_no_rows(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(marked("a"), marked("b"))
    outcome = copy_partition(ground.log, ground.store, task(topic, 2))
    assert (outcome.pointer, outcome.records, outcome.journals) == (1, 2, 0)


def test_what_the_pointer_covers_is_not_applied_again(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(*[appended("a", number) for number in range(1, 5)])
    copy_partition(ground.log, ground.store, task(topic, 2))
    assert copy_partition(ground.log, ground.store, task(topic, 4)).records == 2
    before = held(ground.store, topic)
    assert copy_partition(ground.log, ground.store, task(topic, 4)) == PartitionOutcome(topic=TOPIC, partition=0, pointer=3)
    assert held(ground.store, topic) == before


def test_a_purge_behind_an_append_leaves_no_journal(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1))
    copy_partition(ground.log, ground.store, task(topic, 1))
    ground.append(appended("a", 2), purged("a"))
    copy_partition(ground.log, ground.store, task(topic, 3))
    copy = ground.store.partition(TOPIC, 0, topic.generation)
    assert copy is not None
    with copy.view() as view:
        assert view.ids() == []


def test_the_newest_append_of_a_range_decides_the_expiry(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1, expire_after=60_000), appended("a", 2, expire_after=120_000))
    copy_partition(ground.log, ground.store, task(topic, 2))
    copy = ground.store.partition(TOPIC, 0, topic.generation)
    assert copy is not None
    with copy.view() as view:
        head = view.head("a")
        assert head is not None
        assert head.expire_after == 120_000
        rows = [row.metadata for batch in view.rows("a", head, 1) for row in batch]
    assert ["1 minute" in rows[0], "2 minutes" in rows[1]] == [True, True]


@pytest.mark.parametrize("columns", [True, False])
def test_poison_stops_behind_what_lies_before_it(ground: Ground, columns: bool) -> None:
    topic = ground.topic()
    before = 600 if columns else 1
    ground.append(*[appended("a", number) for number in range(1, before + 1)], POISON, appended("b", 1))
    outcome = copy_partition(ground.log, ground.store, task(topic, before + 2))
    assert outcome.pointer == before - 1
    assert outcome.problem is not None
    assert outcome.problem.poison
    assert (outcome.problem.code, outcome.problem.offset) == ("unreadable-record", before)
    again = copy_partition(ground.log, ground.store, task(topic, before + 2))
    assert (again.records, again.pointer) == (0, before - 1)
    done = copy_partition(ground.log, ground.store, task(topic, before + 2, skip=(before,)))
    assert (done.problem, done.pointer) == (None, before + 1)


def test_a_log_that_begins_behind_the_pointer_is_a_gap(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(*[appended("a", number) for number in range(1, 5)])
    ground.log.delete_before(TOPIC, 0, 2, part="journal")
    outcome = copy_partition(ground.log, ground.store, task(topic, 4))
    assert outcome.pointer == -1
    assert outcome.problem is not None
    assert outcome.problem.code == "log-gap"
    assert "0 to 1" in outcome.problem.message
    assert not outcome.problem.poison


def test_it_stops_between_two_changes(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(*[appended("a", number) for number in range(1, 11)])
    asked = iter([False, False, True])
    outcome = copy_partition(ground.log, ground.store, task(topic, 10), records=3, stopped=lambda: next(asked))
    assert (outcome.pointer, outcome.problem) == (5, None)


@pytest.mark.parametrize("count", [40, 3000])
def test_large_records_come_in_changes_that_fit_the_bound_on_bytes(ground: Ground, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = ground.topic()
    ground.append(*[appended("a", number) for number in range(1, count + 1)])
    sizes: list[int] = []
    apply = SqlitePartitionStore.apply

    def counted(self: SqlitePartitionStore, change: PartitionChange, tally: CopyTally | None = None) -> bool:
        sizes.append(change.end - change.start)
        return apply(self, change, tally)

    monkeypatch.setattr(SqlitePartitionStore, "apply", counted)
    assert copy_partition(ground.log, ground.store, task(topic, count), max_bytes=2000).pointer == count - 1
    assert len(sizes) > 1
    assert sum(sizes) == count


def test_a_task_that_another_one_overtakes_goes_on_behind_it(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = ground.topic()
    ground.append(*[appended("a", number) for number in range(1, 11)])
    apply = SqlitePartitionStore.apply
    raced: list[bool] = []

    def overtaken(self: SqlitePartitionStore, change: PartitionChange, tally: CopyTally | None = None) -> bool:
        if not raced:
            raced.append(True)
            copy_partition(ground.log, ground.store, task(topic, 4))
        return apply(self, change, tally)

    monkeypatch.setattr(SqlitePartitionStore, "apply", overtaken)
    assert copy_partition(ground.log, ground.store, task(topic, 10), records=3).pointer == 9
    with ground_at(ground.data / "other") as other:
        again = JournalTopic(TOPIC, 2, topic.generation)
        assert copy_partition(ground.log, other.store, task(again, 10)).pointer == 9
        assert held(other.store, again) == held(ground.store, topic)


@pytest.mark.parametrize("end", [2, 10])
def test_a_change_that_was_begun_is_finished_as_it_is(ground: Ground, monkeypatch: pytest.MonkeyPatch, end: int) -> None:
    """However small the task's own changes are, and however large the records."""
    topic = ground.topic()
    ground.append(*[appended("a", number) for number in range(1, 11)])
    copy_partition(ground.log, ground.store, task(topic, 1))
    pointer, apply = SqlitePartitionStore.pointer, SqlitePartitionStore.apply
    ends: list[int] = []

    def begun(self: SqlitePartitionStore) -> Pointer:
        found = pointer(self)
        return msgspec.structs.replace(found, begun=7 if found.offset < 6 else -1)

    def noting(self: SqlitePartitionStore, change: PartitionChange, tally: CopyTally | None = None) -> bool:
        ends.append(change.end)
        return apply(self, change, tally)

    monkeypatch.setattr(SqlitePartitionStore, "pointer", begun)
    monkeypatch.setattr(SqlitePartitionStore, "apply", noting)
    copy_partition(ground.log, ground.store, task(topic, end), records=2, max_bytes=1)
    assert ends == [7] if end == 2 else ends[0] == 7 and ends[-1] == 10


def test_a_store_that_always_refuses_ends_with_its_error(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1))

    def refuse(self: SqlitePartitionStore, change: PartitionChange, tally: CopyTally | None = None) -> bool:
        raise Conflict("No.")

    monkeypatch.setattr(SqlitePartitionStore, "apply", refuse)
    outcome = copy_partition(ground.log, ground.store, task(topic, 1))
    assert outcome.problem is not None
    assert outcome.problem.code == "conflict"


def test_a_store_that_cannot_be_reached_leaves_the_pointer_open(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = ground.topic()

    def away(*_: object, **named: object) -> None:
        raise Unavailable("Away.")

    monkeypatch.setattr(SqliteJournalStore, "partition", away)
    outcome = copy_partition(ground.log, ground.store, task(topic, 1))
    assert (outcome.pointer, outcome.problem and outcome.problem.code) == (None, "unavailable")


@given(st.integers(0, 1 << 30), st.integers(1, 60), st.lists(st.tuples(st.integers(1, 60), st.integers(1, 9)), max_size=6))
def test_the_copy_is_the_same_for_every_split(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, cuts: list[tuple[int, int]]
) -> None:
    with ground_at(tmp_path_factory.mktemp("whole")) as whole, ground_at(tmp_path_factory.mktemp("split")) as split:
        topic = whole.topic(partitions=1)
        whole.append(*random_records(Random(seed), count))
        copy_partition(whole.log, whole.store, task(topic, count))
        for end, size in cuts:
            copy_partition(whole.log, split.store, task(topic, min(end, count)), records=size)
        copy_partition(whole.log, split.store, task(topic, count))
        assert held(split.store, topic) == held(whole.store, topic)


def test_a_task_travels_as_json(ground: Ground) -> None:
    outcome = copy_partition(ground.log, ground.store, task(ground.topic(), 0))
    assert msgspec.json.decode(msgspec.json.encode(outcome), type=PartitionOutcome) == outcome


@pytest.mark.parametrize(("error", "code"), [(OSError(5, "Input/output error"), "unavailable"), (ZeroDivisionError("x"), "task-failed")])
def test_any_other_error_is_the_partitions_own(ground: Ground, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1))

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(ground.log, "read", fail)
    outcome = copy_partition(ground.log, ground.store, task(topic, 1))
    assert outcome.problem is not None
    assert (outcome.problem.code, outcome.problem.poison, outcome.pointer) == (code, False, -1)

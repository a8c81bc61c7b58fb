"""A partition: the log and the store joined, the cache beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.unit.journal.partitions import TOPIC, Ground

from headwater.core.errors import Conflict, Differs, OffsetGone, Unreachable
from headwater.journal import partition as module
from headwater.journal.action import Delete, Purge
from headwater.journal.append_rows import event_rows
from headwater.journal.cache import CacheLimits
from headwater.journal.partition import AGAIN, JournalPartition
from headwater.journal.read import JournalRead
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.sqlite_partition import SqlitePartitionView
from headwater.journal.store import JournalStore, PartitionStore, PartitionView, RingStore
from headwater.journal.store_reach import PAUSE, StoreReach
from headwater.journal.topics import PART
from headwater.testing.clock import ManualClock


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    yield made
    made.close()


def counts(ground: Ground) -> tuple[int, int, int, int, int]:
    cache = ground.partition.cache
    assert cache is not None
    found = cache.counts
    return found.hit, found.miss, found.ahead, found.limited, found.behind


class Reached(JournalStore):
    """A store that can be away."""

    def __init__(self, store: SqliteJournalStore) -> None:
        self._store, self.away, self.asked = store, False, 0

    def partition(self, topic: str, partition: int, generation: str, *, create: bool = True) -> PartitionStore | None:
        self.asked += 1
        if self.away:
            raise Unreachable("Nobody is there.", hint="Start it.")
        return self._store.partition(topic, partition, generation, create=create)

    def topics(self) -> list[str]:
        return self._store.topics()

    def snapshots(self, topic: str, partition: int, generation: str, *, create: bool = True) -> RingStore | None:
        return self._store.snapshots(topic, partition, generation, create=create)

    def setting(self, key: str) -> str | None:
        return self._store.setting(key)

    def set_setting(self, key: str, value: str | None) -> str | None:
        return self._store.set_setting(key, value)

    def close(self) -> None:
        self._store.close()


def numbers_of(partition: JournalPartition, id: str) -> list[int]:
    return [row.seq_nr for row in JournalRead(partition, id, end=partition.end()).page()]


@pytest.mark.parametrize("behind", [0, 2])
def test_the_log_stands_in_for_a_store_that_does_not_answer(ground: Ground, behind: int) -> None:
    for number in (1, 2, 3):
        ground.append("a", number)
        ground.append("b", number)
    ground.put("b", Delete(1))
    ground.copy(ground.partition.end() - behind)
    store, clock = Reached(ground.store), ManualClock()
    store.away = True
    partition = JournalPartition(ground.log, lambda: store, ground.topic, 0, settings=ground.settings, reach=StoreReach(clock))
    for _ in range(3):
        assert [numbers_of(partition, id) for id in "abc"] == [[1, 2, 3], [2, 3], []]
        assert [partition.last_number(id, partition.end()) for id in "abc"] == [3, 3, 0]
    assert store.asked == 1  # it is left alone for a while
    with pytest.raises(Unreachable):
        partition.joined("a", None)  # what the store alone says
    clock.advance(PAUSE)
    assert numbers_of(partition, "a") == [1, 2, 3]
    assert store.asked == 3
    store.away = False
    ground.append("a", 4)
    assert numbers_of(partition, "a") == [1, 2, 3, 4]
    assert store.asked == 3
    clock.advance(PAUSE)
    assert numbers_of(partition, "b") == [2, 3]
    assert store.asked == 4
    assert numbers_of(partition, "a") == [1, 2, 3, 4]
    head, other = partition.joined("a", partition.end()).head, ground.opened().joined("a", partition.end()).head
    assert head == other


def test_a_log_that_was_deleted_does_not_stand_in(ground: Ground) -> None:
    for number in range(1, 4):
        ground.append("a", number)
    ground.copy()
    ground.log.delete_before(TOPIC, 0, 2, part=PART)
    assert ground.partition.bounds().start > 0
    store = Reached(ground.store)
    store.away = True
    partition = JournalPartition(ground.log, lambda: store, ground.topic, 0, settings=ground.settings)
    for call in (lambda: numbers_of(partition, "a"), lambda: partition.last_number("a", partition.end())):
        with pytest.raises(Unreachable, match="Nobody is there") as failed:
            call()
        assert "cannot stand in for the store" in failed.value.hint


def test_the_head_is_told_with_its_expiry_and_its_origin(ground: Ground) -> None:
    ground.append("a", 1, expire_after=60_000)
    head = ground.partition.full_head("a", ground.partition.end())
    assert head is not None
    assert (head.seq_nr, head.expire_after, head.created, head.record_id is not None) == (1, 60_000, head.updated, True)
    ground.copy()
    assert ground.partition.full_head("a", ground.partition.end()) == head
    ground.append("a", 2)
    later = ground.partition.full_head("a", ground.partition.end())
    assert later is not None
    assert (later.seq_nr, later.expire_after, later.record_id) == (2, None, head.record_id)
    assert ground.partition.full_head("x", ground.partition.end()) is None
    assert ground.partition.last_number("a", 1) == 1
    assert ground.partition.last_number("x", 2) == 0


def test_lookups_are_counted(ground: Ground) -> None:
    ground.append("a", 1)
    ground.append("b", 1)
    assert ground.pointer("a") == ground.pointer("b") == 1
    assert counts(ground) == (2, 0, 0, 0, 0)
    ground.copy()
    assert ground.pointer("a") == 1
    assert counts(ground) == (2, 0, 1, 0, 0)


def test_what_the_cache_has_dropped_is_scanned_for(ground: Ground) -> None:
    ground.limits = CacheLimits(journals=1, drop=0.5)
    ground.partition = ground.opened()
    for id in "abc":
        ground.append(id, 1)
    assert [ground.pointer(id) for id in "abbc"] == [1, 1, 1, 1]
    assert counts(ground) == (1, 3, 0, 3, 0)  # what a scan has found takes the place of another


def test_what_the_cache_has_not_read_is_scanned_for(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STEP", 1)
    for number in range(1, 6):
        ground.append("a", number)
    assert [ground.numbers("a") for _ in range(3)] == [[1, 2, 3, 4, 5]] * 3
    assert counts(ground) == (0, 3, 0, 0, 3)
    assert ground.pointer("a") == 5
    ground.put("a", Purge())
    assert ground.pointer("a") is None


def test_a_view_that_the_store_has_changed_is_taken_again(ground: Ground) -> None:
    tried = []

    def changes(view: PartitionView | None) -> str:
        tried.append(view)
        if len(tried) < 3:
            raise Conflict("The view is overtaken.")
        return "done"

    assert ground.partition.viewed(changes) == "done"

    def never(view: PartitionView | None) -> str:
        tried.append(view)
        raise OffsetGone("Never.")

    with pytest.raises(OffsetGone):
        ground.partition.viewed(never)
    assert len(tried) == 3 + AGAIN + 1


def test_a_change_that_is_under_way_is_read_up_to_its_end(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have removed rows that a record behind the read's own end deletes: without it, the rows would just be missing."""
    ground.append("a", 1)
    ground.append("a", 2)
    ground.copy()
    ground.put("a", Delete(1))
    enter = SqlitePartitionView.__enter__

    def under_way(self: SqlitePartitionView) -> SqlitePartitionView:
        view = enter(self)
        view.pointer = msgspec.structs.replace(view.pointer, begun=3)
        return view

    before = ground.partition.joined("a", 2).head
    assert before is not None
    assert before.delete_to is None
    monkeypatch.setattr(SqlitePartitionView, "__enter__", under_way)
    head = ground.partition.joined("a", 2).head
    assert head is not None
    assert head.delete_to == 1


def test_a_store_with_the_copy_of_another_topic_of_this_name(ground: Ground) -> None:
    ground.append("a", 1)
    ground.copy()
    ground.log.delete_topic(TOPIC, part=PART)
    ground.topic = ground.log.create_topic(TOPIC, part=PART)
    ground.partition = ground.opened()
    assert ground.pointer("a") is None  # the log begins at 0: it holds everything
    ground.append("a", 1)
    ground.append("a", 2)
    assert ground.read("a") == [(1, 0), (2, 1)]
    ground.log.delete_before(TOPIC, 0, 1, part=PART)
    with pytest.raises(Differs):
        ground.opened().joined("a", 2)


def test_a_log_that_is_older_than_the_store(ground: Ground) -> None:
    ground.append("a", 1)
    ground.append("a", 2)
    ground.copy()
    ground.partition.end = lambda: 1  # type: ignore[method-assign]  # restored from a backup
    with pytest.raises(Differs, match="up to offset 1, and the log ends at 1"):
        ground.pointer("a")
    assert ground.partition.joined("a", None).head is not None


def test_records_that_are_gone(ground: Ground) -> None:
    ground.append("a", 1)
    ground.append("a", 2)
    ground.log.delete_before(TOPIC, 0, 1, part=PART)
    with pytest.raises(OffsetGone, match="offset 0"):
        ground.partition.records([0, 1])
    assert ground.partition.bounds().start == 1


def test_rows_of_a_record_are_sorted_by_number(ground: Ground) -> None:
    offset = ground.append("a", 1, 5, 3, 9)
    (record,) = ground.partition.records([offset])
    assert [row.seq_nr for row in event_rows(record, 0)] == [1, 3, 5, 9]


def test_an_event_loop_may_read_what_is_near(ground: Ground) -> None:
    ground.append("a", 1)
    ground.copy()
    partition = ground.partition
    partition.quick = True
    assert partition.warm_end() is None, "nothing is open yet"
    partition.joined("a", partition.end())
    assert partition.cache is None, "the store holds everything"
    assert partition.warm_end() == partition.end() == 1
    ground.append("a", *range(2, 4))
    assert partition.warm_end() == 2, "a few records are read in no time"
    for number in range(4, 60):
        ground.append("a", number)
    assert partition.warm_end() is None, "many are not"
    partition.joined("a", partition.end())
    assert partition.warm_end() == partition.end() == 58
    partition.quick = False
    assert partition.warm_end() is None, "what is elsewhere takes its time"

"""Reads of a journal equal the model, whatever the store has copied, whatever the cache holds, however the pages are cut."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from tests.unit.journal.partitions import TOPIC, Ground

from headwater.core.errors import BadBounds, BadInput, Conflict, Damaged, LogGap, UnreadableRecord
from headwater.journal.action import Append, Delete, Mark, Purge
from headwater.journal.cache import CacheLimits
from headwater.journal.event import MAX_SEQ_NR, RESERVED, Event, check_range
from headwater.journal.read import JournalRead
from headwater.journal.settings import Duplicates
from headwater.journal.topics import PART
from headwater.log.record import Record

SEEDS = int(os.environ.get("SOAK_EXAMPLES", "50")) // 10
SMALL = CacheLimits(journals=2, actions=7, record_bytes=700, drop=0.5)
Opened = Callable[..., Ground]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    made: list[Ground] = []

    def opened(**given: object) -> Ground:
        made.append(Ground(tmp_path / str(len(made)), **given))  # type: ignore[arg-type]
        return made[-1]

    yield opened
    for ground in made:
        ground.close()


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("duplicates", ["first", "last"])
@pytest.mark.parametrize("limits", [None, SMALL], ids=["cached", "limited"])
def test_every_read_equals_the_model(opened: Opened, seed: int, duplicates: Duplicates, limits: CacheLimits | None) -> None:
    random = Random(f"{seed}{duplicates}{limits}")
    ground, ids = opened(limits=limits, duplicates=duplicates), ["a", "b", "c", "d"]
    for _ in range(120):
        id, step = random.choice(ids), random.random()
        last = ground.pointer(id) or 0
        if step < 0.45:
            first = random.choice([last + 1, last + 1, last + 1, max(1, last - 1), last + 3, 1])
            ground.append(id, *range(first, first + random.randint(1, 4)), expire_after=random.choice([None, None, 60_000]))
        elif step < 0.55:
            ground.put(id, Delete(random.choice([max(1, last), max(1, last - 1), last + 5, MAX_SEQ_NR])))
        elif step < 0.62:
            ground.put(id, Purge())
        elif step < 0.68:
            ground.put(id, Mark("m"))
        elif step < 0.82:
            copy = ground.store.partition(TOPIC, 0, ground.topic.generation)
            assert copy is not None
            ground.copy(random.randint(copy.pointer().offset + 1, ground.partition.end()))
        elif step < 0.86:
            ground.partition = ground.opened()
        ground.check(random.choice(ids), page=random.choice([1, 2, 5, 1000]))
    for id in ids:
        ground.check(id)
    ground.copy()
    for id in ids:
        ground.check(id)
    assert ground.short > 5 < ground.long


def every_copy(ground: Ground) -> Iterator[None]:
    """Nothing copied, then one record more at a time, each seen by a fresh and by an old reader."""
    yield
    for end in range(1, ground.partition.end() + 1):
        ground.copy(end)
        yield
        ground.partition = ground.opened()
        yield


def test_events_come_by_number_from_a_start_to_a_stop(opened: Opened) -> None:
    ground = opened()
    ground.append("a", 1, 2)
    ground.append("b", 1)
    ground.append("a", 3, 4, 5)
    for _ in every_copy(ground):
        assert ground.numbers("a") == [1, 2, 3, 4, 5]
        assert ground.numbers("a", 2, 4) == [2, 3, 4]
        assert ground.numbers("a", 5, 100) == [5]
        assert ground.numbers("a", 6) == ground.numbers("a", MAX_SEQ_NR) == ground.numbers("x") == []
        assert ground.pointer("x") is None


def test_a_purge_and_an_append_behind_it_give_the_new_events_alone(opened: Opened) -> None:
    ground = opened()
    ground.append("a", 1, 2, 3, 4, 5)
    ground.put("a", Purge())
    ground.append("a", 1)
    for _ in every_copy(ground):
        assert (ground.read("a"), ground.pointer("a")) == ([(1, 2)], 1)


def test_a_delete_beyond_the_end_hides_nothing_that_comes_later(opened: Opened) -> None:
    ground = opened()
    ground.append("a", 1, 2)
    ground.put("a", Delete(10))
    ground.append("a", 3)
    for _ in every_copy(ground):
        assert (ground.numbers("a"), ground.pointer("a")) == ([3], 3)


def test_a_gap_hides_nothing(opened: Opened) -> None:
    ground = opened(segment_size=2)
    ground.append("a", 1, 2, 3)
    ground.append("a", 10)
    for _ in every_copy(ground):
        assert ground.numbers("a") == [1, 2, 3, 10]
        assert ground.numbers("a", page=1) == [1, 2, 3, 10]


def test_what_is_deleted_stays_deleted(opened: Opened) -> None:
    ground = opened(segment_size=5)
    ground.append("a", *range(1, 21))
    ground.put("a", Delete(10))
    ground.put("a", Delete(2))
    for _ in every_copy(ground):
        assert ground.numbers("a") == list(range(11, 21))


def test_an_unknown_journal_stays_unknown_after_a_delete(opened: Opened) -> None:
    ground = opened()
    ground.put("a", Delete(5))
    for _ in every_copy(ground):
        assert (ground.numbers("a"), ground.pointer("a")) == ([], None)


def test_a_lower_number_leaves_the_highest_one(opened: Opened) -> None:
    ground = opened()
    ground.append("a", *range(1, 6))
    ground.append("a", 3)
    for _ in every_copy(ground):
        assert ground.read("a") == [(number, 0) for number in range(1, 6)]
        assert ground.pointer("a") == 5
    assert ground.partition.duplicates.dropped > 0 or ground.opened().duplicates.dropped == 0


def test_the_policy_decides_between_events_of_one_number(opened: Opened) -> None:
    last, fails = opened(duplicates="last"), opened(duplicates="fail")
    for ground in (last, fails):
        ground.append("a", 1, 2)
        ground.append("a", 2)
    for _ in every_copy(last):
        assert last.read("a") == last.read("a", page=1) == [(1, 0), (2, 1)]
    for _ in every_copy(fails):
        with pytest.raises(Damaged, match="event 2 twice: at offsets 0 and 1"):
            fails.read("a")


def test_a_record_that_is_there_twice_is_read_once(opened: Opened) -> None:
    ground = opened()
    for number in (1, 2, 3):
        ground.append("a", number)
        ground.append("a", number)
    for _ in every_copy(ground):
        assert ground.numbers("a") == [1, 2, 3]


def test_a_read_shows_the_journal_as_of_its_beginning(opened: Opened) -> None:
    ground = opened()
    ground.append("a", 1, 2)
    ground.append("a", 3, 4)
    ground.copy(1)
    read = JournalRead(ground.partition, "a", end=ground.partition.end())
    assert [row.seq_nr for row in read.page(1)] == [1]
    ground.append("a", 5)
    ground.copy(2)
    assert [row.seq_nr for row in read.page(2)] == [2, 3]
    assert [row.seq_nr for row in read.page(9)] == [4]
    assert read.page() == read.page() == []


def test_a_journal_that_is_purged_while_it_is_read_ends_the_read_with_an_error(opened: Opened) -> None:
    ground = opened()
    ground.append("a", 1, 2, 3)
    ground.copy()
    read = JournalRead(ground.partition, "a", end=ground.partition.end())
    assert [row.seq_nr for row in read.page(1)] == [1]
    ground.put("a", Purge())
    ground.append("a", 1, 2, 3)
    ground.copy()
    with pytest.raises(Conflict, match="purged while it was read, behind event 1"):
        read.page()


def test_the_store_alone_is_what_is_copied(opened: Opened) -> None:
    ground = opened()
    ground.append("a", 1)
    ground.append("a", 2)
    assert JournalRead(ground.partition, "a", end=None).page() == []
    ground.copy(1)
    assert [row.seq_nr for row in JournalRead(ground.partition, "a", end=None).page()] == [1]


def test_records_that_the_log_has_lost_are_no_gap_without_a_word(opened: Opened) -> None:
    ground = opened()
    for number in (1, 2, 3):
        ground.append("a", number)
    ground.copy(1)
    ground.log.delete_before(TOPIC, 0, 2, part=PART)
    with pytest.raises(LogGap, match="begins at offset 2, and the store has copied it up to 0"):
        ground.read("a")


def test_a_log_that_is_deleted_up_to_the_pointer_while_it_is_read(opened: Opened) -> None:
    ground = opened()
    for number in range(1, 6):
        ground.append("a", number)
    read = JournalRead(ground.partition, "a", end=ground.partition.end())
    ground.limits = CacheLimits(record_bytes=0)
    ground.partition = ground.opened()
    read = JournalRead(ground.partition, "a", end=ground.partition.end())
    assert [row.seq_nr for row in read.page(2)] == [1, 2]
    ground.copy(4)
    ground.log.delete_before(TOPIC, 0, 4, part=PART)
    found = []
    while rows := read.page(2):
        found += [row.seq_nr for row in rows]
    assert found == [3, 4, 5]


def test_a_record_that_cannot_be_decoded_stops_the_reads_of_its_journal_alone(opened: Opened) -> None:
    ground = opened()
    ground.append("a", 1)
    ground.append("b", 1)
    ground.log.append(TOPIC, 0, [Record(b"a", b"?", ((RESERVED, b'{"append":{"range":{}}}'),))], part=PART)
    assert ground.numbers("b") == [1]
    with pytest.raises(UnreadableRecord, match="offset 2"):
        ground.read("a")
    ground.put("c", Append(1, 1), [Event({"n": 1}, 1)])
    assert ground.numbers("c") == [1]


def test_numbers_that_cannot_be_read() -> None:
    assert check_range(1, None) == (1, None)
    for start, stop in ((0, None), (1.5, None), (True, None), (1, 0), (MAX_SEQ_NR + 1, None)):
        with pytest.raises(BadInput):
            check_range(start, stop)
    with pytest.raises(BadBounds):
        check_range(3, 2)

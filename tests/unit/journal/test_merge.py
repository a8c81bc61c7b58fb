"""Rows of the store and of the log, merged by number."""

from __future__ import annotations

import pytest

from headwater.core.errors import Damaged
from headwater.journal.change import EventRow
from headwater.journal.merge import DuplicateCount, distinct, each_once, merged
from headwater.journal.settings import Duplicates


def rows(*places: tuple[int, int]) -> list[EventRow]:
    return [EventRow(number, 0, 0, offset) for number, offset in places]


def chosen(policy: Duplicates, *places: tuple[int, int]) -> tuple[list[tuple[int, int]], int]:
    count = DuplicateCount()
    return [(row.seq_nr, row.offset) for row in distinct(rows(*places), policy, count, "a")], count.dropped


def test_rows_come_by_number_and_then_by_offset() -> None:
    found = merged([rows((1, 0), (2, 0)), rows((5, 3))], [iter(rows((2, 7), (3, 7))), iter(rows((2, 5)))])
    assert [(row.seq_nr, row.offset) for row in found] == [(1, 0), (2, 0), (2, 5), (2, 7), (3, 7), (5, 3)]


def test_the_policy_chooses_one_of_each_number() -> None:
    places = ((1, 0), (2, 0), (2, 5), (2, 7), (3, 7))
    assert chosen("first", *places) == ([(1, 0), (2, 0), (3, 7)], 2)
    assert chosen("last", *places) == ([(1, 0), (2, 7), (3, 7)], 2)
    with pytest.raises(Damaged, match="event 2 twice: at offsets 0 and 5"):
        chosen("fail", *places)


def test_one_event_in_the_store_and_in_the_log_is_no_duplicate() -> None:
    assert chosen("fail", (1, 0), (1, 0), (2, 1)) == ([(1, 0), (2, 1)], 0)
    assert chosen("first") == ([], 0)


def test_gaps_hide_no_duplicates() -> None:
    assert each_once(rows((1, 0), (2, 0), (9, 1)))
    assert not each_once(rows((1, 0), (3, 0), (3, 1)))

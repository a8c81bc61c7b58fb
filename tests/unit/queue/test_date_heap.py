"""A heap of dates against a list of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.queue import date_heap
from headwater.queue.date_heap import NEVER, DateHeap

Entry = tuple[int, int, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(1, 30), st.integers(0, 5)),
        st.tuples(st.just("drop"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("pop"), st.integers(0, 35), st.just(0)),
    ),
    max_size=50,
)


@given(STEPS)
def test_entries_that_hold_come_by_date_and_id(steps: list[tuple[str, int, int]]) -> None:
    true: dict[int, Entry] = {}  # by slot
    heap, id = DateHeap(lambda date, id, slot: true.get(slot) == (date, id, slot)), 1 << 40
    for name, number, slot in steps:
        first = min(true.values(), default=(NEVER, 0, -1))
        if name == "push":
            id += 1
            true[slot] = (number, id, slot)
            heap.push(number, id, slot)
            heap.push(number, id, slot)
        elif name == "drop":
            true.pop(number, None)
        else:
            expected = first[2] if first[0] <= number else -1
            assert heap.pop(number) == expected
            true.pop(expected, None)
        first = min(true.values(), default=(NEVER, 0, -1))
        assert heap.earliest <= first[0]
        assert heap.next_date() == heap.earliest == first[0]


@given(st.lists(st.integers(1, 1000), max_size=20), st.lists(st.integers(1, 1000), max_size=5), st.integers(1, 30))
def test_a_heap_that_is_filled_gives_its_entries_in_order(dates: list[int], more: list[int], part: int) -> None:
    heap, entries = DateHeap(lambda date, id, slot: id % 4 != 3), sorted((date, id) for id, date in enumerate(dates))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(date_heap, "_PART", part)
        columns = [np.array(column, np.int64) for column in (zip(*entries, strict=True) if entries else ((), ()))]
        heap.fill(columns[0], columns[1], columns[1])
        assert heap.earliest == min(dates, default=NEVER)
        for id, date in enumerate(more, len(dates)):
            heap.push(date, id, id)
        expected = sorted((date, id) for id, date in enumerate(dates + more) if id % 4 != 3)
        for date, id in expected:
            assert heap.pop(date - 1) == -1
            assert (heap.next_date(), heap.pop(date)) == (date, id)
        assert (heap.pop(1000), heap.next_date()) == (-1, NEVER)


def test_ids_and_slots_of_the_largest_size_stay_apart() -> None:
    found: list[Entry] = []
    heap = DateHeap(lambda *entry: found.append(entry) is None)
    heap.push((1 << 47) - 1, (1 << 63) - 1, (1 << 32) - 1)
    assert heap.pop(1 << 47) == (1 << 32) - 1
    assert found == [((1 << 47) - 1, (1 << 63) - 1, (1 << 32) - 1)]


def test_entries_that_no_longer_hold_do_not_pile_up() -> None:
    asked: list[int] = []
    heap = DateHeap(lambda date, id, slot: asked.append(id) is None and id >= 9_990)
    for id in range(10_000):
        heap.push(5, id, id)
    asked.clear()
    assert heap.next_date() == 5
    assert len(asked) < 3000

"""Columns of rows: slots are taken, given back and used again; nothing of a row stays with its slot."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headwater.queue.columns import FREE, HELD, RUN, Extras, RowColumns, Tries, extras_size


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=60))
def test_slots_that_are_taken_are_distinct_until_they_are_given_back(steps: list[int | None]) -> None:
    columns, taken = RowColumns(), list[int]()
    for step in steps:
        if step is None:
            slot = columns.take()
            assert slot not in taken
            columns.states[slot] = RUN
            taken.append(slot)
        elif taken:
            columns.give_back(taken.pop(step % len(taken)))
    assert {slot for slot, state in enumerate(columns.states) if state != FREE} == set(taken)
    assert sorted([*columns.free, *taken]) == list(range(len(columns)))


def test_a_slot_forgets_its_row() -> None:
    columns = RowColumns()
    slot = columns.take()
    columns.states[slot], columns.bodies[slot] = HELD, b"body"
    columns.use_homes()[slot] = columns.updates[slot] = 5
    columns.tries[slot], columns.extras[slot] = Tries(1), Extras(lane=b"l")
    columns.give_back(slot)
    assert (columns.states[slot], columns.bodies[slot]) == (FREE, b"")
    assert (columns.homes[slot], columns.updates, columns.tries, columns.extras) == (0, {}, {}, {})
    assert columns.take() == slot


def test_what_few_rows_have_goes_alone() -> None:
    columns = RowColumns()
    slot, other = columns.take(), columns.take()
    columns.bodies[slot] = b"body"
    for one in (slot, other):
        columns.tries[one] = Tries(1)
    columns.forget_rare(slot)
    assert (columns.bodies[slot], columns.tries) == (b"body", {other: Tries(1)})


def test_slots_that_a_log_names_are_made_and_counted_at_its_end() -> None:
    columns = RowColumns()
    columns.grow(10)
    columns.grow(3)
    columns.states[1] = columns.states[9] = RUN
    assert (len(columns), len(columns.ids), len(columns.bodies), columns.free) == (10, 10, 10, [])
    columns.count_free()
    assert [columns.take() for _ in range(8)] == [0, 2, 3, 4, 5, 6, 7, 8]
    assert columns.take() == 10


def test_homes_are_a_column_from_the_first_row_on_that_is_written_again() -> None:
    columns = RowColumns()
    slots = [columns.take() for _ in range(3)]
    assert not columns.homes
    columns.use_homes()[slots[1]] = 7
    columns.grow(5000)
    assert len(columns.homes) == len(columns)
    assert [columns.use_homes()[slot] for slot in (*slots, 4999)] == [0, 7, 0, 0]
    columns.updates[slots[1]] = 5
    columns.give_back_all(slots)
    assert (columns.homes[slots[1]], columns.updates) == (0, {})


def test_the_size_of_extras_is_about_that_of_a_record() -> None:
    extras = Extras(lane=b"l" * 255, error="ä" * 2000, schedule="every 1h", run=1 << 41, unique_for=1 << 30, absorbed=(1 << 40,) * 16)
    assert abs(extras_size(extras) - len(msgspec.msgpack.encode(extras))) < 64
    columns = RowColumns()
    columns.keep_rare(columns.take(), {"lane": b"l", "error": "e"})
    assert columns.extras.bytes == extras_size(Extras(lane=b"l", error="e"))

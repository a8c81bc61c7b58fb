"""The index of rows by id: it is what a sorted look at all rows finds, whatever was put and has gone since it was made."""

from __future__ import annotations

import random

import pytest

from headwater.queue import row_index
from headwater.queue.columns import FREE, RUN, RowColumns
from headwater.queue.death import Death
from headwater.queue.row_index import RowIndex


def looked_up(columns: RowColumns, after: int) -> list[int]:
    slots = [slot for slot in range(len(columns)) if columns.states[slot] != FREE and columns.ids[slot] > after]
    return sorted(slots, key=columns.ids.__getitem__)


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_what_a_look_at_all_rows_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_index, "_AT_ONCE", 3)
    monkeypatch.setattr(row_index, "_MANY", 5)
    chance, columns, next_id = random.Random(seed), RowColumns(), 1
    index = RowIndex(columns)
    for _ in range(60):
        for _ in range(chance.randrange(6)):
            slot = columns.take()
            columns.ids[slot], columns.states[slot] = next_id, RUN
            next_id += chance.randrange(1, 4)
        live = looked_up(columns, -1)
        for slot in chance.sample(live, chance.randrange(len(live) // 2 + 1)):
            columns.give_back(slot)
        after = chance.randrange(-1, next_id + 2)
        assert list(index.slots(after)) == looked_up(columns, after)
        assert next(index.slots(after), None) == next(iter(looked_up(columns, after)), None)


def test_behind_the_largest_number_there_is_nothing() -> None:
    columns = RowColumns()
    index = RowIndex(columns)
    assert list(index.slots(-1)) == []
    columns.ids[slot] = 7 if (slot := columns.take()) >= 0 else 0
    columns.states[slot] = RUN
    assert (list(index.slots(1 << 70)), list(index.slots(6)), list(index.slots(7))) == ([], [slot], [])


def test_dead_rows_come_by_id_also_when_others_have_died_and_some_are_carried() -> None:
    index, deaths = RowIndex(RowColumns()), dict[int, Death]()
    assert list(index.dead(deaths, -1)) == []
    for id in (5, 2, 9):
        deaths[id] = Death(id, 0, 1, "", "")
    assert (list(index.dead(deaths, -1)), list(index.dead(deaths, 2)), list(index.dead(deaths, 9))) == ([2, 5, 9], [5, 9], [])
    del deaths[5]
    deaths[1] = Death(1, 0, 1, "", "")
    del deaths[9]
    deaths[9] = Death(9, 0, 1, "", "")  # carried: as many as before, and the same one is the last
    assert list(index.dead(deaths, -1)) == [1, 2, 9]
    deaths.clear()
    assert list(index.dead(deaths, -1)) == []

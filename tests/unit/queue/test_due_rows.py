"""Due rows against a sorted list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.queue import due_rows
from headwater.queue.body import make_body
from headwater.queue.columns import PROCESSING, RUN, RowColumns
from headwater.queue.date_heap import NEVER
from headwater.queue.due_rows import DueRows

Rank = tuple[int, int, int]  # priority, process date, id
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from([0, 100, 199, 200, 255]), st.integers(1, 9)),
        st.tuples(st.just("remove"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("again"), st.integers(0, 9), st.integers(1, 9)),
        st.tuples(st.just("pop"), st.sampled_from([200, 256, 256]), st.just(0)),
    ),
    max_size=80,
)


class Ground:
    """Due rows beside the ranks that they have."""

    def __init__(self) -> None:
        self.columns = RowColumns()
        self.rows, self.model = DueRows(self.columns), dict[int, Rank]()
        self._id = 0

    def place(self, slot: int, priority: int, process: int) -> None:
        self.columns.bodies[slot] = make_body(1, slot, 0, priority, 0, 1, process, 0, b"k", b"")
        self.rows.add(slot, priority, process)
        self.model[slot] = (priority, process, self.columns.ids[slot])

    def add(self, priority: int, process: int) -> int:
        slot = self.columns.take()
        self._id += 1
        self.columns.ids[slot] = self._id
        self.place(slot, priority, process)
        return slot

    def leave(self, slot: int) -> None:
        """The row is no longer due; its slot is used by another."""
        del self.model[slot]
        self.columns.states[slot] = PROCESSING

    def first(self, below: int = 256) -> int:
        found = min((rank, slot) for slot, rank in [*self.model.items(), (-1, (256, 0, 0))])
        return found[1] if found[0][0] < below else -1


@given(STEPS)
def test_rows_come_by_priority_process_date_and_id(steps: list[tuple[str, int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(due_rows, "_FEW", 2)  # that entries of rows that have gone are cut, too
        ground = Ground()
        for name, number, date in steps:
            slots = sorted(ground.model)
            if name == "add":
                ground.add(number, date)
            elif name == "pop":
                expected = ground.first(number)
                assert ground.rows.pop(number) == expected
                if expected >= 0:
                    ground.leave(expected)
                    if expected % 2:
                        ground.columns.give_back(expected)
            elif slots:
                slot = slots[number % len(slots)]
                priority = ground.model[slot][0]
                ground.rows.remove(slot)
                ground.leave(slot)
                if name == "again":  # as a merge does: the same row, at another date or priority
                    ground.place(slot, max(priority - date % 2, 0), date)
                else:
                    ground.columns.give_back(slot)
            assert ground.rows.top() == min((rank[0] for rank in ground.model.values()), default=256)
            assert ground.rows.oldest() == min((rank[1] for rank in ground.model.values()), default=NEVER)
        while ground.model:
            slot = ground.first()
            assert ground.rows.pop() == slot
            ground.leave(slot)
        assert ground.rows.pop() == -1


def test_a_key_that_is_put_again_and_again_leaves_few_entries() -> None:
    ground = Ground()
    slot = ground.add(100, 1)
    for number in range(2000):
        ground.rows.remove(slot)
        ground.place(slot, 100, 1 if number % 3 else number)
    entries = ground.rows.bins[100]
    assert len(entries.run) + len(entries.heap) < 200
    assert ground.rows.pop() == slot


@given(st.lists(st.tuples(st.sampled_from([0, 100, 255]), st.integers(1, 9)), max_size=20))
def test_rows_that_are_filled_in_come_in_order(rows: list[tuple[int, int]]) -> None:
    ground = Ground()
    slots = [ground.add(*row) for row in rows]
    again = DueRows(ground.columns)
    for slot in slots:
        ground.columns.states[slot] = RUN
    again.fill(sorted(slots, key=lambda slot: ground.model[slot][1:]))
    assert [again.pop() for _ in slots] == sorted(slots, key=lambda slot: ground.model[slot])
    assert (again.pop(), again.top()) == (-1, 256)

"""The order of waiting rows against a list of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.queue.body import make_body
from headwater.queue.columns import PROCESSING, RUN, RowColumns
from headwater.queue.date_heap import NEVER
from headwater.queue.order import RowOrder

STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.one_of(
            st.tuples(st.just("add"), st.sampled_from([0, 100, 199, 200]), st.integers(-3, 6)),
            st.tuples(st.just("remove"), st.integers(0, 9), st.just(0)),
            st.tuples(st.just("pop"), st.integers(0, 1), st.just(0)),
        ),
    ),
    max_size=60,
)


class Ground:
    """An order beside a list of (priority, process date, id, slot)."""

    def __init__(self) -> None:
        self.columns, self.now, self.id = RowColumns(), 100, 0
        self.order, self.rows = RowOrder(self.columns), list[tuple[int, int, int, int]]()

    def add(self, priority: int, process: int) -> None:
        slot = self.columns.take()
        self.id += 1
        self.columns.ids[slot] = self.id
        self.columns.bodies[slot] = make_body(1, slot, 0, priority, 0, 1, process, 0, b"k", b"")
        if process == self.now:
            self.order.add_new(slot, self.id, priority, process)
        else:
            self.order.add(slot, priority, process, self.now)
        self.rows.append((priority, process, self.id, slot))

    def compare(self) -> None:
        due = [row for row in self.rows if row[1] <= self.now]
        assert (self.order.due, self.order.later) == (len(due), len(self.rows) - len(due))
        assert self.order.oldest_due() == min((row[1] for row in due), default=NEVER)
        later = min((row[1] for row in self.rows if row[1] > self.now), default=NEVER)
        assert self.order.future.next_date() == later


@given(STEPS)
def test_rows_wait_for_their_date_and_come_in_their_order(steps: list[tuple[int, tuple[str, int, int]]]) -> None:
    ground = Ground()
    for wait, (name, number, delay) in steps:
        ground.now += wait
        newly = [row for row in ground.rows if ground.now - wait < row[1] <= ground.now]
        assert ground.order.promote(ground.now) == len(newly)
        assert ground.order.promote(ground.now) == 0
        if name == "add":
            ground.add(number, ground.now + delay)
        elif name == "remove" and ground.rows:
            slot = ground.rows.pop(number % len(ground.rows))[3]
            ground.order.remove(slot)
            ground.columns.give_back(slot)
        elif name == "pop":
            due = [row for row in ground.rows if row[1] <= ground.now and (number or row[0] < 200)]
            expected = min(due, default=(0, 0, 0, -1))
            assert ground.order.pop(slow=bool(number)) == expected[3]
            if due:
                ground.rows.remove(expected)
                ground.columns.states[expected[3]] = PROCESSING
        ground.compare()


@given(st.lists(st.tuples(st.sampled_from([0, 100, 200]), st.integers(90, 110)), max_size=20))
def test_rows_of_a_log_are_placed_at_its_end(rows: list[tuple[int, int]]) -> None:
    ground = Ground()
    for priority, process in rows:
        ground.add(priority, process)
    for row in ground.rows:
        ground.columns.states[row[3]] = RUN
    processed = ground.columns.take()
    ground.columns.states[processed] = PROCESSING
    ground.order = RowOrder(ground.columns)
    ground.order.rebuild([*(row[3] for row in reversed(ground.rows)), processed], ground.now)
    ground.compare()
    ground.now = 110
    ground.order.promote(110)
    ground.compare()
    assert [ground.order.pop(slow=True) for _ in ground.rows] == [row[3] for row in sorted(ground.rows)]

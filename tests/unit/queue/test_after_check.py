"""Puts that are refused because of rows that wait for others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.unit.queue.decisions_ground import Ground

from headwater.core.errors import BadInput
from headwater.queue.after_check import AFTER_SIZE, all_waiters, check_after, rare_size
from headwater.queue.checks import checked_row
from headwater.queue.columns import EXTRAS_NAMES
from headwater.queue.row import NewRow


class Checked(Ground):
    """Checks puts before it makes them."""

    def check(self, *rows: tuple[bytes, Sequence[int]]) -> int:
        new = [NewRow(key=key, after=tuple(after)) for key, after in rows]
        self.decisions.begin(self.now)
        try:
            checked = [checked_row(row, self.decisions.settings, self.now) for row in new]
            check_after(self.fold, checked)
            return rare_size(self.fold, checked)
        finally:
            assert self.decisions.end() is None

    def add(self, key: bytes, *after: int) -> int:
        self.check((key, after))
        return self.put(key, after=after).id


@pytest.fixture
def ground() -> Checked:
    return Checked()


def test_a_cycle_names_its_keys(ground: Checked) -> None:
    a = ground.add(b"a")
    b = ground.add(b"b", a)
    c = ground.add(b"c", b, ground.add(b"other"))
    with pytest.raises(BadInput, match=r"each other: 'a' waits for 'c', 'c' for 'b', 'b' for 'a'\."):
        ground.add(b"a", c)
    with pytest.raises(BadInput, match=r"each other: 'a' waits for 'a'\."):
        ground.add(b"a", a)
    assert ground.put(b"c", after=(a,)).outcome == "merged"
    assert all_waiters(ground.fold, a) == {b, c}


def test_rows_that_are_put_together_make_no_cycle_either(ground: Checked) -> None:
    a, b, c = ground.add(b"a"), ground.add(b"b"), ground.add(b"c")
    with pytest.raises(BadInput, match="for each other"):
        ground.check((b"a", [b]), (b"b", [c]), (b"c", [a]))
    ground.check((b"a", [b]), (b"b", [c]), (b"new", [a]))
    with pytest.raises(BadInput, match="for each other"):
        ground.check((b"a", [b]), (b"b", [c]), (b"new", [a]), (b"c", [b, a]))


def test_a_long_cycle_is_cut_short(ground: Checked) -> None:
    first = last = ground.add(b"0")
    for number in range(1, 3000):
        last = ground.add(b"%d" % number, last)
    with pytest.raises(BadInput, match=r"'0' waits for '2999', '2999' for '2998', .*, and 2990 more\.") as refused:
        ground.add(b"0", last)
    assert len(str(refused.value)) < 500
    assert len(all_waiters(ground.fold, first)) == 2999


def test_a_follow_up_may_wait_for_the_row_of_its_key_and_for_those_that_wait_for_it(ground: Checked) -> None:
    a = ground.add(b"a")
    z = ground.add(b"z", a)
    ground.claim()
    follow_up = ground.add(b"a", z, a)
    assert follow_up != a
    with pytest.raises(BadInput, match="for each other"):
        ground.check((b"z", [follow_up]))


def test_a_stale_put_is_no_reason_to_refuse(ground: Checked) -> None:
    a = ground.add(b"a")
    b = ground.add(b"b", a)
    stale = checked_row(NewRow(key=b"a", after=(b,), insertion_date=5), ground.decisions.settings, ground.now)
    check_after(ground.fold, [stale])


def test_ids_that_no_row_has_had_are_refused(ground: Checked) -> None:
    a = ground.add(b"a")
    ground.check((b"b", [a, 0, 5]))
    following = (ground.fold.sequence + 1) * 65_536
    with pytest.raises(BadInput, match=f"No row has the id {following}, after which 'b' comes"):
        ground.check((b"b", [a, following]))


def test_the_size_counts_what_the_rows_wait_for_already(ground: Checked) -> None:
    a, b = ground.add(b"a"), ground.add(b"b")
    assert ground.check((b"c", [a, b])) == 2 * AFTER_SIZE + EXTRAS_NAMES
    assert ground.check((b"c", [a, b]), (b"c", [])) == 4 * AFTER_SIZE + 2 * EXTRAS_NAMES
    ground.add(b"c", a, b)
    assert ground.check((b"c", [a]), (b"d", [])) == 3 * AFTER_SIZE + EXTRAS_NAMES
    assert ground.check((b"c", [])) == 2 * AFTER_SIZE

"""Stretches of empty segments."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.journal.segment_jumps import SHORTEST, jumps_after, segments_between
from headwater.journal.store import segment_of

_numbers = st.lists(st.one_of(st.integers(1, 5000), st.integers(1, 1 << 62)), min_size=1, max_size=5)


def test_a_long_way_is_kept_and_a_short_one_is_not() -> None:
    assert jumps_after((), 10, 10, [11, 12]) == ()
    assert jumps_after((), 10, 10, [10 * SHORTEST]) == ()
    assert jumps_after((), 10, 10, [10 * SHORTEST + 11]) == ((1, SHORTEST),)
    assert jumps_after((), 10, 0, [1 << 40]) == ((0, ((1 << 40) - 1) // 10 - 1),)


def test_an_event_in_the_midst_splits_it() -> None:
    jumps = jumps_after((), 2, 1, [1 << 40])
    end = jumps[0][1]
    assert jumps_after(jumps, 2, 1 << 40, [2001]) == ((1, 999), (1001, end))
    assert jumps_after(jumps, 2, 1 << 40, [2 * SHORTEST + 1]) == ((SHORTEST + 1, end),)  # the part before is short
    assert jumps_after(jumps, 2, 1 << 40, [5, (1 << 40) + 1]) == ((3, end),)


def test_few_are_kept_the_longest_first() -> None:
    jumps, last = jumps_after((), 2, 1, []), 1
    for step in range(1, 200):
        last += 200 * step
        jumps = jumps_after(jumps, 2, last - 200 * step, [last])
    assert len(jumps) == 64
    assert min(end - begin for begin, end in jumps) > 100 * 130


def test_segments_between_leave_them_out() -> None:
    jumps = ((3, 5), (8, 8))
    assert list(segments_between(0, 10, jumps)) == [0, 1, 2, 6, 7, 9, 10]
    assert list(segments_between(4, 8, jumps)) == [6, 7]
    assert list(segments_between(4, 5, jumps)) == []
    assert list(segments_between(9, 10, jumps)) == [9, 10]
    assert list(segments_between(5, 4, jumps)) == []


@given(st.lists(_numbers, min_size=1, max_size=5), st.sampled_from([2, 10, 10_000]))
def test_no_segment_with_an_event_is_ever_left_out(appends: list[list[int]], size: int) -> None:
    jumps, last, seen = jumps_after((), size, 0, []), 0, set[int]()
    for numbers in appends:
        jumps = jumps_after(jumps, size, last, numbers)
        last = max(last, *numbers)
        seen |= {segment_of(number, size) for number in numbers}
        asked = set(segments_between(0, segment_of(last, size), jumps)) if segment_of(last, size) < 10_000 or jumps else seen
        assert seen <= asked
        assert all(begin <= end for begin, end in jumps)
        assert all(one[1] < other[0] for one, other in pairwise(jumps))

"""Ranges of offsets against sets of numbers."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.pipeline.offsets.ranges import Span, cut, joined, missing, prefix

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8)


def offsets(spans: list[Span]) -> set[int]:
    return {offset for start, end in spans for offset in range(start, end)}


def shortest(spans: list[Span]) -> bool:
    return all(start < end for start, end in spans) and all(a[1] < b[0] for a, b in pairwise(spans))


@given(SPANS)
def test_joined_holds_the_same_offsets_in_the_fewest_ranges(spans: list[Span]) -> None:
    made = joined(spans)
    assert offsets(made) == offsets(spans)
    assert shortest(made)


@given(st.integers(0, 30), st.integers(0, 30), SPANS)
def test_missing_is_what_no_range_has(start: int, end: int, taken: list[Span]) -> None:
    made = missing(start, end, taken)
    assert offsets(made) == set(range(start, end)) - offsets(taken)
    assert shortest(made)


@given(st.integers(-1, 30), SPANS)
def test_prefix_ends_before_the_first_offset_that_nobody_took(position: int, taken: list[Span]) -> None:
    have = set(range(position + 1)) | offsets(taken)
    made, rest = prefix(position, taken)
    assert made == next(offset for offset in range(32) if offset not in have) - 1
    assert offsets(rest) == {offset for offset in have if offset > made}
    assert shortest(rest)


def test_the_prefix_of_the_seeds_example() -> None:
    assert prefix(8, [(9, 14)]) == (13, [])
    assert prefix(8, [(10, 14)]) == (8, [(10, 14)])
    assert prefix(-1, []) == (-1, [])


@given(SPANS, st.integers(0, 30), st.integers(0, 30))
def test_what_is_cut_is_what_lies_between(spans: list[Span], start: int, end: int) -> None:
    assert offsets(cut(spans, start, end)) == offsets(spans) & set(range(start, end))

"""Offsets in stretches that are read at one go."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.log.kafka.scattered import stretches


def test_near_offsets_are_one_stretch() -> None:
    assert list(stretches([])) == []
    assert list(stretches([7])) == [[7]]
    assert list(stretches([0, 1, 501, 1001])) == [[0, 1, 501, 1001]]
    assert list(stretches([0, 501, 1002, 1003])) == [[0], [501], [1002, 1003]]


@given(st.sets(st.integers(0, 5000)))
def test_stretches_are_the_offsets_cut_where_they_are_far_apart(chosen: set[int]) -> None:
    offsets = sorted(chosen)
    found = list(stretches(offsets))
    assert [offset for stretch in found for offset in stretch] == offsets
    assert all(b - a <= 500 for stretch in found for a, b in pairwise(stretch))
    assert all(b[0] - a[-1] > 500 for a, b in pairwise(found))

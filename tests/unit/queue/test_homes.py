"""Homes against a list of counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.queue import homes
from headwater.queue.homes import Homes


@given(st.integers(1, 1000), st.lists(st.one_of(st.tuples(st.integers(0, 3), st.integers(0, 50)), st.integers(0, 20)), max_size=60))
def test_the_first_record_that_is_needed_is_the_first_with_a_row(begin: int, steps: list[tuple[int, int] | int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(homes, "_SPARE", 3)  # that columns are cut, too
        counted, model = Homes(begin), dict[int, list[int]]()
        for step in steps:
            if isinstance(step, tuple):
                model[begin + len(model)] = list(step)
                counted.note(*step)
            else:
                rows = [sequence for sequence, (count, _) in model.items() if count]
                if rows:
                    sequence = rows[step % len(rows)]
                    model[sequence][0] -= 1
                    counted.remove(sequence)
            following = begin + len(model)
            first = min((sequence for sequence, (count, _) in model.items() if count), default=following)
            assert counted.pass_unneeded() == counted.first == first
            assert (counted.next, counted.records) == (following, following - first)
            assert counted.bytes == sum(size for sequence, (_, size) in model.items() if sequence >= first)


def test_nothing_is_passed_before_somebody_asks() -> None:
    counted = Homes(5)
    counted.note(0, 10)
    assert (counted.first, counted.records, counted.bytes) == (5, 1, 10)
    assert (counted.pass_unneeded(), counted.records, counted.bytes) == (6, 0, 0)

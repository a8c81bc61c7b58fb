"""The merge rule, field by field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.queue.merge import Mergeable, merged

OLD = Mergeable(100, 1000, 1500, 3000, 1000, b"old", 0, 1, b"")
NEW = Mergeable(100, 1200, 1500, 3000, 1200, b"new", 0, 1, b"")
DATES = st.integers(1, 10_000)
ROWS = st.builds(
    Mergeable,
    *(st.integers(0, 255), DATES, DATES, st.one_of(st.just(0), DATES), DATES),
    *(st.binary(max_size=2), st.integers(0, 1), st.integers(0, 3), st.sampled_from([b"", b"a", b"b"])),
)


def one(field: str, old: Any, new: Any, max_delay: int = 0) -> Any:
    """What becomes of one field."""
    return getattr(merged(OLD._replace(**{field: old}), NEW._replace(**{field: new}), max_delay), field)


@pytest.mark.parametrize(
    ("field", "old", "new", "then"),
    [
        ("priority", 10, 20, 10),
        ("priority", 20, 10, 10),
        ("priority", 255, 0, 0),
        ("insertion", 1000, 1200, 1000),
        ("insertion", 1200, 1000, 1200),
        ("process", 1500, 1400, 1500),
        ("process", 1500, 1600, 1600),
        ("expiration", 3000, 2000, 3000),
        ("expiration", 2000, 3000, 3000),
        ("expiration", 0, 3000, 0),
        ("expiration", 3000, 0, 0),
        ("expiration", 0, 0, 0),
        ("update", 1000, 1200, 1200),
        ("update", 1200, 1000, 1200),
        ("data", b"old", b"", b""),
        ("form", 0, 1, 1),
        ("declaration", 7, 3, 3),
        ("lane", b"a", b"", b"a"),
        ("lane", b"a", b"b", b"b"),
        ("lane", b"", b"b", b"b"),
    ],
)
def test_each_field_has_its_rule(field: str, old: Any, new: Any, then: Any) -> None:
    assert one(field, old, new) == then


@pytest.mark.parametrize(
    ("old", "new", "max_delay", "then"),
    [
        (1500, 9000, 0, 9000),
        (1500, 9000, 700, 1700),
        (1500, 1600, 700, 1600),
        (1500, 1700, 700, 1700),
        (1800, 9000, 700, 1800),  # its own first date stays, however late
    ],
)
def test_puts_delay_a_row_up_to_max_delay_beyond_its_first_insertion(old: int, new: int, max_delay: int, then: int) -> None:
    assert one("process", old, new, max_delay) == then


@given(ROWS, st.lists(ROWS, min_size=1, max_size=5), st.sampled_from([0, 0, 500]))
def test_many_merges_keep_the_first_insertion_the_most_urgent_the_latest_dates_and_the_last_data(
    first: Mergeable, others: list[Mergeable], max_delay: int
) -> None:
    row = first
    for other in others:
        row = merged(row, other, max_delay)
    every = [first, *others]
    assert row.insertion == first.insertion
    assert row.priority == min(one.priority for one in every)
    assert row.update == max(one.update for one in every)
    assert row.expiration == (0 if any(not one.expiration for one in every) else max(one.expiration for one in every))
    assert (row.data, row.form, row.declaration) == (others[-1].data, others[-1].form, others[-1].declaration)
    latest = max(one.process for one in others)
    assert row.process == max(first.process, min(latest, first.insertion + max_delay) if max_delay else latest)


@given(ROWS)
def test_merging_a_row_with_itself_changes_nothing(row: Mergeable) -> None:
    assert merged(row, row) == row

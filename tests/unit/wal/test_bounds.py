from __future__ import annotations

from typing import Any

import pytest

from headwater.core.errors import BadBounds
from headwater.wal.bounds import Excluded, Included, SequenceRange, sequence_range

MAX = 2**64 - 1


@pytest.mark.parametrize(
    ("start", "end", "first", "last"),
    [
        ("min", "max", 0, MAX),
        (Included(3), Included(7), 3, 7),
        (Excluded(3), Excluded(7), 4, 6),
        (Included(5), Included(5), 5, 5),
        (Included(0), Excluded(1), 0, 0),
        (Excluded(MAX - 1), "max", MAX, MAX),
    ],
)
def test_bounds_become_a_range(start: Any, end: Any, first: int, last: int) -> None:
    assert sequence_range(start, end) == SequenceRange(first, last)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (Excluded(MAX), "max"),
        ("min", Excluded(0)),
        (Included(7), Included(3)),
        (Excluded(3), Excluded(4)),
        (Included(-1), "max"),
        (Included(MAX + 1), "max"),
        (Included("3"), "max"),
        (Included(True), "max"),
        ("max", "max"),
        ("min", "min"),
        (3, "max"),
        (None, "max"),
    ],
)
def test_bounds_without_a_meaning_are_refused(start: Any, end: Any) -> None:
    with pytest.raises(BadBounds):
        sequence_range(start, end)

from __future__ import annotations

from headwater.wal.region_outcomes import Cleaned, TableMark


def test_they_are_compared_by_what_they_say() -> None:
    assert TableMark(3) == TableMark(3, clamped=False)
    assert Cleaned(5, 2) != Cleaned(5, 3)

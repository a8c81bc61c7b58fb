from __future__ import annotations

import pytest

from headwater.wire import times


@pytest.mark.parametrize(("ms", "shown"), [(0, "1970-01-01T00:00:00.000Z"), (-1, "1969-12-31T23:59:59.999Z"), (1 << 60, 1 << 60)])
def test_times_are_written_as_iso_where_a_calendar_reaches(ms: int, shown: str | int) -> None:
    assert times.show_time(ms) == shown
    assert times.read_time(shown) == ms


def test_a_time_in_another_zone_is_the_same_moment() -> None:
    assert times.read_time("2026-01-31T13:00:00+01:00") == times.read_time("2026-01-31T12:00:00.000Z")

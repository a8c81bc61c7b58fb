"""Periods of the UTC calendar and durations: how they are written, and when the one that contains a moment ends."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import BadInput
from headwater.core.period import CALENDAR, Calendar, Period, period_end


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("period", "moment", "end"),
    [
        ("hour", "2026-11-17T16:00:00", "2026-11-17T17:00:00"),
        ("hour", "2026-12-31T23:59:59.999", "2027-01-01"),
        ("day", "2026-02-28T12:00:00", "2026-03-01"),
        ("day", "2028-02-28T12:00:00", "2028-02-29"),
        ("month", "2026-01-31T23:59:59.999", "2026-02-01"),
        ("month", "2026-02-01", "2026-03-01"),
        ("month", "2028-02-29T12:00:00", "2028-03-01"),
        ("month", "2100-02-28T12:00:00", "2100-03-01"),
        ("month", "2026-12-01", "2027-01-01"),
        ("month", "9999-12-31T23:59:59", None),  # later than any date that Python has
        (90 * 60_000, "1970-01-01T01:00:00", "1970-01-01T01:30:00"),
    ],
)
def test_a_period_ends_where_the_next_one_begins(period: int | Calendar, moment: str, end: str | None) -> None:
    assert period_end(period, ms(moment)) == (ms("9999-12-01") + 31 * 86_400_000 if end is None else ms(end))


@given(st.sampled_from(CALENDAR), st.integers(-(10**15), 10**15))
def test_every_moment_lies_in_one_period(period: Calendar, moment: int) -> None:
    end = period_end(period, moment)
    assert end > moment
    assert period_end(period, end - 1) == end
    assert period_end(period, end) > end


@given(st.integers(0, ms("9000-01-01")))
def test_months_are_those_of_the_calendar(moment: int) -> None:
    end = datetime.fromtimestamp(period_end("month", moment) // 1000, UTC)
    now = datetime.fromtimestamp(moment // 1000, UTC)
    assert (end.day, end.hour, end.minute, end.second) == (1, 0, 0, 0)
    assert (end.year * 12 + end.month) - (now.year * 12 + now.month) == 1


@pytest.mark.parametrize(("text", "value"), [("hour", "hour"), (" month ", "month"), ("90m", 5_400_000), ("1h", 3_600_000), ("0ms", 0)])
def test_a_period_is_a_name_or_a_duration(text: str, value: int | Calendar) -> None:
    assert Period.parse(text).value == value
    assert Period.of(value) == text.strip()


@pytest.mark.parametrize("text", ["", "week", "Hour", "1 month", "90", "-1h", "day day"])
def test_anything_else_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(BadInput, match="is no period") as refused:
        Period.parse(text)
    assert "hour, day, month, or a duration" in refused.value.hint

"""Texts of durations, as Scala writes and reads them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import BadInput, UnreadableRecord
from headwater.journal.expire_after import LONGEST, check_expire_after, expire_after_text, read_expire_after


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (86_400_000, "1 day"),
        (172_800_000, "2 days"),
        (3_600_000, "1 hour"),
        (5_400_000, "90 minutes"),
        (1_000, "1 second"),
        (1, "1 millisecond"),
        (1_500, "1500 milliseconds"),
        (0, "0 days"),
    ],
)
def test_the_largest_unit_that_keeps_the_number_whole(milliseconds: int, text: str) -> None:
    assert expire_after_text(milliseconds) == text
    assert read_expire_after(text) == milliseconds


@given(st.integers(-LONGEST, LONGEST))
def test_every_duration_is_read_back(milliseconds: int) -> None:
    assert read_expire_after(expire_after_text(milliseconds)) == milliseconds
    assert read_expire_after(milliseconds) == milliseconds


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        *((f"2{unit}", 2 * 86_400_000) for unit in ("d", " day", " days")),
        *((f"2{unit}", 2 * 3_600_000) for unit in ("h", "hr", "hrs", " hour", " hours")),
        *((f"2{unit}", 2 * 60_000) for unit in ("m", " min", "mins", " minute", " minutes")),
        *((f"2{unit}", 2_000) for unit in ("s", " sec", "secs", " second", " seconds")),
        *((f"2{unit}", 2) for unit in ("ms", " milli", " millis", " millisecond", " milliseconds")),
        *((f"2000{unit}", 2) for unit in ("µs", " micro", " micros", " microsecond", " microseconds")),
        *((f"2000000{unit}", 2) for unit in ("ns", " nano", " nanos", " nanosecond", " nanoseconds")),
        ("1.5 days", 129_600_000),
        ("999 micros", 0),
        ("-1 day", -86_400_000),
        ("  1 \t day ", 86_400_000),
        ("1e2 s", 100_000),
    ],
)
def test_every_unit_is_read(text: str, milliseconds: int) -> None:
    assert read_expire_after(text) == milliseconds


def test_a_number_means_milliseconds() -> None:
    assert read_expire_after(60_000) == 60_000
    assert read_expire_after(1.9) == 1


@pytest.mark.parametrize(
    "value", ["", "day", "1", "1 fortnight", "Inf", "1 day 2 hours", "1 Day", "0x1 s", "1e99 days", "300 years", "9" * 29 + " d", "1__0 s"]
)
def test_other_texts_are_unreadable(value: str) -> None:
    with pytest.raises(UnreadableRecord):
        read_expire_after(value)


@pytest.mark.parametrize("value", [1 << 63, float("inf"), float("nan"), -1e300])
def test_other_numbers_are_unreadable(value: float) -> None:
    with pytest.raises(UnreadableRecord):
        read_expire_after(value)


@pytest.mark.parametrize("value", [-1, LONGEST + 1, True, 1.5, "1d", None])
def test_users_give_durations_from_0_to_292_years(value: object) -> None:
    with pytest.raises(BadInput, match="is no duration"):
        check_expire_after(value)
    assert check_expire_after(LONGEST) == LONGEST


@given(st.text())
def test_a_text_is_a_duration_or_unreadable(text: str) -> None:
    with suppress(UnreadableRecord):
        assert -LONGEST <= read_expire_after(text) <= LONGEST

"""What callers give: each refusal, and what is filled in."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.core.errors import BadInput, TooLarge
from headwater.core.units import Duration
from headwater.queue.checks import MAX_DATE, MAX_ERROR, MAX_KEY, checked_duration, checked_name, checked_row, cut_error
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.row import NewRow

NOW = 1_700_000_000_000
SETTINGS = EffectiveSettings(priority=42, clock_ahead=Duration(300_000))


def checked(**given: Any) -> Any:
    return checked_row(NewRow(**{"key": b"k", **given}), SETTINGS, NOW)


def test_what_is_left_out_comes_from_the_settings_and_the_clock() -> None:
    row = checked()
    assert (row.priority, row.insertion, row.process, row.expiration, row.raised) == (42, NOW, NOW, 0, False)


@pytest.mark.parametrize("priority", [-1, 256, 1.0, True, "10"])
def test_priorities_are_0_to_255(priority: Any) -> None:
    assert [checked(priority=one).priority for one in (0, 255)] == [0, 255]
    with pytest.raises(BadInput, match="priority"):
        checked(priority=priority)


@pytest.mark.parametrize("key", [b"", "text", None, bytearray(b"k")])
def test_a_key_is_bytes_and_not_empty(key: Any) -> None:
    with pytest.raises(BadInput, match="key"):
        checked(key=key)


def test_a_key_has_a_largest_size() -> None:
    assert len(checked(key=b"k" * MAX_KEY).key) == MAX_KEY
    with pytest.raises(TooLarge, match="1025 bytes"):
        checked(key=b"k" * (MAX_KEY + 1))


@pytest.mark.parametrize("data", ["text", None, 5])
def test_data_are_bytes(data: Any) -> None:
    with pytest.raises(BadInput, match="data"):
        checked(data=data)


@pytest.mark.parametrize("form", [2, 4, -1, 256, None])
def test_data_have_one_of_two_forms(form: Any) -> None:
    assert [checked(form=one).form for one in (0, 1)] == [0, 1]
    with pytest.raises(BadInput, match="form"):
        checked(form=form)


@pytest.mark.parametrize("name", ["process_date", "insertion_date", "expiration_date"])
@pytest.mark.parametrize("date", [-1, MAX_DATE + 1, 5.0, "2026-01-01", True])
def test_dates_are_milliseconds(name: str, date: Any) -> None:
    with pytest.raises(BadInput, match=name):
        checked(**{name: date})


def test_no_expiration_is_0_and_nothing_else() -> None:
    assert checked(expiration_date=0).expiration == 0
    with pytest.raises(BadInput, match="expiration_date None"):
        checked(expiration_date=None)


def test_the_clock_of_a_client_may_be_5_minutes_ahead() -> None:
    assert checked(insertion_date=NOW + 300_000).insertion == NOW + 300_000
    with pytest.raises(BadInput, match="300001 ms ahead"):
        checked(insertion_date=NOW + 300_001)
    assert checked(insertion_date=1).insertion == 1


def test_a_given_process_date_before_the_insertion_is_raised_to_it_and_no_other() -> None:
    row = checked(process_date=NOW - 1)
    assert (row.process, row.raised) == (NOW, True)
    row = checked(process_date=NOW - 10, insertion_date=NOW - 10)
    assert (row.process, row.raised) == (NOW - 10, False)
    row = checked(insertion_date=NOW + 1000)
    assert (row.process, row.raised) == (NOW, False)
    row = checked(insertion_date=NOW + 1000, delay=5)
    assert (row.process, row.raised) == (NOW + 5, False)


@pytest.mark.parametrize("delay", [-1, 1.5, "5s", MAX_DATE])
def test_delays_are_milliseconds_from_now(delay: Any) -> None:
    assert checked(delay=0).process == NOW
    with pytest.raises(BadInput, match=r"delay|process date"):
        checked(delay=delay)
    with pytest.raises(BadInput, match="a process date and a delay"):
        checked(delay=0, process_date=NOW)


@pytest.mark.parametrize("lane", ["text", b"l" * 256])
def test_lanes_are_short_bytes(lane: Any) -> None:
    assert checked(lane=b"l" * 255).lane == b"l" * 255
    with pytest.raises(BadInput, match="lane"):
        checked(lane=lane)


def test_names_are_short_texts() -> None:
    assert checked_name("w\u00f6rker", "It") == "w\u00f6rker".encode()
    for name in ("x" * 256, "\u00f6" * 128, "\ud800", 5, b"bytes"):
        with pytest.raises(BadInput, match="It"):
            checked_name(name, "It")  # type: ignore[arg-type]


def test_durations_are_whole_milliseconds() -> None:
    assert (checked_duration(None, 7, "A lease"), checked_duration(1, 7, "A lease", 1)) == (7, 1)
    for given in (0, -1, 1.0, True, MAX_DATE):
        with pytest.raises(BadInput, match="A lease"):
            checked_duration(given, 7, "A lease", 1)  # type: ignore[arg-type]


def test_a_long_error_is_cut_between_characters() -> None:
    assert cut_error("short") == "short"
    cut = cut_error("x" + "\u00f6" * MAX_ERROR)
    assert len(cut.encode()) == MAX_ERROR - 1
    assert cut_error("\ud800!") == "?!"

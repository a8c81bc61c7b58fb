from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import BadInput
from headwater.core.units import Duration, Size, rounded_size


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("250ms", 250), ("60s", 60_000), ("1h", 3_600_000), ("1.5s", 1500), ("2 m", 120_000), ("7d", 604_800_000), ("0s", 0), (" 1s ", 1000)],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert Duration.parse(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "count"),
    [("16MiB", 16 << 20), ("1GiB", 1 << 30), ("0.5KiB", 512), ("1kB", 1000), ("10 MB", 10_000_000), ("7B", 7), ("2TiB", 2 << 40)],
)
def test_sizes(text: str, count: int) -> None:
    assert Size.parse(text) == count


@pytest.mark.parametrize("text", ["250", "0", "1.5"])
@pytest.mark.parametrize("kind", [Duration, Size])
def test_a_bare_number_is_refused_with_the_hint(kind: type[Duration] | type[Size], text: str) -> None:
    with pytest.raises(BadInput, match="has no unit") as caught:
        kind.parse(text)
    assert "such as" in caught.value.hint


@pytest.mark.parametrize("text", ["", "ms", "-1s", "1e3s", "1s2", "one hour", "1h30m", "١s", "1..5s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(BadInput, match="is no duration"):
        Duration.parse(text)


@pytest.mark.parametrize(("kind", "text"), [(Duration, "1week"), (Duration, "1S"), (Size, "16mib"), (Size, "16M"), (Size, "1s")])
def test_an_unknown_unit_is_answered_with_the_known_ones(kind: type[Duration] | type[Size], text: str) -> None:
    with pytest.raises(BadInput, match="is no unit") as caught:
        kind.parse(text)
    assert "The units are" in caught.value.hint


@pytest.mark.parametrize(("kind", "text"), [(Duration, "0.5ms"), (Size, "0.3B")])
def test_a_part_of_the_smallest_unit_is_refused(kind: type[Duration] | type[Size], text: str) -> None:
    with pytest.raises(BadInput, match="not a whole number of"):
        kind.parse(text)


@given(st.integers(0, 1 << 62))
def test_what_is_written_is_read_back(value: int) -> None:
    assert Duration.parse(str(Duration(value))) == value
    assert Size.parse(f"{Size(value)}") == value


def test_seconds_of_a_duration() -> None:
    assert Duration.parse("250ms").seconds == 0.25


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536 << 10, "1.50 MiB"),
        (99 << 30, "99.0 GiB"),
        (500 << 20, "500 MiB"),
        (3 << 50, "3072 TiB"),
    ],
)
def test_sizes_for_reading(count: int, text: str) -> None:
    assert rounded_size(count) == text

from __future__ import annotations

import pytest

from headwater.core.errors import BadBounds
from headwater.wire.ranges import read_closed_range, read_range


@pytest.mark.parametrize(
    ("text", "bounds"), [("0", (0, 0)), ("17", (17, 17)), ("17..20", (17, 20)), ("17..17", (17, 17)), ("17..", (17, None))]
)
def test_ranges_include_their_last(text: str, bounds: tuple[int, int | None]) -> None:
    assert read_range(text) == bounds


@pytest.mark.parametrize("text", ["", "..", "..5", "-1", "1...2", "a", "1..b", "1-2", "1.5", "٣", "9" * 20, " 1"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(BadBounds, match="no range"):
        read_range(text)


def test_a_range_that_runs_backwards() -> None:
    with pytest.raises(BadBounds, match="wrong way round") as caught:
        read_range("5..3")
    assert "3..5" in caught.value.hint


def test_a_range_that_must_have_an_end() -> None:
    assert read_closed_range("3..7") == (3, 7)
    with pytest.raises(BadBounds, match="has no end"):
        read_closed_range("3..")

"""Positions of followers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.errors import BadInput
from headwater.journal.position import FollowPlace, FollowPosition, generation_mark


@pytest.mark.parametrize("written", ["", "16", "16,8.2", ",3", "0,0,0", "0a1b2c3d:16,8.2@77", "3@65537-9", "3.1-9~YQ~4", "kept"])
def test_a_position_is_read_as_it_was_written(written: str) -> None:
    assert str(FollowPosition.read(written)) == written


def test_places() -> None:
    position = FollowPosition.read("16,8.2")
    assert [position.place(number) for number in range(3)] == [FollowPlace(16), FollowPlace(8, 2), FollowPlace()]
    assert str(position.at(1, FollowPlace(9))) == "16,9"
    assert str(FollowPosition().at(2, FollowPlace(4, 1, until=7, id="ä/,:~", number=2))) == ",,4.1-7~w6QvLDp-~2"


@given(st.text(min_size=1), st.integers(0, 1 << 62), st.integers(0, 1 << 62))
@settings(max_examples=30)
def test_ids_travel_in_positions(id: str, offset: int, number: int) -> None:
    position = FollowPosition((FollowPlace(offset, until=offset + 1, id=id, number=number),), generation_mark("x"))
    assert FollowPosition.read(str(position)) == position


@pytest.mark.parametrize(
    "written", ["x", "1;2", "-1", "1.", "1.2.3", 7, None, " 1", "g:1", ":1", "1@", "1-2~", "1-2~/w", "1-2~_w", "1-2~A"]
)
def test_what_is_no_position(written: object) -> None:
    with pytest.raises(BadInput):
        FollowPosition.read(written)

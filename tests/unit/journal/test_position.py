"""Positions of followers."""

from __future__ import annotations

import pytest

from headwater.core.errors import BadInput
from headwater.journal.position import FollowPosition


@pytest.mark.parametrize("written", ["", "16", "16,8.2", ",3", "0,0,0"])
def test_a_position_is_read_as_it_was_written(written: str) -> None:
    assert str(FollowPosition.read(written)) == written


def test_places() -> None:
    position = FollowPosition.read("16,8.2")
    assert [position.place(number) for number in range(3)] == [(16, 0), (8, 2), (None, 0)]
    assert str(position.at(1, 9)) == "16,9"
    assert str(FollowPosition().at(2, 4, 1)) == ",,4.1"


@pytest.mark.parametrize("written", ["x", "1;2", "-1", "1.", "1.2.3", 7, None, " 1"])
def test_what_is_no_position(written: object) -> None:
    with pytest.raises(BadInput):
        FollowPosition.read(written)

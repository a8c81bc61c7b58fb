"""Positions of feeds of many documents."""

from __future__ import annotations

import pytest

from headwater.core.errors import BadInput
from headwater.documents.feed_position import FeedPlace, FeedPosition, feed_mark


def test_a_position_is_read_as_it_was_written() -> None:
    position = FeedPosition(feed_mark("g"), (FeedPlace(16), FeedPlace(8, 2)))
    assert str(position) == f"{feed_mark('g')}:16,8.2"
    assert FeedPosition.read(str(position)) == position
    assert str(position.at(0, FeedPlace(17, 1))) == f"{feed_mark('g')}:17.1,8.2"


def test_generations_have_marks_of_their_own() -> None:
    assert feed_mark("a") != feed_mark("b")


@pytest.mark.parametrize("text", ["", "7", "1f0c9a2e:", "1f0c9a2e:1,", "1f0c9a2e:-1", "xyz:1", "1f0c9a2e:1.2.3", "1f0c9a2e:" + "9" * 30])
def test_what_is_no_position(text: str) -> None:
    with pytest.raises(BadInput):
        FeedPosition.read(text)

"""The operations on changes of documents."""

from __future__ import annotations

from headwater.documents.follow_operations import CARE, FEED, FEED_LINES, FOLLOWING


def test_the_feed_is_lines_unless_events_are_asked_for() -> None:
    assert FEED.path == FEED_LINES.path
    assert FOLLOWING.index(FEED_LINES) < FOLLOWING.index(FEED)  # the first is the answer without a preference
    assert {"feed:put", "feed:patch", "feed:delete", "reset"} <= set(FEED.events)


def test_long_work_is_a_job() -> None:
    assert {one.name for one in CARE if one.kind == "job"} == {"verify", "rebuild"}

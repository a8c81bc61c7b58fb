from __future__ import annotations

from headwater.queue.follow_request import FollowQueue


def test_the_last_event_is_the_one_that_the_address_names_unless_a_browser_connects_again() -> None:
    given = [FollowQueue(queue="q"), FollowQueue(queue="q", last_event="7"), FollowQueue(queue="q", after=0, last_event="7")]
    assert [one.last for one in given] == [None, 7, 7]

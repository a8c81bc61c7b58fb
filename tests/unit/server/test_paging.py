from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from headwater.server.paging import link_to_next


def test_the_last_page_leads_nowhere() -> None:
    assert link_to_next("/log/t/0/records", {"from": 1}, "from", None) is None


def test_the_next_page_is_asked_for_as_this_one_was() -> None:
    link = link_to_next("/wal/wal/7/tables/1/entries", {"from": 1, "to": None, "decode": "text", "dry": True}, "from", "3")
    assert link == {"Link": '</wal/wal/7/tables/1/entries?from=3&decode=text&dry=true>; rel="next"'}


def test_a_page_behind_what_was_seen_leads_to_the_next_one_and_not_to_itself() -> None:
    """`after` outranks `from`."""
    link = link_to_next("/log/t/0/records", {"from": None, "after": 2, "limit": 1}, "from", "4")
    assert link is not None
    address = urlsplit(link["Link"].partition(">")[0].removeprefix("<"))
    assert parse_qs(address.query) == {"from": ["4"], "limit": ["1"]}
    kept = link_to_next("/queues", {"after": "a", "limit": 1}, "after", "b")
    assert kept == {"Link": '</queues?after=b&limit=1>; rel="next"'}

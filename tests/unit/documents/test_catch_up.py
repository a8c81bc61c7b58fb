"""Reading what followers have missed."""

from __future__ import annotations

import pytest
from tests.unit.documents.feed_ground import TOPIC, FeedGround

from headwater.core.errors import LogGap
from headwater.documents import catch_up
from headwater.documents.catch_up import PartitionScan
from headwater.documents.path import partition_of
from headwater.documents.store import ChangePlace

SHOP = partition_of("shop~", 2)


def test_pages_are_limited_by_number_and_by_bytes(ground: FeedGround, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up, "PAGE", 20)
    monkeypatch.setattr(catch_up, "PAGE_BYTES", 5000)
    for number in range(10):
        ground.write(*[("shop~/a", "put", {"n": number, "filler": "x" * (1000 if number > 5 else 1)})] * 7)
    history, revision, sizes = ground.feeds_of("shop~"), 0, []
    while True:
        page = history.page("shop~", revision, 10)
        assert [event.revision for event in page.events] == list(range(revision + 1, page.revision + 1))
        sizes.append(len(page.events))
        revision = page.revision
        if not page.more:
            break
    assert revision == 70
    assert max(sizes) <= 20
    assert sizes[-2] < 20  # of large changes, fewer


def test_only_what_lies_below_the_offset(ground: FeedGround) -> None:
    for number in range(6):
        ground.put("shop~/a", n=number, apply=number < 3)
    history = ground.feeds_of("shop~")
    for stop in range(7):
        assert [event.revision for event in history.page("shop~", 0, stop).events] == list(range(1, stop + 1))
        assert history.revision_at("shop~", stop) == stop
        assert not history.page("shop~", stop, stop).gone
    assert history.page("shop~", 7, 6).gone
    assert history.page("none", 1, 6).gone
    assert not history.page("none", 0, 6).gone


def test_a_store_that_is_of_another_log_is_found_out(ground: FeedGround) -> None:
    ground.put("shop~/a", n=1)
    history = ground.feeds_of("shop~")
    with pytest.raises(LogGap):
        history.records([ChangePlace(1, 99, 0)])
    with pytest.raises(LogGap):
        history._read("another~", [ChangePlace(1, 0, 0)])


def test_a_store_that_is_older_than_what_the_log_keeps_is_found_out(ground: FeedGround) -> None:
    for number in range(100):
        ground.put("shop~/a", n=number, filler="x" * 200, apply=False)
    ground.log.delete_before(TOPIC, SHOP, 90, part="documents")
    with pytest.raises(LogGap):
        ground.feeds_of("shop~").page("shop~", 0, 100)


def test_a_tail_that_no_store_has_is_read_by_pages(ground: FeedGround, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up, "PAGE", 20)
    for number in range(50):
        ground.put("shop~/a", n=number, apply=number < 5)
    history, revision, sizes, more = ground.feeds_of("shop~"), 0, list[int](), True
    while more:
        page = history.page("shop~", revision, 50)
        assert [event.revision for event in page.events] == list(range(revision + 1, page.revision + 1))
        revision, more = page.revision, page.more
        sizes.append(len(page.events))
    assert revision == 50
    assert max(sizes) <= 20


def test_a_scan_goes_on_where_it_ended(ground: FeedGround) -> None:
    for number in range(5):
        ground.put("shop~/a", n=number)
    scan = PartitionScan(ground.feeds_of("shop~"), 1, prefix="sh")
    assert [event.revision for event in scan.page(3)] == [2, 3]
    assert scan.offset == 3
    assert [event.revision for event in scan.page(5)] == [4, 5]
    assert ground.log.bounds(TOPIC, SHOP).end == scan.offset
    assert [event.revision for event in ground.feeds_of("shop~").below("x", 0, 5)] == []

"""Snapshots of a document, an item or a collection."""

from __future__ import annotations

import pytest
from tests.unit.documents.feed_ground import FeedGround

from headwater.documents import feed_snapshot
from headwater.documents.feed_snapshot import FeedSnapshot
from headwater.documents.path import parse_path


def test_pages_say_first_what_has_changed_of_the_pages_before(ground: FeedGround, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_snapshot, "PAGE", 2)
    for item in "bdfh":
        ground.put(f"shop~/{item}", n=1)
    snapshot = FeedSnapshot(ground.feeds_of("shop~"), parse_path("shop~"))
    events, ended = snapshot.page()
    assert ([event.item for event in events], ended, snapshot.revision) == (["b", "d"], False, 4)
    ground.put("shop~/a", n=2)  # before what was given
    ground.write(("shop~/b", "delete", None))
    ground.write(("shop~/d", "patch", {"m": 3}))
    ground.write(("shop~/d", "patch", {"m": 4}))
    ground.put("shop~/g", n=5)  # still to come
    events, ended = snapshot.page()
    assert [(event.name, event.item, event.body) for event in events[:3]] == [
        ("snapshot:put", "a", b'{"n":2}'), ("snapshot:delete", "b", b""), ("snapshot:put", "d", b'{"n":1,"m":4}'),
    ]  # fmt: skip
    assert [event.item for event in events[3:]] == ["f", "g"]
    events, ended = snapshot.page()
    assert [(event.name, event.item) for event in events] == [("snapshot:put", "h"), ("snapshot:end", "")]
    assert (ended, snapshot.revision, events[-1].revision) == (True, 9, 9)


def test_an_empty_collection(ground: FeedGround) -> None:
    events, ended = FeedSnapshot(ground.feeds_of("shop~"), parse_path("shop~")).page()
    assert ([event.name for event in events], ended) == (["snapshot:end"], True)


def test_large_items_come_few_at_a_time(ground: FeedGround) -> None:
    for number in range(20):
        ground.put(f"shop~/{number:02}", n="x" * 100_000)
    snapshot, ended, items = FeedSnapshot(ground.feeds_of("shop~"), parse_path("shop~")), False, list[str]()
    while not ended:
        events, ended = snapshot.page()
        assert len(events) <= 9
        items += [event.item for event in events if event.item]
    assert items == [f"{number:02}" for number in range(20)]

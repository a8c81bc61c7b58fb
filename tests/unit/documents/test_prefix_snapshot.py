"""Snapshots of everything below a prefix."""

from __future__ import annotations

import pytest
from tests.unit.documents.feed_ground import PARTITIONS, TOPIC, FeedGround

from headwater.core.errors import OffsetGone
from headwater.documents import prefix_snapshot
from headwater.documents.path import partition_of
from headwater.documents.prefix_snapshot import PrefixSnapshot

PLACE = partition_of("a/c~", PARTITIONS)


def test_what_was_given_is_told_again_when_it_has_changed(ground: FeedGround, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix_snapshot, "PAGE", 2)
    for item in range(5):
        ground.put(f"a/c~/{item}", n=1)
    snapshot = PrefixSnapshot(ground.feeds_of("a/c~"), "a/")
    events, ended = snapshot.page()
    assert ([event.path for event in events], ended) == (["a/c~/0", "a/c~/1"], False)
    ground.write(("a/c~/1", "delete", None))
    ground.put("a/c~/4", n=2)  # still to come
    events, ended = snapshot.page()
    assert [(event.name, event.path) for event in events] == [
        ("snapshot:delete", "a/c~/1"), ("snapshot:put", "a/c~/2"), ("snapshot:put", "a/c~/3"),
    ]  # fmt: skip
    ground.write(("a/c~", "delete", None))
    ground.put("a/c~/0", n=3)
    told = []
    while not ended:
        events, ended = snapshot.page()
        told += [(event.name, event.path, event.body) for event in events]
    assert told == [("snapshot:delete", "a/c~", b""), ("snapshot:put", "a/c~/0", b'{"n":3}')]
    assert snapshot.offset == ground.log.bounds(TOPIC, PLACE).end


def test_a_log_that_is_deleted_faster_than_it_is_read(ground: FeedGround, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix_snapshot, "PAGE", 2)
    for item in range(5):
        ground.put(f"a/c~/{item}", n=1)
    snapshot = PrefixSnapshot(ground.feeds_of("a/c~"), "a/")
    snapshot.page()
    for item in range(100):
        ground.put(f"a/c~/{item}", filler="x" * 200)
    ground.log.delete_before(TOPIC, PLACE, 90, part="documents")
    with pytest.raises(OffsetGone):
        snapshot.page()


def test_large_documents_and_items_come_few_at_a_time(ground: FeedGround) -> None:
    for number in range(6):
        ground.put(f"a/c~/{number}", n="x" * 100_000)
        ground.put(f"a/{number}", n="x" * 100_000)
    for place in range(PARTITIONS):
        snapshot, ended, told = PrefixSnapshot(ground.feeds().history(place), "a/"), False, []
        while not ended:
            events, ended = snapshot.page()
            told += [event.path for event in events]
            assert len(events) <= 8
            assert len([event for event in events if not event.item]) <= 3
        assert len(told) == len(set(told))
        assert told or place != PLACE

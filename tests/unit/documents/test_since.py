"""What has changed since a revision."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from tests.unit.documents.feed_ground import TOPIC, FeedGround, replayed

from headwater.documents import since
from headwater.documents.path import parse_path, partition_of
from headwater.documents.since import changed_since

SHOP = parse_path("shop~")


@pytest.mark.parametrize("seed", range(10))
def test_a_client_that_applies_what_has_changed_has_the_newest_state(
    ground: FeedGround, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(since, "MOST_CHANGES", 5)
    random, state, revision = Random(seed), dict[str, bytes](), 0
    for _ in range(8):
        for _ in range(random.randrange(10)):
            ground.random_write(
                random, [f"shop~/{item}" for item in range(6)] + ["shop~"] * (random.random() < 0.1), apply=random.random() < 0.8
            )
        more = True
        while more:
            found = changed_since(ground.feeds_of("shop~"), SHOP, revision)
            for item in found.items:
                if not item.deleted:
                    state[item.path] = bytes(item.body or b"")
                elif item.path == "shop~":
                    state.clear()
                else:
                    state.pop(item.path, None)
            revision, more = found.revision, found.more
        assert revision == ground.revisions.get("shop~", 0)
        assert state == replayed(ground.history("shop~"), revision)


def test_each_item_comes_once_and_deleted_ones_as_tombstones(ground: FeedGround) -> None:
    ground.put("shop~/a", n=1)
    ground.put("shop~/b", n=2)
    ground.write(("shop~/a", "patch", {"m": 3}))
    ground.write(("shop~/b", "delete", None))
    found = changed_since(ground.feeds_of("shop~"), SHOP, 1)
    assert [(item.path, item.revision, item.deleted) for item in found.items] == [("shop~/a", 3, False), ("shop~/b", 4, True)]
    lines = [msgspec.json.decode(line) for line in found.lines().splitlines()]
    assert lines[0]["body"] == {"n": 1, "m": 3}
    assert lines[1] == {"path": "shop~/b", "revision": 4, "time": lines[1]["time"], "deleted": True}
    assert lines[2] == {"revision": 4, "more": False, "reset": False}
    own = changed_since(ground.feeds_of("shop~"), parse_path("shop~/b"), 2)
    assert [(item.path, item.deleted) for item in own.items] == [("shop~/b", True)]


def test_history_that_is_gone_is_a_reset(ground: FeedGround) -> None:
    for number in range(200):
        ground.put("shop~/a", n=number, filler="x" * 100)
    ground.log.delete_before(TOPIC, partition_of("shop~", 2), 150, part="documents")
    found = changed_since(ground.feeds_of("shop~"), SHOP, 3)
    assert (found.reset, found.revision, found.items) == (True, 200, [])
    assert changed_since(ground.feeds_of("shop~"), SHOP, 999).reset

"""The history of documents and items."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.documents.feed_ground import TOPIC, FeedGround, replayed, told

from headwater.core.document_errors import DocumentNotFound
from headwater.core.errors import BadInput, OffsetGone
from headwater.documents.history import DocumentHistory
from headwater.documents.path import parse_path, partition_of


@pytest.fixture
def history(ground: FeedGround) -> DocumentHistory:
    return DocumentHistory(ground.feeds_of)


@pytest.mark.parametrize("seed", range(5))
def test_pages_of_the_history_are_the_history(ground: FeedGround, history: DocumentHistory, seed: int) -> None:
    random = Random(seed)
    for _ in range(60):
        ground.random_write(random, ["shop~/a", "shop~/b", "shop~", "doc"], apply=random.random() < 0.9)
    ground.apply_all()
    for name in ("shop~", "doc", "shop~/a"):
        path = parse_path(name)
        expected = [
            change
            for change in ground.history(name)
            if not path.item or change[0] == name or (change[0] == "shop~" and change[2] == "delete")
        ]
        for limit in (1, 7, 1000):
            for reverse in (False, True):
                found, after = [], 0
                while True:
                    page = history.changes(path, after=after, limit=limit, reverse=reverse)
                    found += told(page.events)
                    if page.next is None:
                        break
                    after = page.next
                assert found == (expected[::-1] if reverse else expected)


@pytest.mark.parametrize("seed", range(5))
def test_the_state_at_every_revision(ground: FeedGround, history: DocumentHistory, seed: int) -> None:
    random = Random(seed)
    for _ in range(60):
        ground.random_write(random, ["shop~/a", "shop~/b", "shop~", "doc"])
    for uri, names in (("shop~", ["shop~/a", "shop~/b"]), ("doc", ["doc"])):
        for revision in range(1, ground.revisions[uri] + 1):
            state = replayed(ground.history(uri), revision)
            for name in names:
                if name in state:
                    assert history.at_revision(parse_path(name), revision).body == state[name]
                else:
                    with pytest.raises(DocumentNotFound):
                        history.at_revision(parse_path(name), revision)


def test_the_state_at_a_time(ground: FeedGround, history: DocumentHistory) -> None:
    for number in range(1, 6):
        ground.put("doc", n=number, time=number * 1000)
        ground.put("shop~/a" if number % 2 else "shop~/b", n=number, time=number * 1000)
    for path in ("doc", "shop~/a"):
        with pytest.raises(DocumentNotFound):
            history.at_time(parse_path(path), 999)
    assert [history.at_time(parse_path("doc"), time).body for time in (1000, 1999, 5000, 99_000)] == [
        b'{"n":1}', b'{"n":1}', b'{"n":5}', b'{"n":5}',
    ]  # fmt: skip
    assert [history.at_time(parse_path("shop~/a"), time).body for time in (1000, 2500, 3000)] == [b'{"n":1}', b'{"n":1}', b'{"n":3}']
    assert history.at_time(parse_path("shop~/a"), 4500).revision == 3


def test_what_the_log_has_deleted_is_gone_and_the_error_says_what_is_kept(ground: FeedGround, history: DocumentHistory) -> None:
    for number in range(1, 201):
        ground.put("doc", n=number, filler="x" * 100)
    partition = partition_of("doc", 2)
    start = ground.log.delete_before(TOPIC, partition, 150, part="documents")
    assert start > 0
    assert history.first_kept("doc") == start + 1
    with pytest.raises(OffsetGone) as error:
        history.at_revision(parse_path("doc"), 10)
    assert f"from revision {start + 1} on" in error.value.hint
    assert history.at_revision(parse_path("doc"), 190).revision == 190
    page = history.changes(parse_path("doc"), limit=1000, reverse=True)
    assert [event.revision for event in page.events] == list(range(200, start, -1))
    assert [event.revision for event in history.changes(parse_path("doc"), limit=1000).events] == list(range(start + 1, 201))


def test_an_item_that_has_not_changed_since_needs_no_history(ground: FeedGround, history: DocumentHistory) -> None:
    ground.put("shop~/a", n=1)
    for number in range(200):
        ground.put("shop~/b", n=number, filler="x" * 100)
    ground.log.delete_before(TOPIC, partition_of("shop~", 2), 180, part="documents")
    assert history.at_revision(parse_path("shop~/a"), 5).revision == 1


def test_restoring_is_a_put_of_the_old_state(ground: FeedGround, history: DocumentHistory) -> None:
    ground.put("doc", n=1)
    ground.write(("doc", "patch", {"m": 2}))
    ground.write(("doc", "delete", None))
    draft = history.restored(parse_path("doc"), 2)
    assert (draft.verb, draft.path.text, draft.body) == ("put", "doc", b'{"n":1,"m":2}')
    with pytest.raises(DocumentNotFound):
        history.restored(parse_path("doc"), 3)


def test_errors(ground: FeedGround, history: DocumentHistory) -> None:
    ground.put("shop~/a", n=1)
    with pytest.raises(BadInput):
        history.at_revision(parse_path("shop~"), 1)
    with pytest.raises(DocumentNotFound):
        history.at_revision(parse_path("shop~/a"), 2)
    with pytest.raises(DocumentNotFound):
        history.at_revision(parse_path("none"), 1)
    with pytest.raises(DocumentNotFound):
        history.changes(parse_path("none"))

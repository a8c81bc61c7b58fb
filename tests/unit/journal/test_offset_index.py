"""Offsets of actions by key."""

from __future__ import annotations

from random import Random

import pytest

from headwater.journal import offset_index
from headwater.journal.offset_index import OffsetIndex


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_index, "_CHUNK", 8)


def test_it_finds_what_was_added_however_it_is_cut() -> None:
    random, index = Random(1), OffsetIndex(0, most=1000)
    added: dict[bytes, list[int]] = {}
    for offset in range(0, 300, 2):
        key = b"key-%d" % random.randrange(7)
        index.add(key, offset)
        added.setdefault(key, []).append(offset)
    assert len(index) == 150
    for key, offsets in added.items():
        assert index.find(key, 0, 300) == offsets
        assert index.find(key, 31, 200) == [offset for offset in offsets if 31 <= offset < 200]
    assert index.find(b"nobody", 0, 300) == []


def test_it_holds_no_more_than_it_may_and_says_from_where_on_it_knows() -> None:
    index = OffsetIndex(0, most=24)
    for offset in range(100):
        index.add(b"a", offset)
    assert len(index) <= 24 + 8
    assert index.find(b"a", 0, 100) == list(range(index.since, 100))


def test_it_forgets_what_is_copied() -> None:
    index = OffsetIndex(0, most=1000)
    for offset in range(20):
        index.add(b"a", offset)
    index.forget(11)
    assert index.since == 12
    assert index.find(b"a", 12, 20) == list(range(12, 20))
    index.forget(19)
    assert len(index) == 0
    index.add(b"a", 20)
    assert index.find(b"a", 20, 21) == [20]

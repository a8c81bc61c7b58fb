"""Which parts count, which are swept, and what forgetting leaves: over a store in memory."""

from __future__ import annotations

import pytest

from headwater.adaptors.parts.offset_parts import OffsetParts
from headwater.adaptors.parts.ownership import PartsOwnership
from headwater.adaptors.parts.store import PartStore
from headwater.core.errors import Conflict, Fenced
from headwater.pipeline.adaptor import Part


class MemoryStore(PartStore):
    where = "memory"

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def list(self, prefix: str) -> list[str]:
        return sorted(name for name in self.held if name.startswith(prefix) and "/" not in name[len(prefix) :])

    def read(self, name: str) -> bytes | None:
        return self.held.get(name)

    def write(self, name: str, data: bytes) -> None:
        self.held[name] = data

    def rename(self, name: str, new: str) -> None:
        self.held[new] = self.held.pop(name)

    def delete(self, name: str) -> None:
        del self.held[name]

    def sync(self) -> None:
        """Memory is as durable as it gets."""


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def parts(store: MemoryStore) -> OffsetParts:
    return OffsetParts(store, "work/", ".jsonl")


def part(start: int, end: int, bucket: int = 0, buckets: int = 1) -> Part:
    return Part(pipeline="p#1", sink="s", start=start, end=end, bucket=bucket, buckets=buckets, attempt="a")


def put(store: MemoryStore, parts: OffsetParts, start: int, end: int, bucket: int = 0, buckets: int = 1, number: int = 0) -> str:
    name = parts.name(part(start, end, bucket, buckets), end, number)
    store.write(name, b"x")
    return name


def test_parts_are_named_by_their_offsets(parts: OffsetParts) -> None:
    assert parts.name(part(3, 9), 9) == "part-00000000000000000003-00000000000000000009.jsonl"
    assert parts.name(part(3, 9, 1, 2), 7, 2) == "part-00000000000000000003-00000000000000000007-1of2.2.jsonl"


def test_shares_count_when_all_are_there_and_halves_go(store: MemoryStore, parts: OffsetParts) -> None:
    whole = put(store, parts, 0, 4)
    put(store, parts, 4, 8, 0, 2)
    assert parts.recovered() == [(0, 4)]
    assert list(store.held) == [whole]
    put(store, parts, 4, 8, 0, 2)
    parts.note_empty(part(4, 8, 1, 2), 8)
    assert sorted(parts.recovered()) == [(0, 4), (4, 8)]


def test_a_further_file_without_the_first_goes(store: MemoryStore, parts: OffsetParts) -> None:
    first, second = put(store, parts, 0, 4), put(store, parts, 0, 4, number=1)
    orphan = put(store, parts, 4, 8, number=1)
    assert parts.recovered() == [(0, 4)]
    assert sorted(store.held) == sorted([first, second])
    assert orphan not in store.held


def test_what_is_forgotten_is_put_aside_or_stays_and_does_not_count(store: MemoryStore, parts: OffsetParts) -> None:
    kept, cut, behind = put(store, parts, 0, 4), put(store, parts, 4, 8), put(store, parts, 8, 12)
    parts.forget(5)
    assert store.list("part-") == [kept, cut]
    assert store.list("work/replaced/") == [f"work/replaced/{behind}"]
    assert parts.recovered() == [(0, 4)]
    put(store, parts, 8, 12)  # comes again
    assert sorted(parts.recovered()) == [(0, 4), (8, 12)]


def test_parts_of_another_log_keep_their_content(store: MemoryStore, parts: OffsetParts) -> None:
    name = put(store, parts, 0, 4)
    parts.note_empty(part(4, 8, 1, 2), 8)
    parts.leave("old")
    assert parts.recovered() == []
    assert store.list("earlier-") == [f"earlier-old-{name}"]
    assert store.list("work/part-") == []


def test_an_older_run_and_another_sink_are_refused(store: MemoryStore) -> None:
    mine = PartsOwnership(store, "work/owner.json", "p#1", "s")
    assert mine.former_log() is None
    mine.take(2)
    with pytest.raises(Fenced):
        mine.take(1)
    with pytest.raises(Fenced):
        mine.check(1)
    mine.check(2)
    with pytest.raises(Conflict, match="belongs to sink s of pipeline p#1"):
        PartsOwnership(store, "work/owner.json", "q#1", "s").take(3)
    newer = PartsOwnership(store, "work/owner.json", "p#2", "s")
    assert newer.former_log() == "1"
    newer.take(1)
    with pytest.raises(Fenced):
        mine.check(2)


def test_of_two_that_take_a_place_at_once_the_second_is_refused(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = PartsOwnership(store, "owner.json", "p#1", "s")

    def lost(name: str, data: bytes) -> None:
        store.write(name, data.replace(b'"epoch":1', b'"epoch":5'))
        raise Conflict("somebody was first")

    monkeypatch.setattr(store, "replace", lost)
    with pytest.raises(Fenced):
        mine.take(1)

    def answered_late(name: str, data: bytes) -> None:
        store.write(name, data)
        raise Conflict("we were first, and the answer was lost")

    monkeypatch.setattr(store, "replace", answered_late)
    mine.take(6)

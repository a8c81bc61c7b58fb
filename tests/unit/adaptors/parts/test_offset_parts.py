"""Which parts count, which are swept, and what forgetting leaves: over a store in memory."""

from __future__ import annotations

import msgspec
import pytest

from headwater.adaptors.parts.offset_parts import OffsetParts
from headwater.adaptors.parts.ownership import PartsOwnership
from headwater.adaptors.parts.store import PartStore
from headwater.core.errors import Conflict, Damaged, Differs, Fenced
from headwater.pipeline.claim import SinkClaim
from headwater.pipeline.offsets.ranges import joined
from headwater.pipeline.sink_adaptor import Part


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


def test_what_is_forgotten_is_put_aside(store: MemoryStore, parts: OffsetParts) -> None:
    kept, behind = put(store, parts, 0, 4), put(store, parts, 4, 8)
    parts.note_empty(part(8, 12, 1, 2), 12)
    parts.forget(3)
    assert store.list("part-") == [kept]
    assert store.list("work/replaced/") == [f"work/replaced/{behind}"]
    assert parts.recovered() == [(0, 4)]
    put(store, parts, 4, 12)  # comes again
    assert sorted(parts.recovered()) == [(0, 4), (4, 12)]


def test_the_part_in_whose_middle_a_position_lies(store: MemoryStore, parts: OffsetParts) -> None:
    put(store, parts, 0, 4)
    put(store, parts, 4, 8, 0, 2)
    parts.note_empty(part(4, 8, 1, 2), 8)
    put(store, parts, 8, 9)
    assert [parts.around(position) for position in (-1, 3, 7, 8, 20)] == [None] * 5
    assert [parts.around(position) for position in (0, 2, 4, 6)] == [(0, 4), (0, 4), (4, 8), (4, 8)]
    put(store, parts, 2, 6)  # cut otherwise: what overlaps goes together
    assert parts.around(5) == (0, 8)


def test_parts_of_another_log_keep_their_content(store: MemoryStore, parts: OffsetParts) -> None:
    name = put(store, parts, 0, 4)
    parts.note_empty(part(4, 8, 1, 2), 8)
    parts.leave("old")
    assert parts.recovered() == []
    assert store.list("earlier-") == [f"earlier-old-{name}"]
    assert store.list("work/part-") == []
    for _ in range(2):
        assert put(store, parts, 0, 4) == name
        parts.leave("old")
    assert sorted(store.list("earlier-")) == [f"earlier-old-{name}", f"earlier-old.2-{name}", f"earlier-old.3-{name}"]


def test_a_generation_of_kafka_may_have_slashes_and_makes_no_folder(store: MemoryStore, parts: OffsetParts) -> None:
    name = put(store, parts, 0, 4)
    parts.leave("FyuDk/U")
    assert store.list("") == [f"earlier-FyuDk_U-{name}"]


def test_an_older_run_and_another_sink_are_refused(store: MemoryStore) -> None:
    mine = PartsOwnership(store, "work/owner.json", "p#1", "s")
    assert not mine.mine()
    mine.take(2)
    assert mine.mine()
    with pytest.raises(Fenced):
        mine.take(1)
    with pytest.raises(Fenced):
        mine.check(1)
    mine.check(2)
    with pytest.raises(Conflict, match="belongs to sink s of pipeline p#1"):
        PartsOwnership(store, "work/owner.json", "q#1", "s").take(3)
    newer = PartsOwnership(store, "work/owner.json", "p#2", "s")
    with pytest.raises(Conflict, match="belongs to sink s of pipeline p#1"):
        newer.take(1)  # its log was made anew: nobody takes over by himself
    former = newer.found()
    newer.claim(SinkClaim(pipeline="p#2", sink="s", epoch=1, beat=7), former)
    found = newer.found()
    assert found == SinkClaim(pipeline="p#2", sink="s", epoch=1, beat=7, begun=False)
    newer.take(1)
    assert newer.found() == SinkClaim(pipeline="p#2", sink="s", epoch=1, beat=7)
    with pytest.raises(Fenced):
        mine.check(2)
    with pytest.raises(Conflict, match="belongs to sink s of pipeline p#2"):
        mine.claim(SinkClaim(pipeline="p#1", sink="s", epoch=9), found)  # it has given a sign of life since it was seen
    del store.held["work/owner.json"]
    with pytest.raises(Differs, match="emptied or replaced by others"):
        newer.check(1)


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


def test_parts_without_messages_are_noted_gathered_and_forgotten(
    store: MemoryStore, parts: OffsetParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.adaptors.parts.offset_parts._MANY", 3)
    put(store, parts, 0, 4)
    for start in range(4, 12, 2):
        parts.note_empty(part(start, start + 2), start + 2)
    assert store.list("work/part-") == []  # the fourth note was one too many
    parts.note_empty(part(20, 22), 22)
    assert joined(parts.held()) == [(0, 12), (20, 22)]
    parts.forget(6)
    assert joined(parts.held()) == [(0, 7)]
    assert joined(parts.recovered()) == [(0, 7)]
    parts.note_empty(msgspec.structs.replace(part(7, 9), again=True), 9)
    assert joined(parts.held()) == [(0, 7)]
    parts.leave("old")
    assert parts.held() == []


@pytest.mark.parametrize("name", ["empty.json", "owner.json"])
def test_a_note_that_cannot_be_understood_is_named(store: MemoryStore, parts: OffsetParts, name: str) -> None:
    store.write(f"work/{name}", b"\x00\x00")
    with pytest.raises(Damaged, match=rf"{name}.* cannot be understood") as error:
        parts.held() if name != "owner.json" else PartsOwnership(store, "work/owner.json", "p#1", "s").found()
    assert name != "owner.json" or "headwater pipeline offset p mark s -1 --why" in error.value.hint


def test_what_was_sent_again_goes_aside_with_the_parts_that_come_again(store: MemoryStore, parts: OffsetParts) -> None:
    """Else a sink that was moved back would hold its messages twice."""
    put(store, parts, 0, 10)
    again = [parts.name(msgspec.structs.replace(part(start, end), again=True), end) for start, end in ((2, 4), (6, 14))]
    for name in again:
        store.write(name, b"x")
    assert parts.held() == [(0, 10)]
    assert parts.around(3) == (0, 10)
    assert parts.around(9) == parts.around(11) == (0, 14)  # what was sent again, and the part that reaches into it
    parts.forget(-1)
    assert sorted(store.held) == sorted(f"work/replaced/{name}" for name in (*again, parts.name(part(0, 10), 10)))


def test_what_was_sent_again_before_the_position_stays(store: MemoryStore, parts: OffsetParts) -> None:
    name = parts.name(msgspec.structs.replace(part(2, 4), again=True), 4)
    store.write(name, b"x")
    parts.forget(3)
    assert list(store.held) == [name]
    parts.leave("old")
    assert list(store.held) == [f"earlier-old-{name}"]

"""Events of a partition in the order of the log, with places: from the log, and from the store where the log is deleted."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from tests.unit.journal.ground import POISON, TOPIC, Ground, appended, deleted, purged, random_records

from headwater.core.errors import LogGap, UnreadableRecord
from headwater.journal.followed import PartitionFollow, PlacedEvent
from headwater.journal.position import FollowPlace, FollowPosition
from headwater.log.epochs import CLAIM, EPOCH, epoch_at, mark
from headwater.log.record import Record


def named(events: list[PlacedEvent]) -> list[tuple[str, int, int]]:
    return [(event.id, event.row.seq_nr, event.row.offset) for event in events]


BEGINNING = FollowPlace(0)


def follow(place: FollowPlace = BEGINNING, **chosen: object) -> PartitionFollow:
    given: dict[str, object] = {"claimed": False, "quarantined": lambda offset: False, **chosen}
    return PartitionFollow(0, place, **given)  # type: ignore[arg-type]


def at_offsets(*records: Record) -> list[Record]:
    return [msgspec.structs.replace(record, offset=offset, timestamp=1) for offset, record in enumerate(records)]


def test_reading_goes_on_behind_every_event() -> None:
    records = at_offsets(appended("a", 1, 3), deleted("a", 2), appended("b", 1), purged("a"), appended("a", 1, 2))
    every = list(follow().events(records))
    assert named(every) == [("a", 1, 0), ("a", 2, 0), ("a", 3, 0), ("b", 1, 2), ("a", 1, 4), ("a", 2, 4)]
    for index, event in enumerate(every):
        place = FollowPosition.read(str(FollowPosition((event.place,)))).place(0)
        rest = records[place.offset or 0 :]
        assert named(list(follow(place).events(rest))) == named(every[index + 1 :])


def test_chosen_journals_and_tags() -> None:
    records = at_offsets(appended("a", 1, 2), appended("b", 1), Record(b"foreign", b"x"))
    reading = follow(ids=["b"])
    assert named(list(reading.events(records))) == [("b", 1, 1)]
    assert reading.place == FollowPlace(3)
    assert named(list(follow(tags=["t"]).events(records))) == [("a", 1, 0), ("a", 2, 0), ("b", 1, 1)]
    assert not list(follow(tags=["u"]).events(records))


def test_what_lies_before_an_unreadable_record_comes() -> None:
    records = at_offsets(appended("a", 1), POISON, appended("a", 2))
    reading = follow()
    events, error = reading.readable(records)
    assert (named(events), reading.place.offset) == ([("a", 1, 0)], 1)
    assert isinstance(error, UnreadableRecord)
    events, error = follow(quarantined=lambda offset: offset == 1).readable(records)
    assert (named(events), error) == ([("a", 1, 0), ("a", 2, 2)], None)


def test_a_claim_before_the_place_still_counts() -> None:
    old, new = epoch_at(0, "g"), epoch_at(2, "g")

    def by(epoch: int, record: Record) -> Record:
        return msgspec.structs.replace(record, headers=(*record.headers, (EPOCH, mark(epoch))))

    def claim(epoch: int) -> Record:
        return Record(None, None, ((CLAIM, mark(epoch)),))

    records = at_offsets(claim(old), by(old, appended("a", 1)), claim(new), by(old, appended("a", 2)), by(new, appended("a", 2)))
    reading = follow(claimed=True)
    every = list(reading.events(records[:3]))
    assert named(every) == [("a", 1, 1)]
    again = follow(FollowPosition.read(str(FollowPosition((reading.place,)))).place(0), claimed=True)
    assert named(list(again.events(records[3:]))) == [("a", 2, 4)]  # not the stale one of offset 3


def copied_all(ground: Ground, reading: PartitionFollow, until: int) -> list[PlacedEvent]:
    copy = ground.store.partition(TOPIC, 0, ground.log.topic(TOPIC).generation, create=False)
    found: list[PlacedEvent] = []
    while True:
        found += reading.copied(TOPIC, copy, until)
        if reading.place.until < 0:
            return found


def test_the_store_has_what_the_log_has_deleted(ground: Ground) -> None:
    ground.topic(partitions=1)
    ground.append(appended("a", 1, 3), appended("b", 1), appended("c", 1), deleted("a", 1), purged("c"), appended("a", 4), appended("b", 2))
    ground.loop().catch_up()
    whole = copied_all(ground, reading := follow(), 6)
    assert named(whole) == [("a", 2, 0), ("a", 3, 0), ("a", 4, 5), ("b", 1, 1)]
    assert reading.place == FollowPlace(6)
    assert named(copied_all(ground, follow(FollowPlace(0, 2)), 6)) == [("a", 3, 0), ("a", 4, 5), ("b", 1, 1)]  # had a's 2
    assert named(copied_all(ground, follow(FollowPlace(1)), 6)) == [("a", 4, 5), ("b", 1, 1)]
    assert named(copied_all(ground, follow(ids=["b"]), 7)) == [("b", 1, 1), ("b", 2, 6)]
    for index, event in enumerate(whole):
        place = FollowPosition.read(str(FollowPosition((event.place,)))).place(0)
        assert named(copied_all(ground, follow(place), 6)) == named(whole[index + 1 :])


@pytest.mark.parametrize("size", [1, 2, 7])
def test_pages_of_the_store_join(ground: Ground, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr("headwater.journal.followed._PAGE", size)
    monkeypatch.setattr("headwater.journal.followed._HEADS", 2)
    ground.topic(partitions=1)
    ends = ground.append(*random_records(Random(size), 60, ids="abcde"))
    ground.loop().catch_up()
    end = ends[-1] + 1
    copy = ground.store.partition(TOPIC, 0, ground.log.topic(TOPIC).generation)
    assert copy is not None
    expected = []
    with copy.view() as view:
        for id, head in view.heads():
            expected += [(id, row.seq_nr, row.offset) for rows in view.rows(id, head, 1) for row in rows]
    assert named(copied_all(ground, follow(), end)) == expected


def test_a_store_that_lacks_records_is_told(ground: Ground) -> None:
    ground.topic(partitions=1)
    ground.append(appended("a", 1))
    with pytest.raises(LogGap):
        copied_all(ground, follow(), 1)
    ground.loop().catch_up()
    ground.append(appended("a", 2))
    with pytest.raises(LogGap, match="lacks the records 1 to 1"):
        copied_all(ground, follow(), 2)

"""The note on a partition in Cassandra."""

from __future__ import annotations

import msgspec
import pytest

from headwater.journal.cassandra_note import SYNCED_MS, DurablePointer, PartitionNote, decode_note, encode_note, note_key

NOTE = PartitionNote("g1", 1_000)


def test_it_travels_as_text() -> None:
    note = PartitionNote("g1", 5, 9, ((3, 1), (8, 2)), clearing=True)
    assert decode_note(encode_note(note)) == note
    assert decode_note('{"generation":"g1","base":1000}') == NOTE
    with pytest.raises(msgspec.MsgspecError):
        decode_note("{}")


def test_an_epoch_holds_from_its_pointer_on() -> None:
    note = NOTE.begin(10, 0).begin(20, 1).begin(30, 1).begin(40, 3)
    assert note.epochs == ((19, 1), (39, 3))
    assert [note.epoch(offset) for offset in (-1, 9, 18, 19, 29, 38, 39, 90)] == [0, 0, 0, 1, 1, 1, 3, 3]


def test_a_range_that_is_begun_again_says_the_same() -> None:
    note = NOTE.begin(20, 1)
    assert note.begin(20, 1) == note
    assert note.begin(25, 2).epochs == ((19, 1), (24, 2))


def test_few_epochs_are_kept() -> None:
    note = NOTE
    for number in range(1, 30):
        note = note.begin(number * 10, number)
    assert len(note.epochs) == 8
    assert note.epoch(289) == 29


def test_a_change_is_unfinished_until_the_pointer_is_at_its_end() -> None:
    assert NOTE.unfinished(-1) == -1
    note = NOTE.begin(20, 0)
    assert [note.unfinished(offset) for offset in (-1, 18, 19, 30)] == [20, 20, -1, -1]


def test_keys_are_apart() -> None:
    assert note_key("journal-a", 1) == "headwater/partition/journal-a/1"


def test_a_pointer_is_durable_once_somebody_asks_again_a_minute_later() -> None:
    first = DurablePointer(5, 10, 1000)
    assert first.asked(5, 20, 1000 + SYNCED_MS - 1) is first
    second = first.asked(5, 20, 1000 + SYNCED_MS)
    assert (second.offset, second.durable) == (20, 10)
    assert second.asked(5, 30, second.at + SYNCED_MS).durable == 20
    assert second.asked(5, 15, second.at + SYNCED_MS).durable == 15  # the nodes have lost what they acknowledged
    assert second.asked(6, 30, second.at + SYNCED_MS).durable == -1  # another copy

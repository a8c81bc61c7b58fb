"""What a change does to each journal."""

from __future__ import annotations

import msgspec
import pytest

from headwater.core.errors import Conflict, Differs
from headwater.journal.apply import JournalUpdate, check_generation, due, journal_updates
from headwater.journal.change import PartitionChange, Pointer
from headwater.journal.head import Head
from headwater.testing.journal_store_ground import History

STORED = Head(partition=0, offset=3, segment_size=7, seq_nr=10, delete_to=2, created=1, updated=2)


def update_of(history: History, stored: Head | None = None) -> JournalUpdate:
    [update] = journal_updates(history.change(), {} if stored is None else {"a": stored}, segment_size=5)
    return update


def numbers(update: JournalUpdate) -> list[int]:
    return [row.seq_nr for row in update.rows]


def test_an_append_makes_or_moves_the_head() -> None:
    history = History("t")
    history.append("a", 1, 2)
    made = update_of(history)
    assert made.head is not None
    assert (made.stored, made.head.seq_nr, made.head.segment_size, numbers(made)) == (None, 2, 5, [1, 2])
    assert made.changed
    moved = update_of(history, STORED)
    assert moved.head is not None
    assert (moved.head.seq_nr, moved.head.segment_size, moved.head.delete_to) == (10, 7, 2)
    assert (numbers(moved), moved.delete_to, moved.purges) == ([], 0, False)  # both lie below what is deleted


def test_a_delete_takes_stored_rows_and_rows_of_the_same_change() -> None:
    history = History("t")
    history.append("a", 11, 12)
    history.delete("a", 11)
    update = update_of(history, STORED)
    assert update.head is not None
    assert (update.head.delete_to, update.delete_to, numbers(update), update.purges) == (11, 11, [12], False)
    again = update_of(history, msgspec.structs.replace(STORED, seq_nr=12, delete_to=11))
    assert (again.delete_to, again.changed) == (0, True)  # the offset moves


def test_a_delete_or_purge_of_what_is_not_there_changes_nothing() -> None:
    for act in ("delete", "purge"):
        history = History("t")
        history.delete("a", 5) if act == "delete" else history.purge("a")
        update = update_of(history)
        assert update == JournalUpdate("a", None, None, ())
        assert not update.changed


def test_a_purge_ends_the_stored_life() -> None:
    history = History("t")
    history.purge("a")
    gone = update_of(history, STORED)
    assert (gone.head, gone.purges, gone.rows, gone.changed) == (None, True, (), True)
    history.append("a", 1)
    anew = update_of(history, STORED)
    assert anew.head is not None
    assert (anew.head.seq_nr, anew.head.segment_size, anew.head.delete_to, anew.purges, numbers(anew)) == (1, 5, None, True, [1])
    assert update_of(history).purges is False


def test_a_change_is_due_right_behind_the_pointer() -> None:
    change = PartitionChange("t", 0, "g1", 5, 8)
    assert due(change, Pointer(4, generation="g1"))
    assert due(change, Pointer(4))
    assert not due(change, Pointer(7, generation="g1"))
    assert not due(change, Pointer(20, generation="g1"))
    for offset in (-1, 3, 5, 6):
        with pytest.raises(Conflict, match=f"follow offset {offset}"):
            due(change, Pointer(offset, generation="g1"))
    with pytest.raises(Differs):
        due(change, Pointer(7, generation="g2"))


def test_a_copy_of_no_known_generation_is_anybodys() -> None:
    check_generation(Pointer(4), "t", 0, "g1")
    check_generation(Pointer(4, generation="g1"), "t", 0, "g1")
    with pytest.raises(Differs, match=r"earlier t/0.* g2, now g1"):
        check_generation(Pointer(-1, generation="g2"), "t", 0, "g1")

"""The copy of one partition in one SQLite file. What every copy promises is held by the contract suite."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headwater.core.errors import Closed
from headwater.journal.change import EventRow, JournalChange, PartitionChange
from headwater.journal.event import MAX_SEQ_NR, Payload, PayloadKind
from headwater.journal.head import HeadFold
from headwater.journal.sqlite import SqliteJournalStore
from headwater.store.sqlite.database import Database
from headwater.testing.clock import ManualClock
from headwater.testing.journal_store_ground import History, partition, rows_of, state


def test_the_pointer_tells_when_it_was_made_and_moved(tmp_path: Path) -> None:
    clock = ManualClock()
    with SqliteJournalStore(tmp_path, clock=clock) as store:
        copy, began = partition(store, "journal-a"), clock.now_ms()
        copy.apply(PartitionChange("journal-a", 0, "g1", 0, 1))
        clock.advance(5)
        copy.apply(PartitionChange("journal-a", 0, "g1", 1, 2))
        pointer = copy.pointer()
        assert (pointer.created, pointer.updated) == (began, began + 5000)


@pytest.mark.parametrize(
    "payload",
    [
        None,
        Payload(PayloadKind.BINARY, b""),
        Payload(PayloadKind.BINARY, b"\x00\xff"),
        Payload(PayloadKind.JSON, b"null"),
        Payload(PayloadKind.TEXT, "ä\x00".encode()),
        Payload(PayloadKind.TEXT, b""),
    ],
)
def test_every_kind_of_payload_comes_back(tmp_path: Path, payload: Payload | None) -> None:
    history = History("journal-a")
    history.append("a", 1)
    change = history.change()
    [journal] = change.journals
    row = EventRow(seq_nr=1, timestamp=5, partition=0, offset=0, payload=payload)
    with SqliteJournalStore(tmp_path) as store:
        copy = partition(store, "journal-a")
        copy.apply(msgspec.structs.replace(change, journals=(msgspec.structs.replace(journal, rows=(row,)),)))
        [found] = rows_of(copy, "a")
        assert msgspec.structs.replace(found, record_id=None) == row


def test_an_append_that_holds_one_number_twice_keeps_both_in_their_order(tmp_path: Path) -> None:
    history = History("journal-a")
    history.append("a", 1, 2, 2, 3)
    with SqliteJournalStore(tmp_path) as store:
        copy = partition(store, "journal-a")
        copy.apply(history.change())
        assert [row.seq_nr for row in rows_of(copy, "a", batch=2)] == [1, 2, 2, 3]
        assert [row.seq_nr for row in rows_of(copy, "a", batch=1)] == [1, 2, 2, 3]


def test_the_last_number_of_all_is_read_and_deleted(tmp_path: Path) -> None:
    history = History("journal-a")
    history.append("a", MAX_SEQ_NR - 1, MAX_SEQ_NR)
    with SqliteJournalStore(tmp_path) as store:
        copy = partition(store, "journal-a")
        copy.apply(history.change())
        assert state(copy, "a") == (MAX_SEQ_NR, MAX_SEQ_NR - 2, [MAX_SEQ_NR - 1, MAX_SEQ_NR])
        history.delete("a", MAX_SEQ_NR)
        copy.apply(history.change(1))
        assert state(copy, "a") == (MAX_SEQ_NR, MAX_SEQ_NR, [])


def test_no_row_outlives_its_journal(tmp_path: Path) -> None:
    """A journal that begins anew keeps the key of the old one, and its rows would be taken for the new one's."""
    history = History("journal-a")
    history.append("a", 1, 2, 3)
    history.append("b", 1)
    history.purge("a")
    history.delete("b", 1)
    with SqliteJournalStore(tmp_path) as store:
        copy = partition(store, "journal-a")
        for change in history.split([2]):
            copy.apply(change)
    with Database(tmp_path / "journal-a" / "0.db", synced=True) as database:
        assert database.run("select count(*) from journal") == [(0,)]
        assert database.run("select id from metajournal") == [("b",)]


def test_a_change_that_fails_in_its_midst_leaves_nothing(tmp_path: Path) -> None:
    history = History("journal-a")
    history.append("a", 1)
    broken = JournalChange("b", HeadFold(offset=0, first=history.change().journals[0].fold.first, seq_nr=1 << 70))
    with SqliteJournalStore(tmp_path) as store:
        copy = partition(store, "journal-a")
        change = history.change()
        with pytest.raises(OverflowError):
            copy.apply(msgspec.structs.replace(change, journals=(*change.journals, broken)))
        assert copy.pointer().offset == -1
        assert state(copy, "a") is None
        assert copy.apply(change)


def test_a_view_that_is_left_by_an_error_frees_its_file(tmp_path: Path) -> None:
    history = History("journal-a")
    history.append("a", 1)
    with SqliteJournalStore(tmp_path, timeout=1) as store:
        copy = partition(store, "journal-a")
        copy.apply(history.change())
        with pytest.raises(RuntimeError), copy.view() as view:
            assert view.ids() == ["a"]
            raise RuntimeError("the reader's own")
        assert copy.checkpoint().offset == 0  # no reader holds an old moment
    with pytest.raises(Closed):
        copy.view().__enter__()

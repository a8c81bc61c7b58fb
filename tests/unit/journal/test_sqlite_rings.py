"""Rings in SQLite files. What every store promises is held by the contract suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import Conflict, Damaged, Differs
from headwater.journal.sqlite import SqliteJournalStore
from headwater.store.sqlite.database import Database
from headwater.testing.journal_ring_contract import SnapshotHistory, rings, slots
from headwater.testing.journal_store_ground import History, partition


def test_rings_lie_in_the_file_of_their_journals(tmp_path: Path) -> None:
    history = SnapshotHistory(History("journal-a", 1))
    history.append("a", 1)
    history.save("a", 1)
    with SqliteJournalStore(tmp_path) as store:
        copy = rings(store, history)
        assert copy.apply(history.change())
        partition(store, "journal-a", 1).clear()
        assert slots(copy, "a") == {0: 1}
        with copy.view() as view:
            one = view.ring("a").slots[0]
            with pytest.raises(Conflict):
                view.payload("a", 5, one)
        assert store.topics() == []
    assert [path.name for path in tmp_path.rglob("*.db")] == ["1.db"]


def test_a_row_that_was_never_written_so_is_damage(tmp_path: Path) -> None:
    history = SnapshotHistory(History("journal-a"))
    history.append("a", 1)
    history.save("a", 1)
    with SqliteJournalStore(tmp_path) as store:
        copy = rings(store, history)
        copy.apply(history.change())
        with Database(tmp_path / "journal-a" / "0.db", synced=True) as database:
            database.run("update snapshot set payload_type = 77")
        with copy.view() as view, pytest.raises(Damaged, match="rebuild journal-a"):
            view.ring("a")


def test_the_file_of_another_partition_is_refused(tmp_path: Path) -> None:
    history = SnapshotHistory(History("journal-a"))
    with SqliteJournalStore(tmp_path) as store:
        rings(store, history).clear()
    (tmp_path / "journal-a").rename(tmp_path / "journal-b")
    history.topic = "snapshot-journal-b"
    with SqliteJournalStore(tmp_path) as store, pytest.raises(Differs, match="is the copy of snapshot-journal-a/0"):
        rings(store, history).pointer()

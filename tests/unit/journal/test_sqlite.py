"""The store of journals in SQLite files. What every store promises is held by the contract suite."""

from __future__ import annotations

import gc
import os
import shutil
from pathlib import Path

import pytest

from headwater.core.errors import Damaged, Differs, NewerFormat
from headwater.journal.change import PartitionChange
from headwater.journal.sqlite import SqliteJournalStore
from headwater.store.sqlite.database import Database
from headwater.testing.journal_store_ground import History, numbers, partition, state


def test_a_file_for_each_partition(tmp_path: Path) -> None:
    with SqliteJournalStore(tmp_path) as store:
        for number in range(2):
            partition(store, "journal-a", number).apply(PartitionChange("journal-a", number, "g1", 0, 1))
        store.set_setting("a", "b")
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.db"))
    assert names == ["@settings.db", "journal-a/0.db", "journal-a/1.db"]


def test_asking_makes_no_file(tmp_path: Path) -> None:
    with SqliteJournalStore(tmp_path / "store") as store:
        assert store.topics() == []
        assert store.setting("a") is None
        assert store.set_setting("a", None) is None
        assert store.partition("journal-a", 0, "g1", create=False) is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_a_pointer_makes_no_topic_and_strange_files_are_passed_over(tmp_path: Path) -> None:
    with SqliteJournalStore(tmp_path) as store:
        assert partition(store, "journal-a").pointer().offset == -1
        partition(store, "journal-b", 3).apply(PartitionChange("journal-b", 3, "g1", 0, 1))
        (tmp_path / "note.txt").write_text("")
        (tmp_path / "journal-b" / "01.db").write_text("no database")
        (tmp_path / "journal-b" / "x.db").write_text("no database")
        assert store.topics() == ["journal-b"]
        partition(store, "journal-b", 3, "g2").clear()
        assert store.topics() == []


def test_a_file_that_is_another_partitions_is_refused(tmp_path: Path) -> None:
    history = History("journal-a")
    history.append("a", 1)
    with SqliteJournalStore(tmp_path) as store:
        partition(store, "journal-a").apply(history.change())
    shutil.copytree(tmp_path / "journal-a", tmp_path / "journal-A")
    with SqliteJournalStore(tmp_path) as store:
        other = partition(store, "journal-A")
        for act in (other.pointer, other.view().__enter__, other.clear, lambda: other.apply(history.change())):
            with pytest.raises(Differs, match="copy of journal-a/0, not of journal-A/0"):
                act()
        assert store.topics() == ["journal-a"]
        assert state(partition(store, "journal-a"), "a") == (1, None, [1])


def test_few_files_stay_open_and_those_in_use_go_on(tmp_path: Path) -> None:
    def open_files() -> int:
        gc.collect()
        return sum(os.path.realpath(f"/proc/self/fd/{fd}").startswith(str(tmp_path)) for fd in os.listdir("/proc/self/fd"))

    with SqliteJournalStore(tmp_path, open_files=3) as store:
        first = partition(store, "journal-0")
        for number in range(12):
            history = History(f"journal-{number}")
            history.append("a", 1)
            assert partition(store, history.topic).apply(history.change())
        per_file = 6  # for the writer the file, -wal and -shm, and a lock; for a reader the file and -wal
        assert open_files() <= (3 + 1) * per_file
        assert numbers(first, "a") == [1]
        assert len(store.topics()) == 12
    assert open_files() == 0


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    with SqliteJournalStore(tmp_path) as store:
        partition(store, "journal-a").apply(PartitionChange("journal-a", 0, "g1", 0, 1))
    path = tmp_path / "journal-a" / "0.db"
    path.write_bytes(b"x" * 8192)
    with SqliteJournalStore(tmp_path) as store, pytest.raises(Damaged, match=r"journal-a/0\.db"):
        partition(store, "journal-a")


def test_a_file_of_a_later_headwater_is_refused(tmp_path: Path) -> None:
    with SqliteJournalStore(tmp_path) as store:
        partition(store, "journal-a")
    with Database(tmp_path / "journal-a" / "0.db", synced=True) as database:
        database.run("insert into headwater_migration values ('journal', 99, 'later', 'x')")
    with SqliteJournalStore(tmp_path) as store, pytest.raises(NewerFormat):
        partition(store, "journal-a")


def test_a_forked_child_goes_on(tmp_path: Path) -> None:
    history = History("journal-a")
    history.append("a", 1)
    history.append("a", 2)
    with SqliteJournalStore(tmp_path) as store:
        copy = partition(store, "journal-a")
        copy.apply(history.change(0, 1))
        child = os.fork()
        if child == 0:
            os._exit(0 if copy.apply(history.change(1)) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert numbers(copy, "a") == [1, 2]

"""SQLite files when the disk fails and when processes die: what was acknowledged is there, and a transaction is whole or absent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.core.errors import HeadwaterError, OutcomeUnknown
from headwater.store import Migration, Migrations
from headwater.store.sqlite.database import Database
from headwater.testing.sqlite_faults import FailingVfs

STEPS = Migrations(
    "toy",
    (
        Migration(1, "a", "create table a (id integer primary key, half int);\ncreate index by_half on a (half);\n"),
        Migration(2, "b", "create table b (id integer primary key);\ninsert into b select id from a;\nalter table a add column c text;\n"),
    ),
)
FIRST = Migrations("toy", STEPS.steps[:1])
TRANSACTIONS = 6


def workload(path: Path, vfs: str | None) -> tuple[set[int], set[int]]:
    """Pairs of rows, each pair a transaction, a checkpoint and a second step in between. What was acknowledged, and what is unknown."""
    acked, unknown = set[int](), set[int]()
    database: Database | None = None
    for number in range(TRANSACTIONS):
        try:
            database = database or Database(path, synced=True, vfs=vfs)
            database.migrate(FIRST if number < 3 else STEPS)
            with database.transaction() as transaction:
                transaction.rows("insert into a (id, half) values (?, 1), (?, 2)", (2 * number, 2 * number + 1))
            acked.add(number)
            if number % 2:
                database.checkpoint()
        except OutcomeUnknown:
            unknown.add(number)
        except HeadwaterError:
            continue
    if database is not None:
        database.close()
    return acked, unknown


def check(path: Path, acked: set[int], unknown: set[int], *, dead: bool = False) -> None:
    """`dead`: the transaction that the process died in may be there as well."""
    with Database(path, synced=True) as database:
        database.migrate(STEPS)
        assert database.run("pragma integrity_check") == [("ok",)]
        rows = [number for (number,) in database.run("select id from a order by id")]
        whole = {number // 2 for number in rows}
        assert rows == [row for number in sorted(whole) for row in (2 * number, 2 * number + 1)]
        late = {max(acked, default=-1) + 1} if dead else set[int]()
        assert acked <= whole <= acked | unknown | late
        assert database.applied("toy") == [1, 2]
        assert database.run("select name from sqlite_master where name in ('a', 'b') order by name") == [("a",), ("b",)]


def calls(path: Path) -> int:
    with FailingVfs() as vfs:
        acked, unknown = workload(path, vfs.name)
        assert (acked, unknown) == (set(range(TRANSACTIONS)), set())
        return vfs.calls


@pytest.mark.parametrize("forever", [False, True], ids=["once", "from then on"])
def test_whichever_call_fails_nothing_acknowledged_is_lost(memory_path: Path, forever: bool) -> None:
    total = calls(memory_path / "none" / "a.db")
    assert total > 40
    failed = set[str]()
    for number in range(1, total + 1):
        path = memory_path / f"{number}" / "a.db"
        with FailingVfs(number, forever=forever) as vfs:
            acked, unknown = workload(path, vfs.name)
            failed.update(vfs.failed)
        check(path, acked, unknown)
    assert {"write", "sync"} <= failed


def test_a_failed_sync_of_a_commit_is_never_acknowledged(memory_path: Path) -> None:
    """A later commit that is acknowledged does not depend on pages that the failed sync may have lost."""
    with FailingVfs(only=("sync",)) as vfs, Database(memory_path / "a.db", synced=True, vfs=vfs.name) as database:
        database.migrate(STEPS)
        vfs.fail_at = vfs.calls + 1
        with pytest.raises(OutcomeUnknown):
            database.run("insert into a (id) values (1)")
        assert vfs.failed == ["sync"]
        database.run("insert into a (id) values (2)")
    with Database(memory_path / "a.db", synced=True) as database:
        assert (2,) in database.run("select id from a")


def dying(path: Path, number: int, note: Callable[[str], object]) -> None:
    vfs = FailingVfs(number, dies=True)
    database = Database(path, synced=True, vfs=vfs.name)
    for row in range(TRANSACTIONS):
        database.migrate(FIRST if row < 3 else STEPS)
        with database.transaction() as transaction:
            transaction.rows("insert into a (id, half) values (?, 1), (?, 2)", (2 * row, 2 * row + 1))
        note(f"{row}\n")
        if row % 2:
            database.checkpoint()
    database.close()


def test_a_process_that_dies_at_any_call_leaves_everything_acknowledged(memory_path: Path) -> None:
    """In the midst of transactions, of both steps of a migration, and of checkpoints."""
    total = calls(memory_path / "none" / "a.db")
    died = 0
    for number in range(1, total + 1):
        path, notes = memory_path / f"{number}" / "a.db", memory_path / f"{number}.notes"
        child = os.fork()
        if child == 0:
            fd = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                dying(path, number, lambda text: os.write(fd, text.encode()))  # noqa: B023
                os._exit(0)
            finally:
                os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, -signal.SIGKILL)
        died += code != 0
        check(path, {int(line) for line in notes.read_text().split()}, set(), dead=True)
    assert died == total


def test_killed_writers_lose_nothing_and_leave_the_lock(tmp_path: Path) -> None:
    """kill -9 from outside at any moment, one after the other, while another process goes on."""
    path = tmp_path / "a.db"
    script = """
import os, sys
from pathlib import Path
from headwater.store.sqlite.database import Database
notes = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
database = Database(Path(sys.argv[1]), synced=True)
number = 0
while True:
    with database.transaction() as transaction:
        (last,) = transaction.row("select coalesce(max(id), 0) from a")
        transaction.many("insert into a (id, half) values (?, ?)", [(last + 1, 1), (last + 2, 2)])
    os.write(notes, f"{last + 1}\\n{last + 2}\\n".encode())
"""
    with Database(path, synced=True) as database:
        database.migrate(STEPS)
        notes = [tmp_path / f"{number}.notes" for number in range(4)]
        processes = [subprocess.Popen([sys.executable, "-c", script, str(path), str(note)]) for note in notes]
        try:
            for note, process in zip(notes, processes, strict=True):
                while not note.exists() or note.stat().st_size < 200:
                    assert process.poll() is None
                process.kill()
                process.wait()
                database.run("insert into b values (?)", (process.pid,))  # the lock of the dead is free at once
        finally:
            for process in processes:
                process.kill()
                process.wait()
        acked = {int(line) for note in notes for line in note.read_text().split()}
        rows = [number for (number,) in database.run("select id from a order by id")]
        assert rows == list(range(1, len(rows) + 1))
        assert acked <= set(rows)
        assert len(rows) % 2 == 0
        assert database.run("pragma integrity_check") == [("ok",)]

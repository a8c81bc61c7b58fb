"""One SQLite file for several threads and processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from headwater.core.errors import BadInput, Closed, Damaged, ReadOnly, Timeout, Unavailable
from headwater.store import Migration, Migrations
from headwater.store.sqlite.database import Database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    with Database(path, synced=True) as database:
        database.run("create table a (id integer primary key, b text)")
        yield database


def ids(database: Database) -> list[int]:
    with database.snapshot() as snapshot:
        return [number for (number,) in snapshot.rows("select id from a order by id")]


def test_a_transaction_is_whole_or_absent(database: Database) -> None:
    with database.transaction() as transaction:
        transaction.many("insert into a values (?, ?)", ((n, "x") for n in range(3)))
        assert transaction.row("select count(*) from a") == (3,)
        assert transaction.row("select 1 from a where id = 9") is None
    for error in (ZeroDivisionError, KeyboardInterrupt):
        with pytest.raises(error), database.transaction() as transaction:
            transaction.rows("insert into a values (7, 'x')")
            raise error
    with pytest.raises(BadInput, match="UNIQUE"), database.transaction() as transaction:
        transaction.rows("insert into a values (7, 'x')")
        transaction.rows("insert into a values (0, 'x')")
    assert ids(database) == [0, 1, 2]


def test_a_snapshot_stays_at_its_moment_and_writes_nothing(database: Database) -> None:
    with database.snapshot() as snapshot:
        assert snapshot.row("select count(*) from a") == (0,)
        database.run("insert into a values (1, 'x')")
        assert snapshot.row("select count(*) from a") == (0,)
    assert ids(database) == [1]
    with pytest.raises(ReadOnly), database.snapshot() as snapshot:
        snapshot.rows("insert into a values (2, 'x')")
    assert ids(database) == [1]


def test_one_row_is_read_without_a_snapshot(database: Database) -> None:
    assert database.read_row("select id from a") is None
    database.run("insert into a values (1, 'x'), (2, 'y')")
    assert database.read_row("select b from a where id = ?", (2,)) == ("y",)
    with pytest.raises(ReadOnly):
        database.read_row("insert into a values (3, 'x')")
    with pytest.raises(BadInput):
        database.read_row("select nothing from a")
    assert ids(database) == [1, 2]


def test_a_transaction_ends_when_its_block_was_left_in_the_midst_of_a_snapshot(database: Database) -> None:
    """An error inside a snapshot leaves no old snapshot behind, which would keep the -wal file from ever being emptied."""
    with pytest.raises(ZeroDivisionError), database.snapshot() as snapshot:
        snapshot.rows("select * from a")
        raise ZeroDivisionError
    database.run("insert into a values (1, 'x')")
    database.checkpoint()
    assert database.path.with_name("a.db-wal").stat().st_size == 0


def test_a_checkpoint_says_who_is_in_its_way(path: Path) -> None:
    with Database(path, synced=False, timeout=0.05) as database:
        database.run("create table a (b)")
        with database.snapshot() as snapshot:
            snapshot.rows("select * from a")
            database.run("insert into a values (1)")
            with pytest.raises(Timeout):
                database.checkpoint()
        database.checkpoint()


def test_another_writer_is_waited_for_and_named(path: Path) -> None:
    with Database(path, synced=True, timeout=0.05) as one, Database(path, synced=True, timeout=0.05) as two, one.transaction():
        with pytest.raises(Timeout, match=r"a\.db\.lock"):
            two.run("create table b (c)")
        with pytest.raises(Timeout), two.transaction():
            pass
    with Database(path, synced=True, timeout=60) as one, Database(path, synced=True, timeout=60) as two:
        entered, leave, done = threading.Event(), threading.Event(), threading.Event()

        def hold() -> None:
            with one.transaction():
                entered.set()
                leave.wait(60)

        def write() -> None:
            two.run("create table b (c)")
            done.set()

        holder, writer = threading.Thread(target=hold), threading.Thread(target=write)
        holder.start()
        assert entered.wait(60)
        writer.start()
        assert not done.wait(0.05)
        leave.set()
        assert done.wait(60)
        holder.join()
        writer.join()


def test_a_waiter_that_gave_up_does_not_keep_the_lock(path: Path) -> None:
    with Database(path, synced=True, timeout=0.02) as one, Database(path, synced=True, timeout=0.02) as two:
        with one.transaction(), pytest.raises(Timeout):
            two.run("create table b (c)")
        for _ in range(50):  # its thread gets the lock once more, and lets go at once
            try:
                one.run("create table if not exists b (c)")
                two.run("insert into b values (1)")
                break
            except Timeout:
                continue
        else:
            pytest.fail("the lock is kept")


def test_a_foreign_program_that_writes_is_waited_for_by_sqlite(path: Path) -> None:
    with Database(path, synced=True, timeout=0.05) as database:
        foreign = apsw.Connection(str(path))
        foreign.execute("begin immediate")
        with pytest.raises(Timeout, match="another program"):
            database.run("create table b (c)")
        foreign.execute("rollback")
        foreign.close()
        database.run("create table b (c)")


def test_close_waits_for_a_transaction_and_nothing_works_after_it(database: Database) -> None:
    database.close()
    for call in (lambda: ids(database), lambda: database.run("select 1"), database.checkpoint, lambda: database.applied("x")):
        with pytest.raises(Closed):
            call()


def test_what_is_no_database_is_named_and_left(path: Path) -> None:
    path.write_bytes(b"something else entirely" * 100)
    with pytest.raises(Damaged, match=r"a\.db"):
        Database(path, synced=True)
    assert path.read_bytes() == b"something else entirely" * 100


def test_a_folder_where_nothing_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable):
        Database(tmp_path / "file" / "a.db", synced=True)


def test_a_step_with_a_trigger_is_applied_whole(database: Database) -> None:
    text = """
    create table counted (n int);
    create trigger counting after insert on a begin
        insert into counted values (new.id);
        insert into counted values (-new.id);
    end;
    """
    database.migrate(Migrations("toy", (Migration(1, "trigger", text),)))
    database.run("insert into a values (5, 'x')")
    assert database.run("select n from counted order by n") == [(-5,), (5,)]


def test_a_child_made_by_fork_opens_its_own_and_leaves_the_parents_alone(database: Database) -> None:
    database.run("insert into a values (1, 'parent')")
    with database.transaction() as transaction:
        transaction.rows("insert into a values (2, 'parent')")
        child = os.fork()
        if child == 0:
            try:
                seen = ids(database)  # the parent's transaction is not the child's
                database.close()
            finally:
                os._exit(0 if seen == [1] else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        transaction.rows("insert into a values (3, 'parent')")
    child = os.fork()
    if child == 0:
        database.run("insert into a values (4, 'child')")
        os._exit(0)
    os.waitpid(child, 0)
    assert ids(database) == [1, 2, 3, 4]


def test_processes_take_turns(path: Path) -> None:
    script = """
import sys
from pathlib import Path
from headwater.store.sqlite.database import Database
with Database(Path(sys.argv[1]), synced=False) as database:
    for number in range(200):
        with database.transaction() as transaction:
            (value,) = transaction.row("select n from counter")
            transaction.rows("update counter set n = ?", (value + 1,))
"""
    with Database(path, synced=False) as database:
        database.run("create table counter (n int)")
        database.run("insert into counter values (0)")
        processes = [subprocess.Popen([sys.executable, "-c", script, str(path)]) for _ in range(3)]
        assert [process.wait(120) for process in processes] == [0, 0, 0]
        assert database.run("select n from counter") == [(600,)]

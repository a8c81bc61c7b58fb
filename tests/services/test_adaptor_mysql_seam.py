"""Where the copy of a MariaDB ends and its changes begin: transactions that are logged and not yet visible, and prepared ones (XA)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest
from mysql_ground import MySQLGround, a_mysql_ground
from pymysql import MySQLError
from sql_ground import documents, eventually, followed, summary
from tools.services.private import PrivateServers

from headwater.adaptors.mysql import position, prepared
from headwater.adaptors.mysql.connection import MySQLSession, parsed
from headwater.core.errors import Forbidden, OffsetGone, Timeout

_SEMISYNC = "rpl_semi_sync_master_enabled"


@pytest.fixture
def own(private_servers: PrivateServers) -> Iterator[MySQLGround]:
    """A server of the test's own: semi-synchronous replication holds every commit of a server."""
    with a_mysql_ground(private_servers.up("mariadb").mariadb) as made:
        yield made


@contextmanager
def logged_and_not_visible(ground: MySQLGround, *statements: str) -> Iterator[None]:
    """The last statement's commit is in the binary log and waits for a replica, which there is none of, before the engine commits."""
    ground.run("SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC", "SET GLOBAL rpl_semi_sync_master_timeout = 600000")
    with closing(MySQLSession(parsed(ground.uri))) as writer:
        for statement in statements[:-1]:
            writer.do(statement)
        before = ground.all("SHOW MASTER STATUS")
        ground.run(f"SET GLOBAL {_SEMISYNC} = ON")
        committing = threading.Thread(target=writer.do, args=(statements[-1],))
        committing.start()
        try:
            eventually(lambda: ground.all("SHOW MASTER STATUS") != before)
            yield
        finally:
            ground.run(f"SET GLOBAL {_SEMISYNC} = OFF")
            committing.join()


def test_a_transaction_that_is_logged_and_not_yet_visible_is_not_lost(own: MySQLGround) -> None:
    """The end of the binary log lies behind it, and no snapshot has it."""
    own.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source = own.source(tail=True)
    with logged_and_not_visible(own, "INSERT INTO t VALUES (2)"):
        plan = source.plan(own.chosen(), 2)
        rows = [one["id"] for part in plan.slices for one in documents(source.read(part, None))]
    own.run("INSERT INTO t VALUES (3)")
    assert rows == [1]
    assert summary(followed(source, plan.cursor, own.chosen(), 2)[0]) == [("INSERT", {"id": 2}), ("INSERT", {"id": 3})]


def test_a_new_file_of_the_log_hides_no_transaction_that_is_not_yet_visible(own: MySQLGround, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server says that a snapshot is at the new file's beginning, and the transaction that filled the file before is in no snapshot."""
    monkeypatch.setattr(position, "SETTLES", 0.5)
    monkeypatch.setattr(position, "PATIENCE", 1)
    monkeypatch.setattr(position, "TRIES", 1)
    own.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "SET GLOBAL max_binlog_size = 4096")
    source = own.source(tail=True)
    with logged_and_not_visible(own, "INSERT INTO t VALUES (1, REPEAT('x', 9000))"), pytest.raises(Timeout, match="read lock"):
        source.plan(own.chosen(), 1)
    plan = source.plan(own.chosen(), 1)
    assert [one["id"] for part in plan.slices for one in documents(source.read(part, None))] == [1]


def test_without_a_snapshot_of_the_log_a_lock_waits_for_what_is_not_yet_visible(own: MySQLGround, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on MySQL, which has no such snapshot."""
    monkeypatch.setattr(position, "_SNAPSHOT", "SHOW STATUS LIKE 'no_such_status'")
    monkeypatch.setattr(position, "PATIENCE", 1)
    monkeypatch.setattr(position, "TRIES", 1)
    own.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source = own.source(tail=True)
    with logged_and_not_visible(own, "INSERT INTO t VALUES (2)"), pytest.raises(Timeout, match="read lock"):
        source.plan(own.chosen(), 2)
    plan = source.plan(own.chosen(), 2)
    own.run("INSERT INTO t VALUES (3)")  # the lock is released
    assert [one["id"] for part in plan.slices for one in documents(source.read(part, None))] == [1, 2, 3]
    assert summary(followed(source, plan.cursor, own.chosen(), 1)[0]) == [("INSERT", {"id": 3})]
    stranger = source.__class__(uri=own.stranger("SELECT"), tail=True)
    own.run(f"GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {own.name}")
    with pytest.raises(Forbidden, match="RELOAD"):
        stranger.plan(own.chosen(), 2)


@pytest.fixture
def ground(mariadb: str) -> Iterator[MySQLGround]:
    with a_mysql_ground(mariadb) as made:
        made.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
        yield made


def prepare(ground: MySQLGround, xid: str, *statements: str) -> None:
    """In a connection of its own: one that has prepared a transaction can do nothing else before its end."""
    with closing(MySQLSession(parsed(ground.uri))) as session:
        for statement in (f"XA START {xid}", *statements, f"XA END {xid}", f"XA PREPARE {xid}"):
            session.do(statement)


@pytest.fixture
def xid(ground: MySQLGround) -> Iterator[str]:
    """The id of a transaction, which is rolled back at the end where it is still open."""
    yield f"'{ground.name}','é',7"
    with suppress(MySQLError):
        ground.run(f"XA ROLLBACK '{ground.name}','é',7")


def test_prepared_changes_count_from_their_commit_on_and_never_after_a_rollback(ground: MySQLGround, xid: str) -> None:
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    prepare(ground, xid, "INSERT INTO t VALUES (1, 'never')")
    ground.run("INSERT INTO t VALUES (2, 'a')", f"XA ROLLBACK {xid}")
    prepare(ground, xid, "INSERT INTO t VALUES (1, 'b')", "UPDATE t SET v = 'c' WHERE id = 2")
    ground.run("INSERT INTO t VALUES (3, 'd')", f"XA COMMIT {xid}", "UPDATE t SET v = 'e' WHERE id = 2")
    found, cursor = followed(source, cursor, ground.chosen(), 5)
    assert summary(found) == [
        ("INSERT", {"id": 2, "v": "a"}),
        ("INSERT", {"id": 3, "v": "d"}),
        ("INSERT", {"id": 1, "v": "b"}),
        ("UPDATE", {"id": 2, "v": "c"}),
        ("UPDATE", {"id": 2, "v": "e"}),
    ]
    assert "prepared" not in cursor


def test_what_is_prepared_is_kept_across_restarts_and_files_of_the_log(
    ground: MySQLGround, xid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that ends in the middle of the prepared changes."""
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    prepare(ground, xid, "INSERT INTO t SELECT seq, REPEAT('x', 500) FROM seq_1_to_200")
    ground.run("INSERT INTO t VALUES (1000, '')")
    found, cursor = followed(source, cursor, ground.chosen(), 1)
    assert [one.data["id"] for one in found] == [1000]
    assert len(cursor["prepared"]) == 1
    ground.rotate()
    ground.run(f"XA COMMIT {xid}", "INSERT INTO t VALUES (1001, '')")
    monkeypatch.setattr("headwater.adaptors.mysql.tail.PIECE_MESSAGES", 20)
    read: list[int] = []
    while len(read) < 201:
        found, cursor = followed(source, cursor, ground.chosen(), 1)
        read += [one.data["id"] for one in found]
    assert read == [*range(1, 201), 1001]


@pytest.mark.parametrize("known", [True, False])
def test_a_transaction_that_was_prepared_before_the_copy_is_read_at_its_commit(
    ground: MySQLGround, xid: str, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the copy's cursor has noted it or not, as on servers that do not tell what is prepared."""
    monkeypatch.setattr(prepared, "SETTLES", 0)
    source = ground.source(tail=True)
    prepare(ground, xid, "INSERT INTO t VALUES (1, 'a')")
    ground.run("INSERT INTO t VALUES (2, 'b')")
    ground.rotate()
    if not known:
        monkeypatch.setattr(prepared, "_recoverable", lambda session: set())
    plan = source.plan(ground.chosen(), 2)
    assert ("prepared" in plan.cursor) is known
    assert [one["id"] for part in plan.slices for one in documents(source.read(part, None))] == [2]
    ground.run(f"XA COMMIT {xid}")
    assert summary(followed(source, plan.cursor, ground.chosen(), 1)[0]) == [("INSERT", {"id": 1, "v": "a"})]


def test_a_prepared_transaction_that_the_log_no_longer_has_is_an_error(own: MySQLGround, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "SETTLES", 0)
    own.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = own.source(tail=True)
    prepare(own, "'x'", "INSERT INTO t VALUES (1)")
    cursor = source.plan(own.chosen(), 1).cursor
    own.run("FLUSH BINARY LOGS", "INSERT INTO t VALUES (2)")
    _, cursor = followed(source, cursor, own.chosen(), 1)
    own.run("PURGE BINARY LOGS TO 'binlog.000002'", "XA COMMIT 'x'")
    for known in (cursor, {**cursor, "prepared": {}}):
        with pytest.raises(OffsetGone):
            followed(source, known, own.chosen(), 1)


def test_an_xa_commit_that_is_logged_and_not_finished_is_waited_for(own: MySQLGround, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows lie before the position and would be in no snapshot that is taken at once."""
    monkeypatch.setattr(prepared, "SETTLES", 0)
    own.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = own.source(tail=True)
    prepare(own, "'x'", "INSERT INTO t VALUES (1)")
    with logged_and_not_visible(own, "SELECT 1", "XA COMMIT 'x'"):
        end = own.all("SHOW MASTER STATUS")[0][:2]
        assert source.plan(own.chosen(), 1).cursor["file"] == end[0]
        assert source.plan(own.chosen(), 1).cursor["pos"] < end[1]  # the server's own position lies before it
        monkeypatch.setattr("headwater.adaptors.mysql.tail.visible_position", lambda session, where: end)
        monkeypatch.setattr(prepared, "PATIENCE", 0)
        with pytest.raises(Timeout, match="XA COMMIT"):
            source.plan(own.chosen(), 1)
    assert source.plan(own.chosen(), 1).cursor["pos"] == end[1]

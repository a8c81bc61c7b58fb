"""A real Cassandra: what a session promises, its lock, and a migration whose process dies."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from headwater.core.clock import SystemClock
from headwater.core.errors import BadInput, Closed, Conflict, Timeout, Unreachable
from headwater.core.settings import CassandraSettings
from headwater.core.units import Duration
from headwater.store.cassandra.keyspace import Keyspace
from headwater.store.cassandra.schema_lock import SchemaLock
from headwater.testing.store_ground import migrations, numbers

pytestmark = pytest.mark.service("cassandra")


@pytest.fixture
def settings(cassandra: tuple[str, int]) -> CassandraSettings:
    host, port = cassandra
    return CassandraSettings(contact_points=(f"{host}:{port}",), keyspace=f"store_{uuid.uuid4().hex}", timeout=Duration(60_000))


@pytest.fixture
def keyspace(settings: CassandraSettings) -> Iterator[Keyspace]:
    with Keyspace(settings) as keyspace:
        yield keyspace
        keyspace.run(f"drop keyspace {settings.keyspace}")


def test_rows_are_written_and_read_at_a_local_quorum(keyspace: Keyspace) -> None:
    from cassandra import ConsistencyLevel

    keyspace.run("create table if not exists a (id int primary key)")
    future = keyspace.session.execute_async("select id from a")
    assert list(future.result()) == []
    assert future.message.consistency_level == ConsistencyLevel.LOCAL_QUORUM


def test_what_it_refuses_is_bad_input(keyspace: Keyspace) -> None:
    for statement in ("selekt 1", "select x from nowhere", "create table headwater_lock (a int primary key)"):
        with pytest.raises(BadInput):
            keyspace.run(statement)


def test_a_lock_is_held_by_one_and_expires_only_after_a_death(keyspace: Keyspace) -> None:
    def lock(owner: str) -> SchemaLock:
        return SchemaLock(keyspace.run, "toy", owner=owner, clock=SystemClock(), patience=0.2)

    one, two = lock("one"), lock("two")
    with one.held():
        one.renew()
        with pytest.raises(Timeout), two.held():
            pass
        with pytest.raises(Conflict):
            two.renew()
        with lock("one").held():  # an insert whose answer was lost finds its own row
            pass
    with two.held():
        two.renew()


def test_a_forked_child_opens_its_own(keyspace: Keyspace) -> None:
    child = os.fork()
    if child == 0:
        try:
            keyspace.run("select name from headwater_lock")
        except Closed:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert keyspace.run("select name from headwater_lock") == []


def test_nobody_there_is_unreachable(settings: CassandraSettings) -> None:
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        Keyspace(CassandraSettings(contact_points=("127.0.0.1:1",), timeout=Duration(2_000)))


def test_a_step_whose_process_died_in_its_midst_is_finished_by_the_next(keyspace: Keyspace, settings: CassandraSettings) -> None:
    script = f"""
import os
from headwater.core.settings import CassandraSettings
from headwater.core.units import Duration
from headwater.store.cassandra.keyspace import Keyspace
from headwater.testing.store_ground import migrations

class Dying(Keyspace):
    def run(self, statement, values=()):
        if statement.startswith("create table if not exists two"):
            os.kill(os.getpid(), 9)
        return super().run(statement, values)

settings = CassandraSettings(contact_points={settings.contact_points!r}, keyspace={settings.keyspace!r}, timeout=Duration(60_000))
Dying(settings, lock_lives=10).migrate(
    migrations("create table if not exists one (id int primary key);\\ncreate table if not exists two (id int primary key)"))
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=300).returncode == -9
    assert keyspace.applied("library") == []
    assert keyspace.run("select id from one") == []
    steps = migrations("create table if not exists one (id int primary key);\ncreate table if not exists two (id int primary key)")
    assert numbers(keyspace.migrate(steps)) == [1]  # once the dead one's lock has expired
    assert keyspace.run("select id from two") == []

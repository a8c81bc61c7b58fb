"""The PostgreSQL adaptor against a real server: what is its own in writing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import msgspec
import psycopg
import pytest
from postgres_ground import PostgresGround, a_postgres_ground
from sql_ground import insert, part, write

from headwater.core.errors import BadConfig, Rejected, Timeout, Unavailable, Unreachable
from headwater.pipeline.message import Message, Op
from headwater.pipeline.sink_adaptor import Batch


@pytest.fixture
def ground(postgres: str) -> Iterator[PostgresGround]:
    with a_postgres_ground(postgres) as made:
        yield made


def test_text_that_postgresql_cannot_hold_is_refused(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE t (id bigint PRIMARY KEY, v text)")
    with pytest.raises(Rejected, match="refuses") as refused:
        write(ground.sink(), [insert(3, id=5), insert(4, id=1, v="a\0b")], 3)
    assert refused.value.offset == 4
    assert ground.all("SELECT id FROM t") == [(5,)]


def test_a_constraint_that_is_checked_at_the_commit_refuses_the_batch_and_then_the_message(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE parent (id int PRIMARY KEY)", "INSERT INTO parent VALUES (1)")
    ground.run("CREATE TABLE t (id int PRIMARY KEY, p int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
    sink = ground.sink()
    rows = [insert(0, id=1, p=1), insert(1, id=2, p=9)]
    with pytest.raises(Rejected, match="commit") as refused:
        write(sink, rows)
    assert (refused.value.offset, refused.value.before_taken) == (-1, False)
    write(sink, rows[:1])
    with pytest.raises(Rejected) as refused:
        write(sink, rows[1:], 1)
    assert refused.value.offset == 1
    assert ground.all("SELECT id FROM t") == [(1,)]


def test_a_server_that_does_not_answer_at_all_is_a_timeout_too(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    writer = ground.sink().writer(part(timeout=0.2))
    pid = writer._session.link.info.backend_pid  # type: ignore[attr-defined]
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(Timeout, match=r"0\.2 s"):
            writer.write(Batch(start=0, end=1, messages=[insert(0, id=1)]))
    finally:
        os.kill(pid, signal.SIGCONT)
        writer.close()


def test_a_moment_of_another_zone_is_the_same_moment_in_every_column(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, plain timestamp, zoned timestamptz, day date)")
    at = {"$date": "2024-01-01T19:00:00-05:00"}
    write(ground.sink(), [insert(0, id=1, plain=at, zoned=at, day=at)])
    assert ground.all("SELECT plain::text, zoned AT TIME ZONE 'UTC' = plain, day::text FROM t") == [
        ("2024-01-02 00:00:00", True, "2024-01-02")
    ]


def test_a_truncate_that_a_constraint_forbids_is_refused_at_its_message(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE child (id int REFERENCES t)")
    with pytest.raises(Rejected, match="foreign key") as refused:
        write(ground.sink(), [Message("t", {"command": "truncate"}, Op.COMMAND, offset=3)], 3)
    assert refused.value.offset == 3


def test_a_key_that_no_upsert_can_use_is_told(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY DEFERRABLE)")
    with pytest.raises(BadConfig, match="deferrable"):
        write(ground.sink(), [insert(0, id=1)])


def test_a_table_that_may_not_be_changed_is_no_servers_silence(ground: PostgresGround) -> None:
    """What the server says has to be seen, and not "does not answer"."""
    ground.run(
        "CREATE TABLE t (id int PRIMARY KEY)", "ALTER TABLE t REPLICA IDENTITY NOTHING", f"CREATE PUBLICATION {ground.name} FOR TABLE t"
    )
    write(ground.sink(), [insert(0, id=1)])
    with pytest.raises(Unavailable, match="replica identity") as refused:
        write(ground.sink(), [Message("t", {"id": 1}, Op.DELETE, offset=1, id_fields=("id",))], 1)
    assert not isinstance(refused.value, Unreachable)


def test_what_is_taken_is_on_the_disk_whatever_the_server_is_set_to(ground: PostgresGround) -> None:
    for given, held in (("off", "on"), ("remote_apply", "remote_apply")):
        sink = msgspec.structs.replace(ground.sink(), uri=f"{ground.uri}?options=-c%20synchronous_commit%3D{given}")
        writer = sink.writer(part())
        assert writer._session.ask("SHOW synchronous_commit") == [(held,)]  # type: ignore[attr-defined]
        writer.close()


def test_a_writer_that_hangs_keeps_its_locks_no_longer_than_its_time(ground: PostgresGround, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.adaptors.postgres.sink.LEFT_ALONE", 0.05)
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    sink = ground.sink()
    sink.begin("p", "s", 1)
    writer = sink.writer(part(epoch=1, timeout=0.2))
    with pytest.raises(psycopg.Error), writer._session.transaction():  # type: ignore[attr-defined]
        writer._state.shared(1)  # type: ignore[attr-defined]
        sink.begin("p", "s", 2)  # would wait for ever
    writer.close()
    assert ground.all("SELECT epoch FROM headwater_epoch") == [(2,)]


def test_a_number_for_an_interval_is_refused(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE t (id bigint PRIMARY KEY, v interval)")
    with pytest.raises(Rejected, match=r"The column v of .*, interval, would change the value 5"):
        write(ground.sink(), [insert(0, id=1, v=5)])
    write(ground.sink(), [insert(0, id=1, v="1 day")])
    assert ground.all("SELECT v::text FROM t") == [("1 day",)]

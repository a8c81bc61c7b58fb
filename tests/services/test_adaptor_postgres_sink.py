"""The PostgreSQL adaptor against a real server: what is its own in writing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from postgres_ground import PostgresGround, a_postgres_ground
from sql_ground import insert, part, write

from headwater.core.errors import Rejected, Timeout
from headwater.pipeline.adaptor import Batch


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
    pid = writer._link.info.backend_pid  # type: ignore[attr-defined]
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(Timeout, match=r"0\.2 s"):
            writer.write(Batch(start=0, end=1, messages=[insert(0, id=1)]))
    finally:
        os.kill(pid, signal.SIGCONT)
        writer.close()

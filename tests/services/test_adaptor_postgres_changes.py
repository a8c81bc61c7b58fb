"""The PostgreSQL adaptor against a real server: what is its own in following changes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from postgres_ground import PostgresGround, a_postgres_ground
from sql_ground import eventually, followed, summary

from headwater.core.errors import BadConfig, Forbidden, OffsetGone
from headwater.pipeline.message import Op


@pytest.fixture
def ground(postgres: str) -> Iterator[PostgresGround]:
    with a_postgres_ground(postgres) as made:
        yield made


def test_the_slot_keeps_what_was_given_until_more_is_asked_for(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    where = f"SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = '{ground.name}'"
    ground.run("INSERT INTO t VALUES (1)")
    pieces = source.follow(cursor, ground.chosen(), lambda: False)
    given = next(piece for piece in pieces if piece.messages)
    assert ground.all(where) == [(cursor["lsn"],)]
    next(pieces)
    eventually(lambda: ground.all(where) == [(given.position["lsn"],)])
    pieces.close()
    # From before it, changes could be missing: that is said, not passed over.
    with pytest.raises(OffsetGone):
        next(source.follow(cursor, ground.chosen(), lambda: False))


def test_other_peoples_wal_does_not_pin_the_slot(ground: PostgresGround, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.pipeline.systems.postgres.tail.IDLE_WAL", 1000)
    ground.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (v text)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen("t"), 1).cursor
    ground.run("INSERT INTO other SELECT repeat('x', 100) FROM generate_series(1, 100)")
    found, after = followed(source, cursor, ground.chosen("t"), 1)
    assert [one.op for one in found] == [Op.NOOP]
    ground.run("INSERT INTO t VALUES (1)")
    more, _ = followed(source, after, ground.chosen("t"), 1)
    assert {"id": 1} in [one.data for one in more]


def test_large_values_that_did_not_change_are_not_lost(ground: PostgresGround) -> None:
    ground.run(
        "CREATE TABLE t (id int PRIMARY KEY, big text, v int)",
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        "INSERT INTO t VALUES (1, repeat('x', 100000), 1)",
    )
    ground.run(
        "CREATE TABLE f (id int PRIMARY KEY, big text, v int)",
        "ALTER TABLE f ALTER big SET STORAGE EXTERNAL",
        "ALTER TABLE f REPLICA IDENTITY FULL",
    )
    ground.run("INSERT INTO f VALUES (1, repeat('y', 100000), 1)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("UPDATE t SET v = 2", "UPDATE f SET v = 2", "DELETE FROM f")
    found, _ = followed(source, cursor, ground.chosen(), 3)
    assert summary(found) == [
        ("UPDATE", {"id": 1, "big": "x" * 100000, "v": 2}),
        ("UPDATE", {"id": 1, "big": "y" * 100000, "v": 2}),
        ("DELETE", {"id": 1}),
    ]


def test_an_index_can_be_the_identity(ground: PostgresGround) -> None:
    ground.run(
        "CREATE TABLE t (code text NOT NULL, v int)",
        "CREATE UNIQUE INDEX t_code ON t (code)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX t_code",
    )
    source = ground.source(tail=True)
    plan = source.plan(ground.chosen(), 1)
    assert plan.ids == {f"{ground.name}.t": ("code",)}
    ground.run("INSERT INTO t VALUES ('a', 1)", "DELETE FROM t")
    assert summary(followed(source, plan.cursor, ground.chosen(), 2)[0]) == [("INSERT", {"code": "a", "v": 1}), ("DELETE", {"code": "a"})]


def test_a_slot_that_is_gone_is_an_error(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run(f"SELECT pg_drop_replication_slot('{ground.name}')")
    with pytest.raises(OffsetGone, match="slot"):
        next(source.follow(cursor, ground.chosen(), lambda: False))


def test_a_table_that_is_refused_is_not_published(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE t (v int)")
    with pytest.raises(BadConfig, match="rows apart"):
        ground.source(tail=True).plan(ground.chosen(), 1)
    assert ground.all(f"SELECT count(*) FROM pg_publication WHERE pubname = '{ground.name}'") == [(0,)]


def test_a_user_who_may_replicate_but_not_publish_is_told_what_to_ask_for(ground: PostgresGround) -> None:
    """Publishing takes an owner of the tables; following does not."""
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    uri = ground.stranger("SELECT")
    ground.run(f"ALTER ROLE {ground.name} REPLICATION")
    source = msgspec.structs.replace(ground.source(tail=True), uri=uri)
    for ask in (lambda: source.check("source", ground.chosen()), lambda: source.plan(ground.chosen(), 1)):
        with pytest.raises(Forbidden) as refused:
            ask()
        assert f'CREATE PUBLICATION "{ground.name}" FOR TABLE "{ground.name}"."t"' in refused.value.hint
    ground.run(refused.value.hint.partition("run: ")[2])
    assert any("will be made" in line for line in source.check("source", ground.chosen()))
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("INSERT INTO t VALUES (1)")
    assert summary(followed(source, cursor, ground.chosen(), 1)[0]) == [("INSERT", {"id": 1})]


def test_a_table_that_is_made_later_joins_when_the_copy_is_planned_anew(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE a (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    source.plan(ground.chosen(), 1)
    ground.run("CREATE TABLE b (id int PRIMARY KEY)")
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (2)")
    assert [one.namespace for one in followed(source, cursor, ground.chosen(), 2)[0]] == [f"{ground.name}.a", f"{ground.name}.b"]

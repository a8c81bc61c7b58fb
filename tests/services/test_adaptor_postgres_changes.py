"""The PostgreSQL adaptor against a real server: following changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from postgres_ground import Ground, a_ground, documents, eventually, followed, summary

from headwater.core.errors import (
    BadConfig,
    OffsetGone,
    Unreachable,
)
from headwater.pipeline.message import Mode, Op


@pytest.fixture
def ground(postgres: str) -> Iterator[Ground]:
    with a_ground(postgres) as made:
        yield made


def test_changes_come_in_order_with_their_ids(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a')", "CREATE TABLE other (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    plan = source.plan(ground.chosen("t"), 1)
    ground.run(
        "INSERT INTO t VALUES (2, 'b')", "INSERT INTO other VALUES (1)", "UPDATE t SET v = 'c' WHERE id = 1", "DELETE FROM t WHERE id = 2"
    )
    ground.run("UPDATE t SET id = 9 WHERE id = 1", "TRUNCATE t")
    found, _ = followed(source, plan.cursor, ground.chosen("t"), 6)
    assert summary(found) == [
        ("INSERT", {"id": 2, "v": "b"}),
        ("UPDATE", {"id": 1, "v": "c"}),
        ("DELETE", {"id": 2}),
        ("DELETE", {"id": 1}),
        ("INSERT", {"id": 9, "v": "c"}),
        ("COMMAND", {"command": "truncate"}),
    ]
    assert {one.namespace for one in found} == {f"{ground.name}.t"}
    assert all(one.mode == Mode.SYNC and one.timestamp > 1_600_000_000_000 for one in found)
    assert all(one.id_fields == ("id",) for one in found if one.op != Op.COMMAND)


def test_what_changes_while_the_copy_is_read_comes_with_the_changes(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i")
    source = ground.source(tail=True)
    plan = source.plan(ground.chosen(), 2)
    ground.run("UPDATE t SET v = 1 WHERE id = 5", "INSERT INTO t VALUES (1000, 2)", "DELETE FROM t WHERE id = 100")
    state = {one["id"]: one["v"] for part in plan.slices for one in documents(source.read(part, None))}
    for message in followed(source, plan.cursor, ground.chosen(), 3)[0]:
        if message.op == Op.DELETE:
            state.pop(message.data["id"], None)
        else:
            state[message.data["id"]] = message.data["v"]
    assert state == dict(ground.all("SELECT id, v FROM t"))


def test_following_again_from_any_position_loses_and_repeats_nothing(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.pipeline.systems.postgres.tail.PIECE_MESSAGES", 7)
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run(
        "INSERT INTO t SELECT generate_series(1, 20)",
        "INSERT INTO t SELECT generate_series(21, 25)",
        "INSERT INTO t SELECT generate_series(26, 60)",
    )
    seen: list[int] = []
    for _ in range(40):  # a new connection each time, cut inside of transactions too
        found, cursor = followed(source, cursor, ground.chosen(), 1)
        seen += [one.data["id"] for one in found]
        if len(seen) >= 60:
            break
    assert seen == list(range(1, 61))


def test_the_slot_keeps_what_was_given_until_more_is_asked_for(ground: Ground) -> None:
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


def test_other_peoples_wal_does_not_pin_the_slot(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_large_values_that_did_not_change_are_not_lost(ground: Ground) -> None:
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


def test_a_table_whose_rows_cannot_be_told_apart_is_refused_before_it_is_published(ground: Ground) -> None:
    ground.run("CREATE TABLE t (v int)")
    with pytest.raises(BadConfig, match="primary key"):
        ground.source(tail=True).plan(ground.chosen(), 1)
    assert ground.all(f"SELECT count(*) FROM pg_publication WHERE pubname = '{ground.name}'") == [(0,)]


def test_an_index_can_be_the_identity(ground: Ground) -> None:
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


def test_a_slot_that_is_gone_is_an_error(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run(f"SELECT pg_drop_replication_slot('{ground.name}')")
    with pytest.raises(OffsetGone, match="slot"):
        next(source.follow(cursor, ground.chosen(), lambda: False))


def test_a_connection_that_is_cut_while_following_says_so_and_can_be_taken_up(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run("INSERT INTO t VALUES (1)")
    pieces = source.follow(cursor, ground.chosen(), lambda: False)
    given = next(piece for piece in pieces if piece.messages)
    ground.run(f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{ground.name}'")
    with pytest.raises(Unreachable):
        for _ in range(60):
            next(pieces)
    ground.run("INSERT INTO t VALUES (2)")
    assert [one.data for one in followed(source, given.position, ground.chosen(), 1)[0]] == [{"id": 2}]

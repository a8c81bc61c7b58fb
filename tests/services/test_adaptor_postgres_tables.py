"""Tables of PostgreSQL that change while their rows are followed: nothing is missed, or read as something else, without a word."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from postgres_ground import PostgresGround, a_postgres_ground
from sql_ground import followed, summary, travelled

from headwater.core.errors import BadConfig, Differs
from headwater.pipeline.message import Op
from headwater.pipeline.source_adaptor import CopyPlan


@pytest.fixture
def ground(postgres: str) -> Iterator[PostgresGround]:
    with a_postgres_ground(postgres) as made:
        made.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
        yield made


def stored(plan: CopyPlan) -> CopyPlan:
    """The plan as a later run finds it."""
    return msgspec.convert(travelled(plan), CopyPlan)


CHANGED = [
    ("ALTER TABLE t RENAME TO u", "is called"),
    ("ALTER TABLE t RENAME TO elsewhere", "is called"),
    ("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v int)", "was dropped and created anew"),
    ("ALTER TABLE t ALTER v SET NOT NULL, DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (v)", "are told apart by"),
    ("ALTER TABLE t DROP CONSTRAINT t_pkey", "are told apart by"),
    ("ALTER PUBLICATION {name} DROP TABLE t", "no more"),
    ("ALTER PUBLICATION {name} DROP TABLE t; INSERT INTO t VALUES (2, 2); ALTER PUBLICATION {name} ADD TABLE t", "joined it again"),
    ("CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (5); ALTER PUBLICATION {name} ADD TABLE u", "from before were not read"),
]


@pytest.mark.parametrize(("statements", "told"), CHANGED)
def test_a_table_that_is_no_longer_what_was_copied_is_told_before_its_changes_are_read(
    ground: PostgresGround, statements: str, told: str
) -> None:
    source, chosen = ground.source(tail=True), ground.chosen("[tu]")
    plan = stored(source.plan(chosen, 1))
    source.check_followed(plan, chosen)
    ground.run(statements.format(name=ground.name))
    with pytest.raises(Differs, match=told) as refused:
        source.check_followed(plan, chosen)
    assert "run FILE --again" in refused.value.hint


@pytest.mark.parametrize(("statements", "told"), CHANGED)
def test_a_table_that_becomes_another_while_it_is_followed_is_told(
    ground: PostgresGround, monkeypatch: pytest.MonkeyPatch, statements: str, told: str
) -> None:
    source, chosen = ground.source(tail=True), ground.chosen("[tu]")
    monkeypatch.setattr("headwater.adaptors.postgres.tail.LOOK", 0.0)
    pieces = source.follow(source.plan(chosen, 1).cursor, chosen, lambda: False)
    next(pieces)
    ground.run(statements.format(name=ground.name))
    with pytest.raises(Differs, match=told):
        for _ in range(20):
            next(pieces)


def test_the_changes_of_a_renamed_table_are_not_read_under_its_new_name(ground: PostgresGround) -> None:
    source, chosen = ground.source(tail=True), ground.chosen("[tu]")
    pieces = source.follow(source.plan(chosen, 1).cursor, chosen, lambda: False)
    next(pieces)
    ground.run("UPDATE t SET v = 2", "ALTER TABLE t RENAME TO u", "UPDATE u SET v = 3")
    assert summary(list(next(piece for piece in pieces if piece.messages).messages)) == [("UPDATE", {"id": 1, "v": 2})]
    with pytest.raises(Differs, match="is called"):
        next(pieces)


def test_a_publication_that_is_narrowed_or_dropped_is_told(ground: PostgresGround) -> None:
    source, chosen = ground.source(tail=True), ground.chosen()
    plan = stored(source.plan(chosen, 1))
    ground.run(f"ALTER PUBLICATION {ground.name} SET (publish = 'insert')")
    with pytest.raises(BadConfig, match="kinds of changes"):
        source.check_followed(plan, chosen)
    ground.run(f"DROP PUBLICATION {ground.name}")
    with pytest.raises(BadConfig, match="pg_drop_replication_slot"):
        source.check_followed(plan, chosen)


def test_a_publication_that_has_left_changes_out_for_a_while_is_told(ground: PostgresGround) -> None:
    source, chosen = ground.source(tail=True), ground.chosen()
    plan = stored(source.plan(chosen, 1))
    ground.run("CREATE TABLE other (id int PRIMARY KEY)", f"ALTER PUBLICATION {ground.name} ADD TABLE other")
    ground.run(f"ALTER PUBLICATION {ground.name} DROP TABLE other", "DROP TABLE other")
    source.check_followed(plan, chosen)
    ground.run(f"ALTER PUBLICATION {ground.name} SET (publish = 'insert')", "UPDATE t SET v = 2")
    ground.run(f"ALTER PUBLICATION {ground.name} SET (publish = 'insert, update, delete, truncate')")
    with pytest.raises(Differs, match="was altered"):
        source.check_followed(plan, chosen)


def test_a_table_that_nobody_publishes_is_logged_once(
    ground: PostgresGround, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source, chosen = ground.source(tail=True), ground.chosen()
    plan = stored(source.plan(chosen, 1))
    ground.run("CREATE TABLE later (id int PRIMARY KEY)")
    monkeypatch.setattr("headwater.adaptors.postgres.tail.LOOK", 0.0)
    monkeypatch.setattr("headwater.adaptors.postgres.tail.WAIT", 0.01)
    pieces = source.follow(plan.cursor, chosen, lambda: False)
    for _ in range(4):
        next(pieces)
    pieces.close()
    assert [f"{ground.name}.later" in one.getMessage() for one in caplog.records if one.name == "headwater.pipeline"] == [True]


def test_columns_that_are_added_renamed_and_dropped_are_read_as_they_are(ground: PostgresGround) -> None:
    source, chosen = ground.source(tail=True), ground.chosen()
    plan = stored(source.plan(chosen, 1))
    ground.run("ALTER TABLE t ADD w int DEFAULT 5", "UPDATE t SET v = 2", "ALTER TABLE t RENAME v TO x", "UPDATE t SET x = 3")
    ground.run("ALTER TABLE t DROP x", "UPDATE t SET w = 6", "DELETE FROM t", "DROP TABLE t")
    source.check_followed(plan, chosen)
    assert summary(followed(source, plan.cursor, chosen, 4)[0]) == [
        ("UPDATE", {"id": 1, "v": 2, "w": 5}),
        ("UPDATE", {"id": 1, "x": 3, "w": 5}),
        ("UPDATE", {"id": 1, "w": 6}),
        ("DELETE", {"id": 1}),
    ]


def test_an_emptied_table_is_a_command(ground: PostgresGround) -> None:
    source, chosen = ground.source(tail=True), ground.chosen()
    plan = source.plan(chosen, 1)
    ground.run("TRUNCATE t", "INSERT INTO t VALUES (1, 2)")
    assert [one.op for one in followed(source, plan.cursor, chosen, 2)[0]] == [Op.COMMAND, Op.INSERT]

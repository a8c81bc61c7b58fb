"""The seam between a copy of PostgreSQL's tables and their changes, with others writing meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from postgres_ground import PostgresGround, a_postgres_ground
from sql_ground import documents, followed
from tools.services.private import PrivateServers

from headwater.adaptors.postgres.adaptor import Postgres
from headwater.core.errors import BadConfig, OffsetGone, Timeout, Unavailable
from headwater.pipeline.namespaces import Namespaces


@pytest.fixture
def ground(postgres: str) -> Iterator[PostgresGround]:
    with a_postgres_ground(postgres) as made:
        yield made


@contextmanager
def another(ground: PostgresGround) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(ground.uri, options=f"-c search_path={ground.name}") as link:
        yield link


def read_whole(ground: PostgresGround, source: Postgres, chosen: Namespaces, *, meanwhile: Callable[[], object] = lambda: None) -> set[Any]:
    """The ids of a copy and of the changes behind it, up to a row that is inserted into `b` after `meanwhile`."""
    plan = source.plan(chosen, 1)
    ids = {(part.namespace, one["id"]) for part in plan.slices for one in documents(source.read(part, None))}
    meanwhile()
    ground.run("INSERT INTO b VALUES (999)")
    last, cursor = (f"{ground.name}.b", 999), plan.cursor
    while last not in ids:
        found, cursor = followed(source, cursor, chosen, 1)
        ids |= {(one.namespace, one.data["id"]) for one in found}
    return {(name.rpartition(".")[2], number) for name, number in ids}


def when_waited(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> list[float]:
    """Let something happen once a plan waits for others; returns the waits."""
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            happens()

    monkeypatch.setattr("headwater.adaptors.postgres.writers.sleep", sleep)
    return waits


@pytest.mark.parametrize("table", ["b (id int PRIMARY KEY)", "b (id int PRIMARY KEY) PARTITION BY RANGE (id)"])
def test_a_row_written_before_its_table_joins_and_committed_afterwards_is_read(
    ground: PostgresGround, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    ground.run("CREATE TABLE a (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    source.plan(ground.chosen(), 1)
    ground.run(f"CREATE TABLE {table}")
    into = "b"
    if "PARTITION" in table:
        into = "part"
        ground.run("CREATE TABLE part PARTITION OF b DEFAULT")
    with another(ground) as writer:
        writer.execute(f"INSERT INTO {into} VALUES (1)")
        waits = when_waited(monkeypatch, writer.commit)
        assert read_whole(ground, source, ground.chosen("[ab]"), meanwhile=writer.commit) == {("b", 1), ("b", 999)}
    assert len(waits) == 1


def test_a_transaction_that_comes_to_a_table_after_it_has_joined_is_read(ground: PostgresGround) -> None:
    """It was open before, wrote to others, and has a snapshot in which the table is not published."""
    ground.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    source.plan(ground.chosen("a"), 1)
    ground.run("CREATE TABLE b (id int PRIMARY KEY)")
    with another(ground) as writer:
        writer.execute("INSERT INTO other VALUES (1); SELECT * FROM b")

        def finish() -> None:
            writer.execute("INSERT INTO b VALUES (2)")
            writer.commit()

        assert read_whole(ground, source, ground.chosen("b"), meanwhile=finish) == {("b", 2), ("b", 999)}


def test_readers_and_later_writers_are_not_waited_for(ground: PostgresGround, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.run("CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO b VALUES (1)")
    source = ground.source(tail=True)
    source.plan(ground.chosen(), 1)
    with another(ground) as reader, another(ground) as writer, another(ground) as later:
        reader.execute("SELECT * FROM b FOR UPDATE")
        writer.execute("INSERT INTO b VALUES (2)")

        def happens() -> None:
            later.execute("INSERT INTO b VALUES (3)")
            writer.commit()

        waits = when_waited(monkeypatch, happens)
        assert read_whole(ground, source, ground.chosen(), meanwhile=later.commit) == {("b", 1), ("b", 2), ("b", 3), ("b", 999)}
        assert len(waits) == 1


def test_a_transaction_that_does_not_end_is_named(ground: PostgresGround, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.run("CREATE TABLE b (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    source.plan(ground.chosen(), 1)
    monkeypatch.setattr("headwater.adaptors.postgres.writers.PATIENCE", 0.0)
    with another(ground) as writer:
        writer.execute("INSERT INTO b VALUES (1)")
        with pytest.raises(Timeout, match=f"process {writer.info.backend_pid} .user headwater, since 2") as told:
            source.plan(ground.chosen(), 1)
        ground.run(told.value.hint.partition("end them: ")[2])
        writer.close()
    source.plan(ground.chosen(), 1)


def test_a_slot_that_cannot_be_created_yet_names_whom_it_waits_for(ground: PostgresGround, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.run("CREATE TABLE b (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)")
    monkeypatch.setattr("headwater.adaptors.postgres.writers.PATIENCE", 0.3)
    source = ground.source(tail=True)
    with another(ground) as writer:
        writer.execute("INSERT INTO other VALUES (1)")
        with pytest.raises(Timeout, match=f"process {writer.info.backend_pid} "):
            source.plan(ground.chosen("b"), 1)
        writer.rollback()
    monkeypatch.undo()
    assert read_whole(ground, source, ground.chosen("b")) == {("b", 999)}


def test_a_prepared_transaction_is_waited_for_and_named(private_servers: PrivateServers, monkeypatch: pytest.MonkeyPatch) -> None:
    with a_postgres_ground(private_servers.up("postgres").postgres) as ground:
        ground.run("CREATE TABLE a (id int PRIMARY KEY)")
        source = ground.source(tail=True)
        source.plan(ground.chosen(), 1)
        ground.run("CREATE TABLE b (id int PRIMARY KEY)")
        with another(ground) as writer:
            writer.execute("INSERT INTO b VALUES (1)")
            writer.execute("PREPARE TRANSACTION 'it''s late'")
            writer.rollback()
        monkeypatch.setattr("headwater.adaptors.postgres.writers.PATIENCE", 0.0)
        with pytest.raises(Timeout, match='prepared transaction "it\'s late"') as told:
            source.plan(ground.chosen(), 1)
        assert told.value.hint.endswith("ROLLBACK PREPARED 'it''s late'")
        monkeypatch.undo()
        waits = when_waited(monkeypatch, lambda: ground.run("COMMIT PREPARED 'it''s late'"))
        assert read_whole(ground, source, ground.chosen()) == {("b", 1), ("b", 999)}
        assert waits


# -- slots and publications that do not go together ------------------------------------------------------------


def test_a_slot_that_is_older_than_its_publication_is_refused_before_the_copy(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE b (id int PRIMARY KEY)", f"SELECT pg_create_logical_replication_slot('{ground.name}', 'pgoutput')")
    source = ground.source(tail=True)
    for ask in (lambda: source.check("source", ground.chosen()), lambda: source.plan(ground.chosen(), 1)):
        with pytest.raises(BadConfig, match="is older than the publication"):
            ask()
    # One that somebody else has created since does not help: the server cannot send what is before it.
    ground.run("INSERT INTO b VALUES (1)", f"CREATE PUBLICATION {ground.name} FOR TABLE b")
    with pytest.raises(BadConfig, match="is older than the publication") as refused:
        source.plan(ground.chosen(), 1)
    while ground.all(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{ground.name}' AND active"):
        pass  # the server has not yet noticed that the plan has gone
    ground.run(refused.value.hint.partition(": ")[2].partition(". ")[0])
    assert read_whole(ground, source, ground.chosen()) == {("b", 1), ("b", 999)}


def test_a_publication_that_was_created_anew_while_changes_are_followed_is_told(ground: PostgresGround) -> None:
    ground.run("CREATE TABLE b (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    cursor = source.plan(ground.chosen(), 1).cursor
    ground.run(f"DROP PUBLICATION {ground.name}", "INSERT INTO b VALUES (1)", f"CREATE PUBLICATION {ground.name} FOR TABLE b")
    with pytest.raises(BadConfig, match="is older than the publication"):
        followed(source, cursor, ground.chosen(), 1)


@pytest.mark.parametrize(("narrowed", "told"), [("b WHERE (id > 1)", "a row filter"), ("b (id)", "a column list")])
def test_a_publication_of_some_rows_or_columns_is_refused(ground: PostgresGround, narrowed: str, told: str) -> None:
    ground.run("CREATE TABLE b (id int PRIMARY KEY, v int)", f"CREATE PUBLICATION {ground.name} FOR TABLE {narrowed}")
    source = ground.source(tail=True)
    for ask in (lambda: source.check("source", ground.chosen()), lambda: source.plan(ground.chosen(), 1)):
        with pytest.raises(BadConfig, match=told) as refused:
            ask()
    ground.run(*refused.value.hint.partition("run: ")[2].split("; "))
    assert read_whole(ground, source, ground.chosen()) == {("b", 999)}


@pytest.mark.parametrize("every", ["FOR ALL TABLES", "FOR TABLES IN SCHEMA {}"])
def test_tables_that_join_a_publication_of_all_tables_are_followed_from_their_first_row(ground: PostgresGround, every: str) -> None:
    ground.run("CREATE TABLE a (id int PRIMARY KEY)", f"CREATE PUBLICATION {ground.name} {every.format(ground.name)}")
    source = ground.source(tail=True)
    plan = source.plan(ground.chosen(), 1)
    ground.run("CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO b VALUES (1)")
    assert [one.data for one in followed(source, plan.cursor, ground.chosen(), 1)[0]] == [{"id": 1}]


def test_a_slot_that_another_run_uses_is_told_before_the_copy(ground: PostgresGround, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.run("CREATE TABLE b (id int PRIMARY KEY)")
    source = ground.source(tail=True)
    following = source.follow(source.plan(ground.chosen(), 1).cursor, ground.chosen(), lambda: False)
    next(following)
    monkeypatch.setattr("headwater.adaptors.postgres.stream.BUSY_FOR", 0.0)
    with pytest.raises(Unavailable, match=f"is in use: .*PID {ground.following()[0]}"):
        source.plan(ground.chosen(), 1)
    following.close()


def test_a_slot_whose_wal_the_server_has_removed_says_what_to_type(private_servers: PrivateServers) -> None:
    with a_postgres_ground(private_servers.up("postgres").postgres) as ground:
        ground.run("CREATE TABLE b (id int PRIMARY KEY)")
        source = ground.source(tail=True)
        cursor = source.plan(ground.chosen(), 1).cursor
        ground.run("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
        for number in range(4):
            ground.run(f"INSERT INTO b VALUES ({number})", "SELECT pg_switch_wal()", "CHECKPOINT")
        with pytest.raises(OffsetGone, match="has removed WAL") as gone:
            next(source.follow(cursor, ground.chosen(), lambda: False))
        with pytest.raises(BadConfig, match="has removed WAL"):
            source.plan(ground.chosen(), 1)
        ground.run(gone.value.hint.partition("the slot: ")[2].partition(". ")[0])
        assert read_whole(ground, source, ground.chosen()) == {*(("b", number) for number in range(4)), ("b", 999)}

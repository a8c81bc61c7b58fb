"""What COPY sends, taken from libpq itself: to its end, left early, and broken off by the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from postgres_ground import PostgresGround, a_postgres_ground
from sql_ground import documents, eventually

from headwater.core.errors import Unavailable

pytestmark = pytest.mark.service("postgres")
COUNT = 20_000


@pytest.fixture
def ground(postgres: str) -> Iterator[PostgresGround]:
    with a_postgres_ground(postgres) as made:
        made.run(
            "CREATE TABLE t (id int PRIMARY KEY, v text)",
            f"INSERT INTO t SELECT i, repeat('v', 200) FROM generate_series(1, {COUNT}) i",
        )
        yield made


def copying(ground: PostgresGround) -> list[tuple[int]]:
    """The server's processes that copy a table of this ground."""
    found: list[tuple[int]] = ground.link.execute(
        "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE %s", [f'COPY (SELECT %"{ground.name}".%']
    ).fetchall()
    return found


@pytest.mark.parametrize("rows", [0, 1, COUNT])
def test_every_row_comes_once(ground: PostgresGround, rows: int) -> None:
    ground.run(f"DELETE FROM t WHERE id > {rows}")
    [part] = ground.source().plan(ground.chosen(), 1).slices
    assert [one["id"] for one in documents(ground.source().read(part, None))] == list(range(1, rows + 1))


def test_a_copy_that_is_left_early_ends_at_the_server(ground: PostgresGround, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.small_pieces(monkeypatch)
    [part] = ground.source().plan(ground.chosen(), 1).slices
    pieces = ground.source().read(part, None)
    first = next(pieces)
    assert copying(ground)
    pieces.close()  # type: ignore[attr-defined]
    eventually(lambda: not copying(ground))
    rest = ground.source().read(part, first.position)
    assert len(first.values) + len(documents(rest)) == COUNT


def test_a_server_that_breaks_off_is_said_so_and_reading_goes_on(ground: PostgresGround, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.small_pieces(monkeypatch)
    [part] = ground.source().plan(ground.chosen(), 1).slices
    seen: list[int] = []
    position = None
    with pytest.raises(Unavailable):
        for piece in ground.source().read(part, None):
            if not seen:
                [(process,)] = copying(ground)
                ground.run(f"SELECT pg_terminate_backend({process})")
            seen += [one["id"] for one in documents(iter([piece]))]
            position = piece.position
    assert 0 < len(seen) < COUNT
    seen += [one["id"] for one in documents(ground.source().read(part, position))]
    assert seen == list(range(1, COUNT + 1))


def test_a_value_that_the_server_cannot_give_is_no_end_of_the_table(ground: PostgresGround) -> None:
    ground.run("CREATE VIEW w AS SELECT id, 1 / (id - 15000) AS v FROM t")
    import psycopg

    from headwater.adaptors.postgres.connection import PostgresSession
    from headwater.adaptors.postgres.copy_out import pieces

    with closing(PostgresSession(ground.uri)) as session, pytest.raises(psycopg.errors.DivisionByZero):
        statement = f"COPY (SELECT '{{}}' || v, id::text FROM {ground.name}.w) TO STDOUT (FORMAT binary)"
        list(pieces(session, statement, "key", 1000))
    with closing(PostgresSession(ground.uri)) as session:
        with pytest.raises(psycopg.errors.SyntaxError):
            list(pieces(session, "COPY nothing", "key", 1000))
        assert session.one("SELECT 1") == 1

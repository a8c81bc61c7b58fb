"""Projections into a real PostgreSQL: positions in the handler's transaction, stale owners, lost connections, failing commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from postgres_ground import PostgresGround, a_postgres_ground
from tests.unit.journal.ground import TOPIC, Ground, appended, ground_at, random_records
from tests.unit.journal.projection_ground import GivenShares, fold, in_order, run_of

from headwater.core.errors import Stopped
from headwater.journal.projection import Projection
from headwater.journal.projection_requests import ResetProjection
from headwater.journal.projection_status import dead_events, list_projections, reset_projection
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.service("postgres")


@pytest.fixture
def server(postgres: str) -> Iterator[PostgresGround]:
    with a_postgres_ground(postgres) as made:
        made.run("CREATE TABLE seen (n bigserial, id text, number bigint, record bigint)")
        yield made


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with ground_at(tmp_path / "data") as made:
        made.topic()
        for partition, ids in ((0, "abc"), (1, "def")):
            made.append(*random_records(Random(partition), 60, ids=ids), partition=partition)
        yield made


def insert(event: Any, connection: Any) -> Any:
    return connection.execute("INSERT INTO seen (id, number, record) VALUES (%s, %s, %s)", (event.id, event.seq_nr, event.offset))


def connect(server: PostgresGround, **options: Any) -> Any:
    return psycopg.connect(server.uri, options=f"-c search_path={server.name}", **options)


def check(server: PostgresGround, ground: Ground) -> None:
    rows = server.all("SELECT id, number, record FROM seen ORDER BY n")
    assert Counter(rows) == fold(ground.log)
    assert in_order(rows)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["blocking", "autocommit", "asyncio"])
def test_each_kind_of_connection(server: PostgresGround, ground: Ground, kind: str) -> None:
    async def later() -> Any:
        return await psycopg.AsyncConnection.connect(server.uri, options=f"-c search_path={server.name}")

    async def handle(event: Any, connection: Any) -> None:
        await insert(event, connection)

    if kind == "asyncio":
        projection = Projection("bank", "seen", handle, connect=later, batch=7)
    else:
        projection = Projection("bank", "seen", insert, connect=lambda: connect(server, autocommit=kind == "autocommit"), batch=7)
    run_of(ground, projection).run(once=True)
    check(server, ground)
    ground.append(appended("z", 1))
    assert run_of(ground, projection).run(once=True).events == 1
    check(server, ground)
    assert list_projections(ground.log, ground.topic())[0].positions == "postgresql"


def test_a_stale_owner_writes_nothing(server: PostgresGround, ground: Ground) -> None:
    projection = Projection("bank", "seen", insert, connect=lambda: connect(server), batch=5)
    paused, shares = run_of(ground, projection), GivenShares([0, 1])
    paused._turn(shares)
    run_of(ground, projection).run(once=True)
    ground.append(appended("z", 1))
    paused._turn(shares)
    assert not paused._owned
    run_of(ground, projection).run(once=True)
    check(server, ground)
    paused._close()


def test_a_take_over_in_the_midst_of_a_transaction(server: PostgresGround, ground: Ground) -> None:
    """The stale owner has inserted its rows, and not yet kept its position, when another process takes over."""
    other: list[bool] = []

    def handle(event: Any, connection: Any) -> None:
        insert(event, connection)
        if not other:
            other.append(True)
            run_of(ground, Projection("bank", "seen", insert, connect=lambda: connect(server))).run(once=True)

    stale, shares = run_of(ground, Projection("bank", "seen", handle, connect=lambda: connect(server))), GivenShares([0, 1])
    stale._turn(shares)
    stale._turn(shares)
    check(server, ground)
    stale._close()


def test_a_lost_connection_is_opened_again(server: PostgresGround, ground: Ground) -> None:
    lost: list[int] = []

    def handle(event: Any, connection: Any) -> None:
        insert(event, connection)
        if event.offset in (5, 17) and event.offset not in lost:
            lost.append(event.offset)
            server.kill(connection.info.backend_pid)

    clock = ground.clock
    assert isinstance(clock, ManualClock)
    run, shares = run_of(ground, Projection("bank", "seen", handle, connect=lambda: connect(server), batch=4)), GivenShares([0, 1])
    for _ in range(80):
        run._turn(shares)
        clock.advance(10.0)
    run._close()
    assert lost
    check(server, ground)


def test_failures_of_statements_and_commits_are_the_handlers(server: PostgresGround, ground: Ground) -> None:
    server.run("CREATE TABLE parent (id int PRIMARY KEY)", "CREATE TABLE child (p int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")

    def swallows(event: Any, connection: Any) -> None:
        try:
            connection.execute("SELECT 1 / 0")
        except psycopg.Error:
            return

    def violates(event: Any, connection: Any) -> None:
        connection.execute("INSERT INTO child VALUES (7)")

    def ends(event: Any, connection: Any) -> None:
        connection.commit()

    for name, handler, said in (("a", swallows, "aborted"), ("b", violates, "foreign key"), ("c", ends, "ended the transaction")):
        with pytest.raises(Stopped, match=said):
            run_of(ground, Projection("bank", name, handler, connect=lambda: connect(server), attempts=1)).run(once=True)
    parked = Projection("bank", "d", violates, connect=lambda: connect(server), attempts=1, on_error="park", batch=3)
    run_of(ground, parked).run(once=True)
    assert len(dead_events(ground.log, ground.topic(), "d")) == fold(ground.log).total()


def test_a_reset(server: PostgresGround, ground: Ground) -> None:
    projection = Projection(
        "bank", "seen", insert, connect=lambda: connect(server), reset=lambda connection: connection.execute("DELETE FROM seen")
    )
    run_of(ground, projection).run(once=True)
    reset_projection(ground.log, ground.topic(), ResetProjection(topic=TOPIC, name="seen"), "")
    run_of(ground, projection).run(once=True)
    check(server, ground)

"""Rows of a table of PostgreSQL, claimed with `FOR UPDATE SKIP LOCKED` and deleted when they are done: a queue written by hand."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from bench.case import Sample
from bench.machine import processor_time
from bench.queue.opened import DATA
from bench.queue.team import Team, serve
from headwater.core.errors import HeadwaterError, Unavailable
from headwater.core.ids import random_id

_PROCESSES = 4 if len(os.sched_getaffinity(0)) > 2 else 2
_SQL = Path(__file__).with_name("sql")


class Postgres(NamedTuple):
    """A database of its own in a server that runs, and the server's process."""

    uri: str
    pid: int

    def processor(self) -> float:
        """Seconds that the server's processes have had a processor."""
        return processor_time(self.pid) if self.pid else 0.0


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server that runs already, or one that is stopped afterwards, with a fresh database. Errors: `Unavailable`."""
    from tools.services import release, up
    from tools.services.process import current

    me = current()
    try:
        import psycopg

        running = up("postgres", kept=False, user=me)
        uri = running.postgres
    except (HeadwaterError, ImportError) as problem:
        raise Unavailable(str(problem), hint="See `python -m tools.services up postgres`.") from problem
    name = f"bench_{random_id()[:8].lower()}"
    try:
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
            try:
                yield Postgres(uri.rpartition("/")[0] + f"/{name}", running.pid("postgres-1") or 0)
            finally:
                connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    finally:
        release(me)


class SkipLocked:
    """Clients in several processes: one Python alone would keep the server waiting."""

    def __init__(self, server: Postgres, team: Team, table: str) -> None:
        self._server, self._team, self._table = server, team, table

    @classmethod
    @contextmanager
    def started(cls, server: Postgres, clients: int) -> Iterator[SkipLocked]:
        import psycopg

        table = f"rows_{random_id()[:8].lower()}"
        with psycopg.connect(server.uri, autocommit=True) as connection:
            connection.execute(_statement("create", table))
        with Team.started(_PROCESSES, _member, (server.uri, table, clients // _PROCESSES)) as team:
            yield cls(server, team, table)

    def round(self, rows: int, batch: int) -> Sample:
        """Clients claim so many rows at once, and delete them, until none is left."""
        import psycopg

        with psycopg.connect(self._server.uri, autocommit=True) as connection:
            connection.execute(_statement("fill", self._table), {"data": DATA, "count": rows})
            connection.execute(f"VACUUM ANALYZE {self._table}")  # as autovacuum would, but not within a round
            connection.execute("CHECKPOINT")
        return self._team.round(batch, rows, self._server.processor)


def _statement(name: str, table: str) -> str:
    return (_SQL / f"{name}.sql").read_text().replace("{table}", table)


def _member(pipe: Connection, given: tuple[str, str, int]) -> None:
    uri, table, clients = given
    with asyncio.Runner() as runner:
        connections = runner.run(_connected(uri, clients))
        serve(pipe, lambda batch: runner.run(_drained(connections, table, batch)))
        os._exit(0)  # the database goes, and the connections with it


async def _connected(uri: str, clients: int) -> list[Any]:
    import psycopg

    return [await psycopg.AsyncConnection.connect(uri, autocommit=True, prepare_threshold=1) for _ in range(clients)]


async def _drained(connections: list[Any], table: str, batch: int) -> int:
    claim, done = _statement("claim", table), _statement("done", table)

    async def client(connection: Any) -> int:
        finished = 0
        async with connection.cursor(binary=True) as cursor:
            while True:
                await cursor.execute(claim, {"n": batch})
                rows = await cursor.fetchall()
                if not rows:
                    return finished
                await cursor.execute(done, {"ids": [row[0] for row in rows]})
                finished += len(rows)

    return sum(await asyncio.gather(*map(client, connections)))

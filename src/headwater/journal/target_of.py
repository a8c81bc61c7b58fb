"""Finds out what a projection's connection is, and so where its positions are kept."""

from __future__ import annotations

from typing import Any

from headwater.core.errors import BadInput
from headwater.journal.postgres_target import PostgresTarget
from headwater.journal.projection import Projection
from headwater.journal.projection_records import ProjectionLog
from headwater.journal.projection_target import AsyncCalls, ProjectionTarget, RecordTarget, SqlTarget, TargetUnavailable
from headwater.journal.sqlite_target import SqliteTarget

_KINDS: dict[str, type[SqlTarget]] = {"sqlite3": SqliteTarget, "apsw": SqliteTarget, "psycopg": PostgresTarget}


def target_of(projection: Projection, records: ProjectionLog, calls: AsyncCalls) -> ProjectionTarget:
    """The target of a projection, connected. Errors: `BadInput` for a connection of another kind; `TargetUnavailable`."""
    if projection.connect is None:
        return RecordTarget(projection.name, records)
    try:
        connection = calls(projection.connect())
    except Exception as error:
        raise TargetUnavailable(f"{type(error).__name__}: {error}") from error
    target = _kind(projection, connection)(records.topic, projection.name, projection.connect, calls)
    target.open(connection)
    return target


def _kind(projection: Projection, connection: Any) -> type[SqlTarget]:
    for base in type(connection).__mro__:
        target_type = _KINDS.get(base.__module__.partition(".")[0])
        if target_type is not None and "Connection" in base.__name__:
            return target_type
    raise BadInput(
        f"connect of the projection {projection.name} returns {type(connection).__name__}, in which no position can be kept.",
        hint="Return a connection of sqlite3, apsw or psycopg; or give no connect, and write where the handler likes.",
    )

"""The publication of the followed tables: which tables it lacks, and the statement that adds them."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.errors import InsufficientPrivilege

from headwater.adaptors.postgres.connection import PostgresSession
from headwater.adaptors.postgres.tables import PostgresTable
from headwater.adaptors.sql.table import quote
from headwater.core.errors import BadConfig, Forbidden

_KNOWN = "SELECT puballtables, pubinsert AND pubupdate AND pubdelete AND pubtruncate, pubviaroot FROM pg_publication WHERE pubname = %s"
_THERE = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s"
# Both columns exist since PostgreSQL 15.
_NARROWED = """
SELECT n.nspname || '.' || c.relname, to_jsonb(r) ->> 'prqual' IS NOT NULL
FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid JOIN pg_class c ON c.oid = r.prrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE p.pubname = %s AND r.prrelid = ANY(%s::oid[]) AND (to_jsonb(r) ->> 'prqual' IS NOT NULL OR to_jsonb(r) ->> 'prattrs' IS NOT NULL)
ORDER BY 1
"""
# To publish a table takes its owner. To create a publication takes CREATE on the database, to add to one its owner.
_ALLOWED = """
SELECT (SELECT coalesce(bool_and(pg_has_role(relowner, 'USAGE')), true) FROM pg_class WHERE oid = ANY(%s))
   AND coalesce((SELECT pg_has_role(pubowner, 'USAGE') FROM pg_publication WHERE pubname = %s),
                has_database_privilege(current_database(), 'CREATE'))
"""


def missing_statement(session: PostgresSession, publication: str, tables: Sequence[PostgresTable], *, slot: str = "") -> str:
    """The statement that publishes the tables; empty where they are published. `slot`: the slot, where it exists.

    Errors: `BadConfig` for a publication that leaves changes out, and for a slot that exists without one.
    """
    if not slot and not session.ask(_KNOWN, (publication,)):
        names = ", ".join(table.quoted for table in tables)
        return f"CREATE PUBLICATION {quote(publication)} FOR TABLE {names} WITH (publish_via_partition_root = true)"
    every_table = check_complete(session, publication, tables, slot=slot)
    published = set(session.ask(_THERE, (publication,)))
    lacking = [table.quoted for table in tables if (table.schema, table.name) not in published]
    return f"ALTER PUBLICATION {quote(publication)} ADD TABLE {', '.join(lacking)}" if lacking and not every_table else ""


def check_complete(session: PostgresSession, publication: str, tables: Sequence[PostgresTable], *, slot: str) -> bool:
    """Whether the publication has all tables. Errors: `BadConfig` for one that does not exist, or leaves out changes of these tables."""
    rows = session.ask(_KNOWN, (publication,))
    if not rows:
        raise older_slot(slot, publication)
    ((every_table, every_change, by_root),) = rows
    _complete(publication, tables, every_change=every_change, by_root=by_root)
    _unfiltered(session, publication, tables)
    return bool(every_table)


def _complete(publication: str, tables: Sequence[PostgresTable], *, every_change: bool, by_root: bool) -> None:
    """Errors: `BadConfig` for an existing publication that leaves out changes of the tables."""
    parts = next((table.namespace for table in tables if table.partitioned), None)
    if not every_change:
        raise BadConfig(
            f"The publication {publication} leaves some kinds of changes out.",
            hint=f"Let its owner run: ALTER PUBLICATION {quote(publication)} SET (publish = 'insert, update, delete, truncate')",
        )
    if parts is not None and not by_root:
        raise BadConfig(
            f"The publication {publication} publishes the changes of {parts} under the names of its partitions.",
            hint=f"Let its owner run: ALTER PUBLICATION {quote(publication)} SET (publish_via_partition_root = true)",
        )


def _unfiltered(session: PostgresSession, publication: str, tables: Sequence[PostgresTable]) -> None:
    """Errors: `BadConfig` where only some rows or columns of a table are published: the copy has them all."""
    quoted = {table.namespace: table.quoted for table in tables}
    for namespace, rows in session.ask(_NARROWED, (publication, [table.oid for table in tables])):
        portion = "some rows of it (a row filter)" if rows else "some of its columns (a column list)"
        alter = f"ALTER PUBLICATION {quote(publication)}"
        raise BadConfig(
            f"The publication {publication} has {namespace} with {portion} only: changes of the others would be missed.",
            hint=f"Let its owner run: {alter} DROP TABLE {quoted[namespace]}; {alter} ADD TABLE {quoted[namespace]}",
        )


def older_slot(slot: str, publication: str) -> BadConfig:
    """For a slot with changes from before its publication was created: the server cannot send them, nor anything behind them."""
    return BadConfig(
        f"The replication slot {slot} is older than the publication {publication}: changes since the slot was created are not published.",
        hint=f"Drop the slot: SELECT pg_drop_replication_slot('{slot}'). "
        "Then `headwater pipeline run FILE --again` creates it and reads anew.",
    )


def publish(session: PostgresSession, publication: str, tables: Sequence[PostgresTable], *, slot: str = "") -> None:
    """Publish the tables. Errors: those of `missing_statement`; `Forbidden`."""
    statement = missing_statement(session, publication, tables, slot=slot)
    if statement:
        try:
            session.do(statement)
        except InsufficientPrivilege as error:
            raise forbidden(publication, statement) from error


def check(session: PostgresSession, publication: str, tables: Sequence[PostgresTable], *, slot: str = "") -> None:
    """Errors: those of `publish`."""
    statement = missing_statement(session, publication, tables, slot=slot)
    if statement and not session.one(_ALLOWED, ([table.oid for table in tables], publication)):
        raise forbidden(publication, statement)


def forbidden(publication: str, statement: str) -> Forbidden:
    return Forbidden(
        f"The URI's user may not publish the tables' changes in {publication}.", hint=f"Let an owner of the tables run: {statement}"
    )

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
# To publish a table takes its owner. To create a publication takes CREATE on the database, to add to one its owner.
_ALLOWED = """
SELECT (SELECT coalesce(bool_and(pg_has_role(relowner, 'USAGE')), true) FROM pg_class WHERE oid = ANY(%s))
   AND coalesce((SELECT pg_has_role(pubowner, 'USAGE') FROM pg_publication WHERE pubname = %s),
                has_database_privilege(current_database(), 'CREATE'))
"""


def missing_statement(session: PostgresSession, publication: str, found: Sequence[PostgresTable]) -> str:
    """The statement that publishes the tables; empty where they are published. Errors: `BadConfig`."""
    known = session.ask(_KNOWN, (publication,))
    if not known:
        names = ", ".join(one.quoted for one in found)
        return f"CREATE PUBLICATION {quote(publication)} FOR TABLE {names} WITH (publish_via_partition_root = true)"
    ((every_table, every_change, by_root),) = known
    _complete(publication, found, every_change=every_change, by_root=by_root)
    there = set(session.ask(_THERE, (publication,)))
    lacking = [one.quoted for one in found if (one.schema, one.name) not in there]
    return f"ALTER PUBLICATION {quote(publication)} ADD TABLE {', '.join(lacking)}" if lacking and not every_table else ""


def _complete(publication: str, found: Sequence[PostgresTable], *, every_change: bool, by_root: bool) -> None:
    """Errors: `BadConfig` for an existing publication that leaves out changes of the tables."""
    parts = next((one.namespace for one in found if one.partitioned), None)
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


def publish(session: PostgresSession, publication: str, found: Sequence[PostgresTable]) -> None:
    """Publish the tables. Errors: `Forbidden`, `BadConfig`."""
    statement = missing_statement(session, publication, found)
    if statement:
        try:
            session.do(statement)
        except InsufficientPrivilege as error:
            raise forbidden(publication, statement) from error


def check(session: PostgresSession, publication: str, found: Sequence[PostgresTable]) -> None:
    """Errors: those of `publish`."""
    statement = missing_statement(session, publication, found)
    if statement and not session.one(_ALLOWED, ([one.oid for one in found], publication)):
        raise forbidden(publication, statement)


def forbidden(publication: str, statement: str) -> Forbidden:
    return Forbidden(
        f"The URI's user may not publish the tables' changes in {publication}.", hint=f"Let an owner of the tables run: {statement}"
    )

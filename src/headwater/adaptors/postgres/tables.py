"""Tables of PostgreSQL's catalog: columns, keys, and replica identity."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from headwater.adaptors.postgres.connection import PostgresSession
from headwater.adaptors.postgres.types import Kind, Type, json_of, type_of
from headwater.adaptors.sql.table import COMMITTED, EPOCH, OWNER, SqlTable, quote
from headwater.core.errors import BadConfig, Forbidden, NotFound
from headwater.pipeline import values
from headwater.pipeline.namespaces import Namespaces

_TABLES = """
SELECT c.oid::bigint, n.nspname, c.relname, c.relkind = 'p', c.relreplident::text, has_table_privilege(c.oid, 'SELECT'),
       pg_relation_size(c.oid), greatest(c.reltuples, 0)::bigint,
       c.relkind = 'r' AND EXISTS (SELECT 1 FROM pg_inherits h WHERE h.inhparent = c.oid), c.relpersistence = 'u'
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
  AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' AND c.relname NOT IN (%s, %s, %s)
  AND (%s::text IS NULL OR (n.nspname = %s AND c.relname = %s))
ORDER BY 2, 3
"""
_EXISTING = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't' AND n.nspname = ANY(%s)
"""
# A domain's base type is found by walking down; an array of domains is as good as one of text.
_COLUMNS = """
WITH RECURSIVE base(oid, into_oid) AS (
    SELECT oid, CASE WHEN typtype = 'd' THEN typbasetype ELSE oid END FROM pg_type
  UNION
    SELECT b.oid, t.typbasetype FROM base b JOIN pg_type t ON t.oid = b.into_oid WHERE t.typtype = 'd'
)
SELECT a.attrelid::bigint, a.attname, t.typname, e.typname, format_type(a.atttypid, a.atttypmod),
       a.attgenerated <> '', a.attidentity <> '', a.atthasdef OR a.attidentity <> '', a.atttypid::bigint,
       t.typname IN ('citext', 'numeric') OR NOT coalesce(l.collisdeterministic, true)
FROM pg_attribute a
LEFT JOIN pg_collation l ON l.oid = a.attcollation
JOIN base b ON b.oid = a.atttypid
JOIN pg_type t ON t.oid = b.into_oid AND t.typtype <> 'd'
LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""
_KEYS = """
SELECT i.indrelid::bigint, i.indisprimary, i.indisreplident, i.indimmediate, array_agg(a.attname ORDER BY k.place)::text[]
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int[]) WITH ORDINALITY AS k(number, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = ANY(%s) AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid, i.indrelid, i.indisprimary, i.indisreplident, i.indimmediate
ORDER BY 1, i.indexrelid
"""
_LEAVES = "SELECT p.relid::regclass::text FROM pg_partition_tree(%s::oid::regclass) p WHERE p.isleaf ORDER BY 1"
_HEIRS = """
WITH RECURSIVE t(oid) AS (SELECT %s::oid UNION SELECT h.inhrelid FROM pg_inherits h JOIN t ON h.inhparent = t.oid)
SELECT 'ONLY ' || oid::regclass::text FROM t ORDER BY 1
"""
# The planner's estimate for the tables, their partitions and heirs. A table that was never analysed has pages and no rows.
_ESTIMATE = """
WITH RECURSIVE t(oid) AS (SELECT unnest(%s::bigint[])::oid UNION SELECT h.inhrelid FROM pg_inherits h JOIN t ON h.inhparent = t.oid)
SELECT CASE WHEN bool_and(c.reltuples > 0 OR pg_relation_size(c.oid) = 0) THEN sum(greatest(c.reltuples, 0))::bigint END
FROM t JOIN pg_class c USING (oid) WHERE c.relkind = 'r'
"""

# The tables, their partitions and heirs, and the views over them: through each of these, rows can be written.
_NAMES = """
WITH RECURSIVE t(oid) AS (
    SELECT unnest(%s::bigint[])::oid
  UNION
    SELECT n.oid FROM t CROSS JOIN LATERAL (
        SELECT h.inhrelid FROM pg_inherits h WHERE h.inhparent = t.oid
      UNION
        SELECT r.ev_class FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class AND v.relkind = 'v'
        WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = t.oid
    ) n(oid)
)
SELECT n.nspname || '.' || c.relname FROM t JOIN pg_class c USING (oid) JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY 1
"""
_IDENTITY = """
SELECT extract(epoch FROM pg_postmaster_start_time())::text, pg_is_in_recovery(),
       (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class PostgresColumn(msgspec.Struct, frozen=True):
    name: str
    type: Type
    declared: str  # as in CREATE TABLE
    generated: bool = False  # computed by the server: cannot be written
    identity: bool = False
    default: bool = False
    oid: int = 0
    loose: bool = False  # equal values may differ: by case (citext, some collations), by zeros (numeric)

    @property
    def kind(self) -> Kind:
        return self.type.kind


class PostgresTable(SqlTable[PostgresColumn], frozen=True, kw_only=True):
    oid: int
    partitioned: bool = False
    identity: str = "d"  # the replica identity: d(efault: the key), i(ndex), f(ull), n(othing)
    bytes: int = 0
    replica: tuple[str, ...] = ()  # the columns of the index of the replica identity
    unlogged: bool = False  # its changes are in no log
    heirs: bool = False  # whether other tables inherit from it: a SELECT returns their rows, too
    deferrable: bool = False  # whether the key is checked at the commit only: ON CONFLICT cannot use such a key

    @property
    def quoted(self) -> str:
        return f"{quote(self.schema)}.{quote(self.name)}"

    @property
    def mark(self) -> int:
        return self.oid

    @property
    def ids(self) -> tuple[str, ...]:
        if self.identity == "i":
            return self.replica
        return self.key if self.identity in ("d", "f") else ()


def identities(session: PostgresSession, *, writing: bool) -> list[str]:
    """The identities of the database. A copy of a server's files has its system identifier, but another start; a standby is its primary."""
    may_ask = session.one("SELECT has_function_privilege('pg_control_system()', 'EXECUTE')")
    system = session.one("SELECT system_identifier FROM pg_control_system()") if may_ask else ""
    ((started, standby, database),) = session.ask(_IDENTITY)
    names = [f"postgres {system}/{started}/{database}"]
    return [*names, f"postgres {system}/{database}"] if system and (standby or writing) else names


def written_names(session: PostgresSession, tables: list[PostgresTable]) -> list[str]:
    """The names of the tables, and of the partitions, heirs and views through which their rows can be written."""
    return [row[0] for row in session.ask(_NAMES, ([table.oid for table in tables],))]


def tables(session: PostgresSession, chosen: Namespaces, *, readable: bool = True) -> list[PostgresTable]:
    """The chosen tables. Errors: `NotFound` when there is none; with `readable` `Forbidden` for one that cannot be read."""
    rows = [row for row in session.ask(_TABLES, (COMMITTED, EPOCH, OWNER, None, None, None)) if f"{row[1]}.{row[2]}" in chosen]
    if not rows:
        raise NotFound(
            f"No table in the database matches the namespace {chosen}.", hint=r"A table's namespace is schema.table: ^public\.orders$."
        )
    for row in rows:
        if readable and not row[5]:
            raise Forbidden(f"The table {row[1]}.{row[2]} may not be read.", hint="Grant SELECT on it, or choose a narrower namespace.")
    return _described(session, rows)


def table(session: PostgresSession, schema: str, name: str) -> PostgresTable | None:
    """One table; None where it does not exist."""
    return next(iter(_described(session, session.ask(_TABLES, ("", "", "", name, schema, name)))), None)


def table_names(session: PostgresSession, schemas: Collection[str]) -> set[str]:
    """The namespaces of all tables in these schemas that `table` would find."""
    return {f"{schema}.{name}" for schema, name in session.ask(_EXISTING, (list(schemas),))}


def followable(source_tables: Sequence[PostgresTable]) -> None:
    """Errors: `BadConfig` for a table whose changes cannot be followed."""
    for source_table in source_tables:
        if not source_table.ids:
            raise BadConfig(
                f"The table {source_table.namespace} has no replica identity, so its changes cannot be followed.",
                hint="Give it a primary key, or REPLICA IDENTITY USING INDEX, or choose a narrower namespace.",
            )
        if generated := [name for name in source_table.ids if (column := source_table.column(name)) is not None and column.generated]:
            raise BadConfig(
                f"The key of {source_table.namespace} has {', '.join(generated)}, a generated column, "
                "which the server does not send with a change.",
                hint="Choose another key with REPLICA IDENTITY USING INDEX, or a narrower namespace.",
            )
        if source_table.unlogged:
            raise BadConfig(
                f"The table {source_table.namespace} is unlogged, so its changes cannot be followed.",
                hint=f"ALTER TABLE {source_table.quoted} SET LOGGED, or choose a narrower namespace.",
            )
        if source_table.heirs:
            raise BadConfig(
                f"Other tables inherit from {source_table.namespace}: their rows are copied with it, "
                "but their changes come under their own names.",
                hint="Choose the tables that inherit from it instead, or copy it without following it.",
            )


def logical(session: PostgresSession) -> None:
    """Errors: `BadConfig` for a server without logical decoding."""
    level = session.one("SHOW wal_level")
    if level != "logical":
        raise BadConfig(f"The server's wal_level is {level}.", hint="Set wal_level = logical in postgresql.conf and restart PostgreSQL.")


def may_replicate(session: PostgresSession) -> None:
    """Errors: `Forbidden` for a user who may not use slots."""
    for may, name in session.ask("SELECT rolreplication OR rolsuper, quote_ident(rolname) FROM pg_roles WHERE rolname = current_user"):
        if not may:
            raise Forbidden(f"The URI's user {name} may not replicate.", hint=f"Let a superuser run: ALTER ROLE {name} REPLICATION")


def leaves(session: PostgresSession, source_table: PostgresTable) -> list[str]:
    """The tables that together have all rows of a table: a ctid is unique within one of them only."""
    if not source_table.partitioned and not source_table.heirs:
        return [source_table.quoted]
    return [row[0] for row in session.ask(_LEAVES if source_table.partitioned else _HEIRS, (source_table.oid,))]


def estimated_rows(session: PostgresSession, chosen: list[PostgresTable]) -> int | None:
    """An estimate of the rows of the tables; None where one of them was never analysed."""
    rows: int | None = session.one(_ESTIMATE, ([source_table.oid for source_table in chosen],))
    return rows


def types(session: PostgresSession, oids: list[int]) -> dict[int, Type]:
    """Types by their OIDs."""
    question = _COLUMNS.partition("SELECT a.attrelid")[0] + (
        "SELECT b.oid::bigint, t.typname, e.typname FROM base b JOIN pg_type t ON t.oid = b.into_oid AND t.typtype <> 'd' "
        "LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A' WHERE b.oid = ANY(%s::oid[])"
    )
    return {row[0]: type_of(row[1], row[2]) for row in session.ask(question, (oids,))}


def _described(session: PostgresSession, rows: list[tuple[Any, ...]]) -> list[PostgresTable]:
    oids = [row[0] for row in rows]
    if not oids:
        return []
    columns: dict[int, list[PostgresColumn]] = {}
    for oid, name, kind, element, *more in session.ask(_COLUMNS, (oids,)):
        columns.setdefault(oid, []).append(PostgresColumn(name, type_of(kind, element), *more))
    keys: dict[int, list[tuple[bool, bool, bool, tuple[str, ...]]]] = {oid: [] for oid in oids}
    for oid, primary, replica, immediate, names in session.ask(_KEYS, (oids,)):
        keys[oid].append((primary, replica, immediate, tuple(names)))
    return [
        PostgresTable(
            oid=oid,
            schema=schema,
            name=name,
            columns=tuple(columns.get(oid, ())),
            partitioned=partitioned,
            identity=identity,
            bytes=size,
            rows=count,
            key=next((names for primary, _, _, names in keys[oid] if primary), ()),
            unique=tuple(names for _, _, immediate, names in keys[oid] if immediate),
            replica=next((names for _, replica, _, names in keys[oid] if replica), ()),
            heirs=heirs,
            unlogged=unlogged,
            deferrable=any(primary and not immediate for primary, _, immediate, _ in keys[oid]),
        )
        for oid, schema, name, partitioned, identity, _, size, count, heirs, unlogged in rows
    ]


def document(columns: Sequence[PostgresColumn], alias: str = "t") -> str:
    """An SQL expression: a row as a JSON object."""
    if not columns:
        return "'{}'"
    fields = []
    for number, column in enumerate(columns):
        name = values.encode(column.name).decode().replace("'", "''")
        name = f"E'{'{' if number == 0 else ','}{name.replace(chr(92), chr(92) * 2)}:'"
        fields.append(f"{name}||coalesce({json_of(column.kind, f'{alias}.{quote(column.name)}')},'null')")
    return "||".join(fields) + "||'}'"

"""The statements of the PostgreSQL sink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.adaptors.postgres.columns import RULES
from headwater.adaptors.postgres.tables import PostgresTable
from headwater.adaptors.sql.statements import Statements
from headwater.adaptors.sql.table import COMMITTED, EPOCH, OWNER, quote, safe
from headwater.pipeline.columns import ColumnType

_OF = "WHERE pipeline = %s AND sink = %s"
_TAKEN = "(pipeline, sink, start_offset, end_offset, bucket, buckets)"


def statements(schema: str) -> Statements:
    """How a sink remembers, in three tables of the schema."""
    epoch, committed, owner = (f"{quote(schema)}.{name}" for name in (EPOCH, COMMITTED, OWNER))
    return Statements(
        there="SELECT 1 WHERE to_regclass('{}') IS NOT NULL".format(committed.replace("'", "''")),
        create=(
            f"CREATE TABLE IF NOT EXISTS {epoch} (pipeline text, sink text, epoch bigint NOT NULL, PRIMARY KEY (pipeline, sink))",
            f"CREATE TABLE IF NOT EXISTS {committed} (pipeline text, sink text, end_offset bigint, start_offset bigint, bucket int, "
            "buckets int, PRIMARY KEY (pipeline, sink, end_offset, start_offset, bucket, buckets))",
        ),
        share_epoch=safe(f"SELECT epoch FROM {epoch} ") + f"{_OF} FOR SHARE",
        lock_epoch=safe(f"SELECT epoch FROM {epoch} ") + f"{_OF} FOR UPDATE",
        first_epoch=safe(f"INSERT INTO {epoch} ") + "VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
        set_epoch=safe(f"UPDATE {epoch} ") + f"SET epoch = %s {_OF}",
        read=safe(f"SELECT start_offset, end_offset, bucket, buckets FROM {committed} ") + _OF,
        count=safe(f"SELECT count(*) FROM {committed} ") + _OF,
        take=safe(f"INSERT INTO {committed} {_TAKEN} ") + "VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
        untake=safe(f"DELETE FROM {committed} ") + f"{_OF} AND start_offset = %s AND end_offset = %s AND bucket = %s AND buckets = %s",
        clear=safe(f"DELETE FROM {committed} ") + _OF,
        owners_there="SELECT 1 WHERE to_regclass('{}') IS NOT NULL".format(owner.replace("'", "''")),
        create_owners=f"CREATE TABLE IF NOT EXISTS {owner} (pipeline text, sink text, note text NOT NULL, PRIMARY KEY (pipeline, sink))",
        first_owner=safe(f"INSERT INTO {owner} ") + "VALUES (%s, %s, '') ON CONFLICT DO NOTHING",
        read_owner=safe(f"SELECT note FROM {owner} ") + _OF,
        lock_owner=safe(f"SELECT note FROM {owner} ") + f"{_OF} FOR UPDATE",
        set_owner=safe(f"UPDATE {owner} ") + f"SET note = %s {_OF}",
    )


def open_batch(schema: str) -> str:
    """What each batch begins with, in one round trip: is the run still the newest; note the batch; what else was noted near it?

    Of two attempts at one batch, the second waits here until the first is committed, and then has nothing to do.
    """
    committed = safe(f"{quote(schema)}.{COMMITTED}")
    return f"""
    WITH e AS MATERIALIZED ({statements(schema).share_epoch}),
         t AS (
           INSERT INTO {committed} {_TAKEN}
           SELECT %s, %s, %s::bigint, %s::bigint, %s, %s WHERE EXISTS (SELECT 1 FROM e WHERE epoch <= %s)
           ON CONFLICT DO NOTHING RETURNING 1)
    SELECT (SELECT epoch FROM e), (SELECT count(*) FROM t),
           (SELECT array_agg(ARRAY[start_offset, end_offset, bucket, buckets]) FROM {committed}
            {_OF} AND end_offset > %s AND start_offset < %s)
    """


def create_schema(schema: str) -> str:
    return f"CREATE SCHEMA IF NOT EXISTS {quote(schema)}"


def create_table(schema: str, name: str, columns: Mapping[str, ColumnType], key: Iterable[str]) -> str:
    body = [f"{quote(column)} {RULES.named(kind)}" for column, kind in columns.items()]
    if names := ", ".join(quote(column) for column in key):
        body.append(f"PRIMARY KEY ({names})")
    return f"CREATE TABLE IF NOT EXISTS {quote(schema)}.{quote(name)} ({', '.join(body)})"


def add_columns(table: PostgresTable, columns: Mapping[str, ColumnType]) -> str:
    return f"ALTER TABLE {table.quoted} " + ", ".join(
        f"ADD COLUMN IF NOT EXISTS {quote(name)} {RULES.named(kind)}" for name, kind in columns.items()
    )


def widen_columns(table: PostgresTable, columns: Mapping[str, ColumnType]) -> str:
    return f"ALTER TABLE {table.quoted} " + ", ".join(
        f"ALTER COLUMN {quote(name)} TYPE {RULES.named(kind)}" for name, kind in columns.items()
    )


def upsert(table: PostgresTable, key: tuple[str, ...], absent: frozenset[str]) -> str:
    """Rows from a JSON list, each replacing the one of its key; without a key they are added. `absent` columns get their defaults."""
    writable = [column for column in table.columns if not column.generated]
    present = [column for column in writable if column.name not in absent]
    names = ", ".join(safe(quote(column.name)) for column in present)
    forced = " OVERRIDING SYSTEM VALUE" if any(column.identity for column in present) else ""
    into = safe(table.quoted)
    text = f"INSERT INTO {into} ({names}){forced} SELECT {names} FROM json_populate_recordset(NULL::{into}, %s::json)"
    if not key:
        return text
    sets = [
        f"{safe(quote(column.name))} = {'DEFAULT' if column.name in absent else f'EXCLUDED.{safe(quote(column.name))}'}"
        for column in writable
        if column.name not in key or (column.loose and column.name not in absent)
    ]
    target = ", ".join(safe(quote(name)) for name in key)
    return f"{text} ON CONFLICT ({target}) DO " + (f"UPDATE SET {', '.join(sets)}" if sets else "NOTHING")


def delete(table: PostgresTable, key: tuple[str, ...]) -> str:
    tests = " AND ".join(f"t.{safe(quote(name))} = d.{safe(quote(name))}" for name in key)
    return f"DELETE FROM {safe(table.quoted)} t USING json_populate_recordset(NULL::{safe(table.quoted)}, %s::json) d WHERE {tests}"

"""The statements of the MySQL sink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headwater.adaptors.mysql.columns import IN_A_KEY, RULES
from headwater.adaptors.mysql.connection import quote
from headwater.adaptors.mysql.tables import MysqlTable
from headwater.adaptors.sql.statements import Statements
from headwater.adaptors.sql.table import COMMITTED, EPOCH, OWNER, safe
from headwater.pipeline.columns import ColumnType

_NAMES = "pipeline varchar(255) CHARACTER SET ascii, sink varchar(255) CHARACTER SET ascii"
_OF = "WHERE pipeline = %s AND sink = %s"
_READ = f"SELECT start_offset, end_offset, bucket, buckets FROM {COMMITTED} {_OF}"
READ_NEAR = f"{_READ} AND end_offset > %s AND start_offset < %s"
STATEMENTS = Statements(
    there=f"SHOW TABLES LIKE '{COMMITTED}'",
    create=(
        f"CREATE TABLE IF NOT EXISTS {EPOCH} ({_NAMES}, epoch bigint NOT NULL, PRIMARY KEY (pipeline, sink)) ENGINE=InnoDB",
        f"CREATE TABLE IF NOT EXISTS {COMMITTED} ({_NAMES}, end_offset bigint, start_offset bigint, bucket int, buckets int, "
        "PRIMARY KEY (pipeline, sink, end_offset, start_offset, bucket, buckets)) ENGINE=InnoDB",
    ),
    share_epoch=f"SELECT epoch FROM {EPOCH} {_OF} LOCK IN SHARE MODE",
    lock_epoch=f"SELECT epoch FROM {EPOCH} {_OF} FOR UPDATE",
    first_epoch=f"INSERT IGNORE INTO {EPOCH} VALUES (%s, %s, %s)",
    set_epoch=f"UPDATE {EPOCH} SET epoch = %s {_OF}",
    read=_READ,
    count=f"SELECT COUNT(*) FROM {COMMITTED} {_OF}",
    take=f"INSERT IGNORE INTO {COMMITTED} (pipeline, sink, start_offset, end_offset, bucket, buckets) VALUES (%s, %s, %s, %s, %s, %s)",
    untake=f"DELETE FROM {COMMITTED} {_OF} AND start_offset = %s AND end_offset = %s AND bucket = %s AND buckets = %s",
    clear=f"DELETE FROM {COMMITTED} {_OF}",
    owners_there=f"SHOW TABLES LIKE '{OWNER}'",
    create_owners=f"CREATE TABLE IF NOT EXISTS {OWNER} ({_NAMES}, note text CHARACTER SET utf8mb4 NOT NULL, PRIMARY KEY (pipeline, sink)) "
    "ENGINE=InnoDB",
    first_owner=f"INSERT IGNORE INTO {OWNER} VALUES (%s, %s, '')",
    read_owner=f"SELECT note FROM {OWNER} {_OF}",
    lock_owner=f"SELECT note FROM {OWNER} {_OF} FOR UPDATE",
    set_owner=f"UPDATE {OWNER} SET note = %s {_OF}",
)

# The changes of the sink's tables in forms that change nothing: they tell whether the user has the rights.
ATTEMPTS = (
    f"EXPLAIN INSERT INTO {COMMITTED} (pipeline) VALUES ('')",
    f"EXPLAIN DELETE FROM {COMMITTED} WHERE 1 = 0",
    f"EXPLAIN UPDATE {EPOCH} SET epoch = 0 WHERE 1 = 0",
)
ATTEMPT_TO_CREATE = f"CREATE TABLE {COMMITTED} LIKE {COMMITTED}_that_is_not_there"

# Collations that compare ids exactly, with case and trailing blanks: under others two documents could share a row.
MARIADB, MYSQL = "utf8mb4_nopad_bin", "utf8mb4_0900_bin"


def create_table(schema: str, name: str, columns: Mapping[str, ColumnType], key: Iterable[str], exact: str) -> str:
    """`exact`: the collation of ids."""
    names = tuple(key)
    body = []
    for column, kind in columns.items():
        declared = IN_A_KEY.get(kind.kind, RULES.named(kind)) if column in names else RULES.named(kind)
        body.append(f"{quote(column)} {declared}{f' COLLATE {exact}' if column in names and declared.startswith('varchar') else ''}")
    if names:
        body.append(f"PRIMARY KEY ({', '.join(quote(column) for column in names)})")
    return f"CREATE TABLE IF NOT EXISTS {quote(schema)}.{quote(name)} ({', '.join(body)}) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"


def add_columns(table: MysqlTable, columns: Mapping[str, ColumnType]) -> str:
    """One statement, so that of columns that are too many none is added."""
    return f"ALTER TABLE {table.quoted} " + ", ".join(f"ADD COLUMN {quote(name)} {RULES.named(kind)}" for name, kind in columns.items())


def widen_columns(table: MysqlTable, columns: Mapping[str, ColumnType]) -> str:
    return f"ALTER TABLE {table.quoted} " + ", ".join(f"MODIFY COLUMN {quote(name)} {RULES.named(kind)}" for name, kind in columns.items())


def insert(table: MysqlTable, names: Sequence[str]) -> str:
    return f"INSERT INTO {safe(table.quoted)} ({', '.join(safe(quote(name)) for name in names)}) VALUES "


def on_conflict(table: MysqlTable, names: Sequence[str], key: Sequence[str], absent: frozenset[str]) -> str:
    """The clause by which an INSERT replaces the row of its key. Correct only where the key is the only unique index."""
    sets = [f"{safe(quote(name))} = VALUES({safe(quote(name))})" for name in replaced(table, names, key)]
    sets += [f"{safe(quote(name))} = DEFAULT" for name in sorted(absent) if name not in key]
    same = safe(quote(key[0]))
    return " ON DUPLICATE KEY UPDATE " + (", ".join(sets) if sets else f"{same} = {same}")


def replaced(table: MysqlTable, names: Sequence[str], key: Sequence[str]) -> list[str]:
    """The columns that a row of the same key gets anew: those of text in the key, too, since equal keys may differ in case or accents."""
    return [name for name in names if name not in key or ((column := table.column(name)) is not None and column.kind == "text")]


def update(table: MysqlTable, names: Sequence[str], key: Sequence[str], absent: frozenset[str]) -> str:
    sets = [f"{safe(quote(name))} = %s" for name in replaced(table, names, key)]
    sets += [f"{safe(quote(name))} = DEFAULT" for name in sorted(absent) if name not in key]
    tests = " AND ".join(f"{safe(quote(name))} = %s" for name in key)
    return f"UPDATE {safe(table.quoted)} SET {', '.join(sets) or f'{safe(quote(key[0]))} = {safe(quote(key[0]))}'} WHERE {tests}"


def delete(table: MysqlTable, key: Sequence[str], count: int) -> str:
    names = ", ".join(safe(quote(name)) for name in key)
    marks = f"({', '.join(['%s'] * len(key))})"
    return f"DELETE FROM {safe(table.quoted)} WHERE ({names}) IN ({', '.join([marks] * count)})"

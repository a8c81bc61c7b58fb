"""Tables of the information schema of MariaDB and MySQL, and their types as JSON values.

The server's JSON of a copied value and ours of the same value in the binary log are equal, because ids are compared by it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from datetime import date, datetime, timedelta
from typing import Any, Literal

import msgspec
from pymysql import MySQLError

from headwater.adaptors.mysql.connection import MySQLSession, code_of, quote
from headwater.adaptors.sql.table import COMMITTED, EPOCH, OWNER, SqlTable
from headwater.core.errors import NotFound
from headwater.pipeline import values
from headwater.pipeline.namespaces import Namespaces

SYSTEM = ("information_schema", "mysql", "performance_schema", "sys")
Kind = Literal["int", "bits", "decimal", "float", "double", "text", "set", "moment", "date", "time", "bytes", "json", "uuid"]

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), "int"),
    "bit": "bits",
    "decimal": "decimal",
    "float": "float",
    "double": "double",
    "set": "set",
    "datetime": "moment",
    "timestamp": "moment",
    "date": "date",
    "time": "time",
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), "bytes"),
    **dict.fromkeys(("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"), "bytes"),
    "geometrycollection": "bytes",
    "json": "json",
    "uuid": "uuid",
}
_NUMBERED = frozenset({"enum", "set", "bit"})  # sorted by their number, not as their literals compare

_TABLES = """
SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.TABLE_ROWS, t.AVG_ROW_LENGTH, COALESCE(e.TRANSACTIONS, 'NO') = 'YES', t.CREATE_TIME
FROM information_schema.TABLES t LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE
WHERE t.TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND t.TABLE_NAME NOT IN (%s, %s, %s) AND t.TABLE_SCHEMA NOT IN %s
"""
_COLUMNS = """
SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, COLUMN_DEFAULT IS NOT NULL AND COLUMN_DEFAULT <> 'NULL', EXTRA,
       COALESCE(CHARACTER_OCTET_LENGTH, 0), COALESCE(DATETIME_PRECISION, 0), NUMERIC_SCALE, COALESCE(CHARACTER_MAXIMUM_LENGTH, 0)
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION
"""
_KEYS = """
SELECT INDEX_NAME, COLUMN_NAME, NULLABLE, SUB_PART FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX
"""
_EXISTING = """
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES
WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND TABLE_SCHEMA IN %s
"""
# MariaDB's JSON type is text with a check constraint, which is the only sign of it.
_CHECKS = "SELECT CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = %s AND TABLE_NAME = %s"


class MysqlColumn(msgspec.Struct, frozen=True):
    name: str
    kind: Kind
    data_type: str
    default: bool = False
    generated: bool = False
    automatic: bool = False  # auto_increment
    bytes: int = 0  # of a binary(n)
    precision: int = 0  # digits behind the second
    members: tuple[str, ...] = ()  # of an enum or a set, in their order
    declared: str = ""  # as in CREATE TABLE
    scale: int | None = None  # places of a number; None for a float without them
    letters: int = 0  # of a char(n) or varchar(n)

    @property
    def ordered(self) -> bool:
        """Whether it sorts as it compares with a literal, so that a range can begin at any value."""
        return self.data_type not in _NUMBERED and self.data_type != "float"

    @property
    def place(self) -> str:
        """An SQL expression that sorts as the column does, and compares so with a literal."""
        name = f"t.{quote(self.name)}"
        return f"{name} + 0" if self.data_type in _NUMBERED else name if self.ordered else f"{name} + 0e0"

    @property
    def mark(self) -> str:
        """An SQL expression for the literal of a key; empty where the document's value is the literal.

        A date may be 0000-00-00, which is null in a document, and no value is behind null.
        """
        return f"CAST({self.place} AS CHAR)" if self.kind in ("moment", "date") else "" if self.ordered else self.place


class MysqlTable(SqlTable[MysqlColumn], frozen=True, kw_only=True):
    others: bool = False  # whether there are unique indexes besides the key
    row_bytes: int = 0
    transactional: bool = True
    made: str = ""

    @property
    def quoted(self) -> str:
        return f"{quote(self.schema)}.{quote(self.name)}"

    @property
    def mark(self) -> str:
        return self.made

    @property
    def places(self) -> list[MysqlColumn]:
        """The key's columns."""
        return [column for name in self.key if (column := self.column(name)) is not None]

    @property
    def sliced(self) -> bool:
        """Whether a range of the key can begin at any value."""
        return bool(self.key) and all(column.ordered for column in self.places)


def identities(session: MySQLSession, *, writing: bool) -> list[str]:
    """The identities of the server: its name, port and folder, and when it was started, which copies of its files do not share.

    The server tells its start in whole seconds ago, so that two questions may differ by one: a writer has the seconds around it, too.
    """
    ((host, port, folder, number, now),) = session.ask("SELECT @@hostname, @@port, @@datadir, @@server_id, UNIX_TIMESTAMP()")
    started = int(now) - int(dict(session.ask("SHOW GLOBAL STATUS LIKE 'Uptime'"))["Uptime"])
    return [f"mysql {host}:{port}{folder} {number} {started + more}" for more in ((-1, 0, 1) if writing else (0,))]


def written_names(session: MySQLSession, tables: list[MysqlTable]) -> list[str]:
    """The names of the tables, and of the views that mention them."""
    names = {table.namespace for table in tables}
    views = session.ask(
        "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME), VIEW_DEFINITION FROM information_schema.VIEWS WHERE IS_UPDATABLE = 'YES'"
    )
    quoted = {f"{quote(table.schema)}.{quote(table.name)}": table.namespace for table in tables}
    while dependents := [(view, text) for view, text in views if view not in names and any(quoted_name in text for quoted_name in quoted)]:
        for view, _ in dependents:
            names.add(view)
            quoted[".".join(map(quote, view.split(".", 1)))] = view
    return sorted(names)


def tables(session: MySQLSession, chosen: Namespaces) -> list[MysqlTable]:
    """The chosen tables, of the session's database where the URI names one. Errors: `NotFound` when there is none."""
    rows = session.ask(_TABLES + " ORDER BY 1, 2", (COMMITTED, EPOCH, OWNER, SYSTEM))
    chosen_rows = [row for row in rows if session.database in ("", row[0]) and f"{row[0]}.{row[1]}" in chosen]
    if not chosen_rows:
        raise NotFound(f"No table matches the namespace {chosen}.", hint=r"A table's namespace is database.table: ^shop\.orders$.")
    return [_described(session, row) for row in chosen_rows]


def table(session: MySQLSession, schema: str, name: str) -> MysqlTable | None:
    """One table; None where it does not exist."""
    rows = session.ask(_TABLES + " AND t.TABLE_SCHEMA = %s AND t.TABLE_NAME = %s", ("", "", "", ("",), schema, name))
    return _described(session, rows[0]) if rows else None


def table_names(session: MySQLSession, schemas: Collection[str]) -> set[str]:
    """The namespaces of all tables in these databases that `table` would find."""
    return {f"{schema}.{name}" for schema, name in session.ask(_EXISTING, (tuple(schemas),))}


def _described(session: MySQLSession, row: tuple[Any, ...]) -> MysqlTable:
    schema, name, rows, row_bytes, transactional, created = row
    try:
        checks = [str(constraint[0]).lower().replace(" ", "") for constraint in session.ask(_CHECKS, (schema, name))]
    except MySQLError as error:
        if code_of(error) not in (1054, 1109):  # MySQL's view lacks the column, older servers the view; their JSON is a type of its own
            raise
        checks = []
    columns = []
    for _, _, column, data_type, declared, default, extra, size, precision, scale, longest in session.ask(_COLUMNS, (schema, name)):
        kind: Kind = _KINDS.get(data_type, "text")
        if kind == "text" and f"json_valid(`{column.lower()}`)" in checks:
            kind = "json"
        extra = str(extra).upper()
        generated = "GENERATED" in extra and "DEFAULT_GENERATED" not in extra
        automatic = "AUTO_INCREMENT" in extra
        length = int(size) if data_type == "binary" else 0
        columns.append(
            MysqlColumn(
                column,
                kind,
                data_type,
                bool(default) or automatic,
                generated,
                automatic,
                length,
                int(precision),
                _members(declared),
                str(declared),
                None if scale is None else int(scale),
                int(longest) if data_type in ("char", "varchar") else 0,
            )
        )
    indexes: dict[str, list[tuple[str, bool]]] = {}
    for index, column, nullable, part in session.ask(_KEYS, (schema, name)):
        indexes.setdefault(index, []).append((column, nullable == "YES" or part is not None))
    primary = tuple(column for column, _ in indexes.get("PRIMARY", []))
    unique_keys = [tuple(column for column, _ in own) for own in indexes.values() if not any(loose for _, loose in own)]
    return MysqlTable(
        schema=schema,
        name=name,
        columns=tuple(columns),
        key=primary,
        unique=tuple(unique_keys),
        others=len(indexes) > (1 if primary else 0),
        rows=int(rows or 0),
        row_bytes=int(row_bytes or 0),
        transactional=bool(transactional),
        made=str(created),
    )


_NEVER = datetime(1970, 1, 1)  # the binary log's form of 0000-00-00 00:00:00; the least timestamp is a second later


# -- values -----------------------------------------------------------------------------------------------------


def json_of(column: MysqlColumn) -> str:
    """An SQL expression: the column's value as JSON text, where it is not NULL."""
    name = f"t.{quote(column.name)}"
    match column.kind:
        case "int" | "bits":
            return f"CAST({name} + 0 AS CHAR)"  # a ZEROFILL column's own text begins with zeros, as no number of JSON does
        case "decimal":  # without a point it would read as an integer
            text = f"CAST({name} + 0 AS CHAR)"
            return f"""IF(LOCATE('.', {text}), {text}, CONCAT('{{"$numberDecimal":"', {text}, '"}}'))"""
        case "float" | "double":
            # The text of a float has six digits only, that of a double has all. A sum would lose the sign of -0.
            return f"""CONCAT('{{"$numberDouble":"', CAST({name} * 1e0 AS CHAR), '"}}')"""
        case "moment":
            text = f"DATE_FORMAT({name}, '%Y-%m-%dT%H:%i:%s.%f')"
            short = f"IF(RIGHT({text}, 3) = '000', LEFT({text}, 23), {text})"
            # 0000-00-00 and the like are no dates: null, as in the binary log.
            return f"""IF(MONTH({name}) = 0 OR DAYOFMONTH({name}) = 0, 'null', CONCAT('{{"$date":"', {short}, 'Z"}}'))"""
        case "date":
            text = f"DATE_FORMAT({name}, '%Y-%m-%dT00:00:00.000Z')"
            return f"""IF(MONTH({name}) = 0 OR DAYOFMONTH({name}) = 0, 'null', CONCAT('{{"$date":"', {text}, '"}}'))"""
        case "bytes":
            return f"""CONCAT('{{"$binary":{{"base64":"', REPLACE(TO_BASE64({name}), '\\n', ''), '","subType":"00"}}}}')"""
        case "uuid":
            return f"""CONCAT('{{"$uuid":"', CAST({name} AS CHAR), '"}}')"""
        case "json":
            return f"CONVERT({name} USING utf8mb4)"
        case "time":
            return f"JSON_QUOTE(CAST({name} AS CHAR))"
        case _:
            return f"JSON_QUOTE(CONVERT({name} USING utf8mb4))"


def document(table: MysqlTable) -> str:
    """An SQL expression: a row as a JSON object. NULL where it exceeds max_allowed_packet."""
    parts: list[str] = []
    for number, column in enumerate(table.columns):
        name = json.dumps(column.name, ensure_ascii=False).replace("\\", "\\\\").replace("'", "''")
        parts += [f"'{'{' if number == 0 else ','}{name}:'", f"IF(t.{quote(column.name)} IS NULL, 'null', {json_of(column)})"]
    return f"CONCAT({', '.join(parts)}, '}}')"


def converter(column: MysqlColumn) -> Callable[[Any], Any]:
    """The function from mysql-replication's value of a column to its JSON: the same that `json_of` gives."""
    match column.kind:
        case "bits":
            return lambda value: int(value, 2) if isinstance(value, str) else int(value)
        case "float" | "double" | "decimal":
            return lambda value: value
        case "set":
            return lambda value: ",".join(member for member in column.members if member in value) if isinstance(value, set) else value
        case "json":
            return _own_json if column.data_type == "json" else _json
        case "time":
            return lambda value: time_text(value, column.precision) if isinstance(value, timedelta) else value
        case "bytes":
            return lambda value: values.extended(_bytes(value).ljust(column.bytes, b"\0"))
        case "moment" if column.data_type == "timestamp":
            return lambda value: None if value == _NEVER else values.extended(value)
        case "moment" | "date":
            return lambda value: values.extended(value) if isinstance(value, datetime | date) else value
        case "int" if column.data_type == "year":
            return lambda value: 0 if value == 1900 else value  # mysql-replication adds 1900, which is no year of this type
        case "int" | "text":
            return lambda value: value.decode(errors="replace") if isinstance(value, bytes) else value
        case _:
            return values.extended


def _members(declared: str) -> tuple[str, ...]:
    """The members that a type such as set('a','it''s') or an enum declares."""
    if not declared.lower().startswith(("set(", "enum(")):
        return ()
    return tuple(member.replace("''", "'") for member in re.findall(r"'((?:[^']|'')*)'", declared))


def _own_json(value: Any) -> Any:
    """MySQL's own JSON type as mysql-replication returns it: names and text are bytes."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, dict):
        return {_own_json(name): _own_json(item) for name, item in value.items()}
    return [_own_json(item) for item in value] if isinstance(value, list) else values.from_text(values.extended(value))


def _json(value: Any) -> Any:
    """MariaDB's JSON, which is text."""
    return values.decode_any(value) if isinstance(value, str | bytes) else values.extended(value)


def _bytes(value: Any) -> bytes:
    return value.encode("latin-1", "replace") if isinstance(value, str) else bytes(value)


def time_text(value: timedelta, precision: int) -> str:
    sign = "-" if value < timedelta(0) else ""
    micros = abs(value) // timedelta(microseconds=1)
    seconds, rest = divmod(micros, 1_000_000)
    text = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{rest:06}"[: len(text) + 1 + precision] if precision else text

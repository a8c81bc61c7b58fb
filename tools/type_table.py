"""What becomes of values of every type: read by a source, stored in a pipeline's log, seen in a message, written by sinks.

Every cell is found by the adaptors themselves: a document is read from a real file or server, and each of its values is written by real
sinks, whose columns `tools.type_sinks` makes.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from headwater.adaptors.file.adaptor import File
from headwater.adaptors.sqlite.adaptor import sqlite
from headwater.pipeline import values
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import CanCopy

_raw = msgspec.json.Decoder(dict[str, msgspec.Raw])
Samples = Sequence[tuple[str, Any]]  # a type, and a value of it as its system writes it
Cells = dict[str, str]  # by field


class TypeRow(msgspec.Struct, frozen=True):
    """One value on its way: as it was given, as it is in the log, and in a message."""

    type: str
    given: str
    log: str
    message: str


# -- sources: a table each ----------------------------------------------------------------------------------------

CSV: Samples = [
    ("a number without a point", "7"),
    ("with a point", "1.25"),
    ("", "1.20"),
    ("", "12.00"),
    ("", "-0.0"),
    ("with an exponent", "1e3"),
    ("with leading zeros", "007"),
    ("nothing", ""),
    ("anything else", "N/A"),
    ("", "true"),
]
JSON: Samples = [
    ("number without a point", "7"),
    ("", "18446744073709551616"),
    ("with a point", "1.25"),
    ("", "1.20"),
    ("", "-0.0"),
    ("with an exponent", "1e3"),
    ("", "1E+400"),
    ("string", '"x"'),
    ("true, false, null", "true"),
    ("", "null"),
    ("array", "[1,1.50]"),
    ("object", '{"a":0.5}'),
]
EXTENDED: Samples = [
    ("extended JSON", '{"$numberDouble":"1.0"}'),
    ("", '{"$numberDecimal":"5"}'),
    ("", '{"$numberLong":"5"}'),
    ("", '{"$date":"2024-02-29T12:00:00Z"}'),
]
FLOATS: Samples = [("number without a point", "7"), ("with a point", "1.20"), ("with an exponent", "1e3")]
SQLITE: Samples = [
    ("integer", "9223372036854775807"),
    ("real", "1.0"),
    ("", "9e999"),
    ("numeric", "'1.20'"),
    ("text", "'1.20'"),
    ("blob", "x'00ff'"),
    ("null", "null"),
]
POSTGRES: Samples = [
    ("smallint", "7"),
    ("integer", "7"),
    ("bigint", "9223372036854775807"),
    ("numeric", "1.20"),
    ("", "5"),
    ("", "'NaN'"),
    ("numeric(12,2)", "5"),
    ("real", "0.1"),
    ("double precision", "1"),
    ("", "'-0'"),
    ("", "1e22"),
    ("", "'NaN'"),
    ("boolean", "true"),
    ("text", "'x'"),
    ("varchar(5)", "'x'"),
    ("char(5)", "'x'"),
    ("bytea", "'\\x00ff'"),
    ("date", "'2024-02-29'"),
    ("timestamp", "'2024-02-29 12:00:00.5'"),
    ("timestamptz", "'2024-02-29 12:00:00+02'"),
    ("time", "'12:30'"),
    ("interval", "'1 day 02:00'"),
    ("uuid", "'3b241101-e2bb-4255-8caf-4136c566a962'"),
    ("json", """'{"a": 1.20}'"""),
    ("jsonb", """'{"a": 1.20}'"""),
    ("integer[]", "'{1,NULL}'"),
    ("numeric[]", "'{1.20,5}'"),
    ("double precision[]", "'{1,NaN}'"),
    ("text[]", "'{a,NULL}'"),
    ("timestamptz[]", "'{2024-02-29 12:00:00+02}'"),
    ("bytea[]", """'{"\\\\x00ff"}'"""),
    ("inet", "'10.0.0.1'"),
    ("cidr", "'10.0.0.0/8'"),
    ("macaddr", "'08:00:2b:01:02:03'"),
    ("money", "'1.20'"),
    ("timetz", "'12:30+02'"),
    ("bit(3)", "B'101'"),
    ("bit varying(5)", "B'101'"),
    ("xml", "'<a/>'"),
    ("TYPES.mood", "'ok'"),
    ("TYPES.positive", "7"),
    ("TYPES.pair", "'(1,x)'"),
    ("int4range", "'[1,5)'"),
    ("tstzrange", "'[2024-02-29 12:00:00+00,)'"),
    ("point", "'(1,2)'"),
    ("tsvector", "'a b'"),
    ("jsonpath", "'$.a'"),
]
PG_TYPES = (  # an enumeration, a domain and a composite type
    "CREATE TYPE {schema}.mood AS ENUM ('sad', 'ok')",
    "CREATE DOMAIN {schema}.positive AS integer CHECK (VALUE > 0)",
    "CREATE TYPE {schema}.pair AS (a integer, b text)",
)
PG_NAMES = {"TYPES.mood": "enum", "TYPES.positive": "domain of integer", "TYPES.pair": "composite type"}
MARIADB: Samples = [
    ("tinyint", "7"),
    ("smallint", "7"),
    ("mediumint", "7"),
    ("int", "7"),
    ("int unsigned", "4294967295"),
    ("bigint", "9223372036854775807"),
    ("bigint unsigned", "18446744073709551615"),
    ("decimal(12,2)", "1.2"),
    ("decimal(10,0)", "5"),
    ("float", "0.1"),
    ("double", "1"),
    ("", "'-0'"),
    ("", "1e22"),
    ("boolean", "true"),
    ("bit(8)", "b'101'"),
    ("year", "2024"),
    ("char(5)", "'x'"),
    ("varchar(5)", "'x'"),
    ("text", "'x'"),
    ("longtext", "'x'"),
    ("enum('a','b')", "'b'"),
    ("set('a','b')", "'a,b'"),
    ("binary(3)", "x'01'"),
    ("varbinary(3)", "x'01'"),
    ("tinyblob", "x'00ff'"),
    ("blob", "x'00ff'"),
    ("longblob", "x'00ff'"),
    ("date", "'2024-02-29'"),
    ("datetime(6)", "'2024-02-29 12:00:00.5'"),
    ("timestamp", "'2024-02-29 12:00:00'"),
    ("time", "'12:30:00'"),
    ("json", """'{"a": 1.20}'"""),
    ("uuid", "'3b241101-e2bb-4255-8caf-4136c566a962'"),
    ("inet4", "'10.0.0.1'"),
    ("inet6", "'2001:db8::1'"),
]


def csv_rows(**options: Any) -> list[TypeRow]:
    """Cells of a CSV file; `options` of the source."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "in.csv"
        path.write_text(f"{','.join(_names(CSV))}\n{','.join(given for _, given in CSV)}\n")
        return _rows(File(uri=str(path), **options), CSV)


def json_rows(samples: Samples, **options: Any) -> list[TypeRow]:
    """Fields of a line of JSON; `options` of the source."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "in.jsonl"
        path.write_text("{" + ",".join(f'"{name}":{given}' for name, (_, given) in zip(_names(samples), samples, strict=True)) + "}\n")
        return _rows(File(uri=str(path), **options), samples)


def parquet_rows() -> list[TypeRow]:
    """Columns of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    moment = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    samples: list[tuple[pa.DataType, Any]] = [
        (pa.bool_(), True),
        (pa.int8(), 7),
        (pa.int64(), 7),
        (pa.uint64(), 18446744073709551615),
        (pa.float32(), 0.1),
        (pa.float64(), 1.0),
        (pa.float64(), -0.0),
        (pa.float64(), float("nan")),
        (pa.decimal128(12, 2), Decimal("1.20")),
        (pa.decimal128(10, 0), Decimal(5)),
        (pa.string(), "x"),
        (pa.binary(), b"\0\xff"),
        (pa.date32(), dt.date(2024, 2, 29)),
        (pa.timestamp("us", "UTC"), moment),
        (pa.timestamp("ns"), moment.replace(tzinfo=None)),
        (pa.time64("us"), dt.time(12, 30)),
        (pa.duration("us"), dt.timedelta(seconds=1)),
        (pa.list_(pa.float64()), [1.0, None]),
        (pa.struct([("a", pa.float64())]), {"a": 1.0}),
    ]
    named = [(str(kind), repr(value)) for kind, value in samples]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "in.parquet"
        columns = {name: pa.array([value], kind) for name, (kind, value) in zip(_names(named), samples, strict=True)}
        pq.write_table(pa.table(columns), path)
        return _rows(File(uri=str(path)), _once(named))


def sqlite_rows() -> list[TypeRow]:
    """Columns of a SQLite database."""
    import apsw

    with TemporaryDirectory() as folder:
        db = apsw.Connection(f"{folder}/in.db")
        db.execute(_create("sample", SQLITE, blank=""))
        db.execute(f"insert into sample values ({', '.join(given for _, given in SQLITE)})")
        db.close()
        return _rows(sqlite(f"{folder}/in.db"), SQLITE)


def postgres_rows(uri: str) -> list[TypeRow]:
    """Columns of a table of PostgreSQL."""
    import psycopg

    from headwater.adaptors.postgres.adaptor import postgres

    schema = f"types_{uuid.uuid4().hex[:10]}"
    with psycopg.connect(uri, autocommit=True) as link:
        link.execute(f"CREATE SCHEMA {schema}".encode())
        try:
            for made in PG_TYPES:
                link.execute(made.format(schema=schema).encode())
            link.execute(_create(f"{schema}.sample", POSTGRES).replace("TYPES.", f"{schema}.").encode())
            link.execute(f"INSERT INTO {schema}.sample VALUES ({', '.join(given for _, given in POSTGRES)})".encode())
            return _rows(postgres(uri), [(PG_NAMES.get(kind, kind), given) for kind, given in POSTGRES], rf"^{schema}\.sample$")
        finally:
            link.execute(f"DROP SCHEMA {schema} CASCADE".encode())


def mariadb_rows(uri: str) -> list[TypeRow]:
    """Columns of a table of MariaDB."""
    from headwater.adaptors.mysql.adaptor import mysql
    from headwater.adaptors.mysql.connection import MySQLSession, parsed

    table = f"types_{uuid.uuid4().hex[:10]}"
    with MySQLSession(parsed(uri)) as session:
        session.do(_create(table, MARIADB))
        try:
            session.do(f"INSERT INTO {table} VALUES ({', '.join(given for _, given in MARIADB)})")
            return _rows(mysql(uri), MARIADB, rf"\.{table}$")
        finally:
            session.do(f"DROP TABLE {table}")


def mongodb_rows(uri: str) -> list[TypeRow]:
    """Fields of a document of MongoDB."""
    from bson import Binary, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
    from pymongo import MongoClient

    from headwater.adaptors.mongodb.adaptor import mongodb

    samples: list[tuple[str, Any]] = [
        ("double", 1.0),
        ("double", -0.0),
        ("double", float("nan")),
        ("int", 7),
        ("long", Int64(7)),
        ("long", Int64(1 << 62)),
        ("decimal", Decimal128("1.20")),
        ("decimal", Decimal128("5")),
        ("decimal", Decimal128("NaN")),
        ("string", "x"),
        ("bool", True),
        ("null", None),
        ("date", dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)),
        ("objectId", ObjectId("507f1f77bcf86cd799439011")),
        ("binData", b"\0\xff"),
        ("binData, a UUID", Binary(bytes(range(16)), 4)),
        ("timestamp", Timestamp(1, 2)),
        ("regex", Regex("^a", "i")),
        ("minKey", MinKey()),
        ("maxKey", MaxKey()),
        ("array", [1.0, 7]),
        ("object", {"a": 1.0}),
    ]
    named = [(kind, repr(value)) for kind, value in samples]
    database = f"types_{uuid.uuid4().hex[:10]}"
    with MongoClient[dict[str, Any]](uri) as client:
        fields = {name: value for name, (_, value) in zip(_names(named), samples, strict=True)}
        try:
            client[database].sample.insert_one({"_id": 1} | fields)
            return _rows(mongodb(f"{uri}/{database}"), _once(named))
        finally:
            client.drop_database(database)


# -----------------------------------------------------------------------------------------------------------------


def _names(samples: Samples) -> list[str]:
    return [f"c{number}" for number in range(len(samples))]


def _once(samples: Samples) -> Samples:
    """The samples with a type's name at its first value only."""
    return [("" if at and samples[at - 1][0] == kind else kind, given) for at, (kind, given) in enumerate(samples)]


def _create(table: str, samples: Samples, blank: str = "") -> str:
    """A CREATE TABLE with a column for each sample; one without a type has that of the column before it."""
    columns, kind = [], blank
    for name, (own, _) in zip(_names(samples), samples, strict=True):
        kind = own or kind
        columns.append(f"{name} {'' if kind == 'null' else kind}")
    return f"CREATE TABLE {table} ({', '.join(columns)})"


def _rows(source: CanCopy, samples: Samples, chosen: str = ".*") -> list[TypeRow]:
    """The one document of a source, field by field."""
    plan = source.plan(Namespaces(chosen), 1)
    [text] = [text for part in plan.slices for piece in source.read(part, None) for text in piece.values]
    stored, message = _texts(text), values.decode(text)
    return [TypeRow(kind, given, stored[name], _shown(message[name])) for name, (kind, given) in zip(_names(samples), samples, strict=True)]


def _texts(document: bytes) -> Cells:
    return {name: bytes(raw).decode() for name, raw in _raw.decode(document).items()}


def _shown(value: Any) -> str:
    """A value of a message: a float, an int or a Decimal says by itself what it is."""
    return f"float('{value}')" if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))) else repr(value)

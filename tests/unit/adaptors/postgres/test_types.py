"""PostgreSQL without a server: options, types, and the format of its changes."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pytest

from headwater.adaptors.postgres.adaptor import postgres
from headwater.adaptors.postgres.pgoutput import UNCHANGED, Begin, Commit, Relation, RowChange, Truncate, decode, lsn, lsn_text
from headwater.adaptors.postgres.rows import PostgresShape
from headwater.adaptors.postgres.sql import delete, upsert
from headwater.adaptors.postgres.tables import PostgresColumn, PostgresTable
from headwater.adaptors.postgres.types import Type, converter, type_of
from headwater.core.errors import BadConfig, BadInput, Rejected
from headwater.pipeline.env import env
from headwater.pipeline.message import Message, Op


def test_options_that_do_not_exist_or_make_no_sense_are_refused() -> None:
    with pytest.raises(BadConfig, match="publication"):
        postgres("postgresql:///db", publicaton="x")  # type: ignore[call-arg]
    with pytest.raises(BadConfig, match="slot"):
        postgres("postgresql:///db", slot="Has-Capitals")
    with pytest.raises(BadConfig, match="URI"):
        postgres("")
    with pytest.raises(BadConfig, match="schema"):
        postgres("postgresql:///db", schema="")


def test_what_is_shown_is_the_name_and_not_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_URI", "postgresql://u:sesame@h/db")
    for one in (postgres("${PG_URI}"), postgres(env("PG_URI"))):
        assert str(one) == "postgres(${PG_URI})"
        assert "sesame" not in repr(one)


@pytest.mark.parametrize(
    ("name", "element", "text", "value"),
    [
        ("bool", None, "t", True),
        ("int8", None, "-9223372036854775808", -9223372036854775808),
        ("numeric", None, "1.10", Decimal("1.10")),
        ("numeric", None, "NaN", {"$numberDecimal": "NaN"}),
        ("numeric", None, "5", Decimal("5")),
        ("float8", None, "-Infinity", -math.inf),
        ("float8", None, "-0", -0.0),
        ("float8", None, "1", 1.0),
        ("float8", None, "1e+20", 1e20),
        ("bpchar", None, "ab   ", "ab"),
        ("timestamptz", None, "2020-01-01 01:00:00+02", {"$date": "2019-12-31T23:00:00.000Z"}),
        ("timestamp", None, "2020-01-01 01:00:00.000001", {"$date": "2020-01-01T01:00:00.000001Z"}),
        ("timestamptz", None, "infinity", "infinity"),
        ("date", None, "0044-03-15 BC", "0044-03-15 BC"),
        ("bytea", None, "\\x00ff", {"$binary": {"base64": "AP8=", "subType": "00"}}),
        ("jsonb", None, '{"a": 1.10}', {"a": Decimal("1.10")}),
        ("_int4", "int4", "{1,NULL,{2,3}}", [1, None, [2, 3]]),
        ("_int4", "int4", "[0:1]={7,8}", [7, 8]),
        ("_text", "text", '{"a\\"b\\\\",NULL,"NULL","",x y}', ['a"b\\', None, "NULL", "", "x y"]),
        ("_float8", "float8", "{Infinity,1.5,NULL}", [math.inf, 1.5, None]),
        ("_numeric", "numeric", "{{NaN,1.50},{5,NULL}}", [[{"$numberDecimal": "NaN"}, Decimal("1.50")], [Decimal("5"), None]]),
        ("_date", "date", "{2020-01-01}", ["2020-01-01"]),
        ("_bool", "bool", "{t,f}", [True, False]),
        ("inet", None, "10.0.0.1", "10.0.0.1"),
        ("_inet", "inet", "{10.0.0.1,NULL}", ["10.0.0.1", None]),
        ("hstore", None, '"a"=>"b"', '"a"=>"b"'),
    ],
)
def test_values_from_text(name: str, element: str | None, text: str, value: Any) -> None:
    found = converter(type_of(name, element))(text)
    assert repr(found) == repr(value)
    assert type(found) is type(value)


def test_an_array_that_does_not_end_where_it_should_is_an_error() -> None:
    with pytest.raises(BadInput):
        converter(Type("list", "int"))("{1}{2}")


def cells(*values: str | object | None) -> bytes:
    out = struct.pack(">H", len(values))
    for value in values:
        if value is None:
            out += b"n"
        elif isinstance(value, str):
            out += b"t" + struct.pack(">i", len(value.encode())) + value.encode()
        else:
            out += b"u"
    return out


def test_changes_are_decoded() -> None:
    assert decode(b"B" + struct.pack(">QqI", 16, 1_000_000, 7)) == Begin(16, 946_684_801_000)
    assert decode(b"C" + struct.pack(">BQQq", 0, 16, 32, 0)) == Commit(32, 946_684_800_000)
    columns = b"\x01id\0" + struct.pack(">Ii", 23, -1) + "\0größe\0".encode() + struct.pack(">Ii", 25, -1)
    assert decode(b"R" + struct.pack(">I", 9) + b"public\0t\0d" + struct.pack(">H", 2) + columns) == Relation(
        9, "public", "t", (("id", 23), ("größe", 25)), ("id",)
    )
    assert decode(b"I" + struct.pack(">I", 9) + b"N" + cells("1", None)) == RowChange(9, "insert", None, ("1", None))
    assert decode(b"U" + struct.pack(">I", 9) + b"N" + cells("1", object())) == RowChange(9, "update", None, ("1", UNCHANGED))
    assert decode(b"U" + struct.pack(">I", 9) + b"K" + cells("1", None) + b"N" + cells("2", "ä")) == RowChange(
        9, "update", ("1", None), ("2", "ä")
    )
    assert decode(b"U" + struct.pack(">I", 9) + b"O" + cells("1", "x") + b"N" + cells("1", "y")) == RowChange(
        9, "update", ("1", "x"), ("1", "y"), True
    )
    assert decode(b"D" + struct.pack(">I", 9) + b"K" + cells("1", None)) == RowChange(9, "delete", ("1", None), None)
    assert decode(b"T" + struct.pack(">IBII", 2, 0, 9, 10)) == Truncate((9, 10))
    assert decode(b"Y whatever") is None


@pytest.mark.parametrize("text", ["0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF"])
def test_places_in_the_wal_keep_their_spelling(text: str) -> None:
    assert lsn_text(lsn(text)) == text


def table(**more: Any) -> PostgresTable:
    columns = (
        PostgresColumn("id", Type("int"), "int"),
        PostgresColumn("v", Type("text"), "text"),
        PostgresColumn("n", Type("int"), "int", default=True),
    )
    return PostgresTable(oid=1, schema="s", name="t", columns=columns, **({"key": ("id",)} | more))


def test_the_columns_by_which_changes_are_known() -> None:
    assert table().ids == ("id",)
    assert table(identity="f").ids == ("id",)
    assert table(identity="n").ids == ()
    assert table(identity="i", replica=("v",)).ids == ("v",)
    assert table(key=()).ids == ()


def test_rows_of_messages() -> None:
    shape = PostgresShape(table())
    message = Message("t", {"id": 1, "v": {"$binary": "AP8="}}, offset=3, id_fields=("id",))
    assert shape.written(message) == (("id",), {"id": 1, "v": "\\x00ff"}, {"n"})
    assert shape.deleted(message) == (("id",), {"id": 1})
    with pytest.raises(Rejected, match="no column w") as refused:
        shape.written(Message("t", {"id": 1, "w": 1}, offset=5))
    assert refused.value.offset == 5
    with pytest.raises(Rejected, match="lacks a value for id"):
        shape.written(Message("t", {"v": "x"}, Op.UPDATE, offset=5))
    with pytest.raises(Rejected, match="delete"):
        shape.deleted(Message("t", {"v": "x"}, Op.DELETE, offset=5))
    bare = PostgresShape(table(key=()))
    assert bare.written(Message("t", {"v": "x", "n": 1}, offset=5)) == ((), {"v": "x", "n": 1}, set())


def test_statements_name_what_they_write() -> None:
    assert upsert(table(), ("id",), frozenset({"n"})) == (
        'INSERT INTO "s"."t" ("id", "v") SELECT "id", "v" FROM json_populate_recordset(NULL::"s"."t", %s::json) '
        'ON CONFLICT ("id") DO UPDATE SET "v" = EXCLUDED."v", "n" = DEFAULT'
    )
    assert upsert(table(), (), frozenset()).endswith("%s::json)")
    assert delete(table(), ("id",)).endswith('WHERE t."id" = d."id"')

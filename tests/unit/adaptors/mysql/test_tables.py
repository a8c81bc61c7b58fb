"""MySQL without a server: options, URIs, types, rows."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pymysql
import pytest

from headwater.adaptors.mysql.adaptor import mariadb, mysql
from headwater.adaptors.mysql.connection import MySQLAddress, MySQLSession, parsed
from headwater.adaptors.mysql.rows import MySQLShape
from headwater.adaptors.mysql.sql import create_table, on_conflict
from headwater.adaptors.mysql.tables import MysqlColumn, MysqlTable, converter
from headwater.core.errors import (
    BadConfig,
    Denied,
    DiskFull,
    Forbidden,
    HeadwaterError,
    OffsetGone,
    Rejected,
    Timeout,
    Unavailable,
    Unreachable,
)
from headwater.pipeline.columns import ColumnType
from headwater.pipeline.message import Message, Op


def test_options_that_do_not_exist_or_make_no_sense_are_refused() -> None:
    with pytest.raises(BadConfig, match="server_id"):
        mysql("mysql://h/db", serverid=5)  # type: ignore[call-arg]
    with pytest.raises(BadConfig, match="server_id"):
        mysql("mysql://h/db", server_id=2**32)
    with pytest.raises(BadConfig, match="URI"):
        mysql("")
    assert mariadb is mysql


def test_a_uri_in_its_parts() -> None:
    where = parsed("mysql://u%40x:p%2Fw@h:3307/db?ssl_ca=/ca.pem")
    assert where == MySQLAddress("h", 3307, "u@x", "p/w", "db", "/ca.pem")
    assert str(where) == repr(where) == "h:3307/db"
    assert parsed("mariadb://h").port == 3306


@pytest.mark.parametrize("uri", ["h/db", "postgresql://h/db", "mysql:///db", "mysql://h:x/db", "mysql://h/db?a=b", "mysql://h/db?a"])
def test_what_is_no_uri_is_refused_without_showing_it(uri: str) -> None:
    with pytest.raises(BadConfig) as refused:
        parsed(uri)
    assert uri not in str(refused.value)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (pymysql.err.OperationalError(1045, "denied"), Denied),
        (pymysql.err.OperationalError(1142, "no"), Forbidden),
        (pymysql.err.OperationalError(1114, "full"), DiskFull),
        (pymysql.err.OperationalError(1205, "waited"), Timeout),
        (pymysql.err.OperationalError(1213, "deadlock"), Unavailable),
        (pymysql.err.OperationalError(1236, "gone"), OffsetGone),
        (pymysql.err.OperationalError(2013, "lost"), Unreachable),
        (ConnectionResetError(104, "reset"), Unreachable),
        (pymysql.err.ProgrammingError(1064, "syntax"), Unavailable),
    ],
)
def test_what_an_error_means(error: Exception, kind: type[HeadwaterError]) -> None:
    assert type(MySQLSession.explained(error, MySQLAddress("h", 1, "u", "sesame", "db"))) is kind
    assert not MySQLSession.about_data(error)


@pytest.mark.parametrize("code", [1062, 1264, 1292, 1366, 1406, 1452, 1644, 3819, 4025])
def test_errors_about_values(code: int) -> None:
    assert MySQLSession.about_data(pymysql.err.OperationalError(code, "no"))


def column(kind: Any, **more: Any) -> MysqlColumn:
    return MysqlColumn("c", kind, more.pop("data_type", kind), **more)


@pytest.mark.parametrize(
    ("given", "value", "made"),
    [
        (column("bits"), "1010", 10),
        (column("decimal"), Decimal("1.10"), Decimal("1.10")),
        (column("decimal"), Decimal("5"), Decimal("5")),
        (column("double"), 100000.0, 100000.0),
        (column("double"), 0.1, 0.1),
        (column("set", members=("b", "a")), {"a", "b"}, "b,a"),
        (column("json", data_type="longtext"), '{"a": 1.10}', {"a": Decimal("1.10")}),  # MariaDB's
        (column("json"), {b"a": [b"5", 1, None, {b"\xc3\xa9": Decimal("1.10")}]}, {"a": ["5", 1, None, {"é": Decimal("1.10")}]}),  # MySQL's
        (column("json"), {b"a": 1.5}, {"a": Decimal("1.5")}),  # as the copy reads it, which is text
        (column("json"), b"5", "5"),
        (column("int", data_type="year"), 1900, 0),
        (column("moment", data_type="timestamp"), datetime(1970, 1, 1), None),
        (column("time", precision=3), timedelta(hours=30, milliseconds=5), "30:00:00.005"),
        (column("time"), -timedelta(minutes=1), "-00:01:00"),
        (column("bytes", bytes=3), b"\1", {"$binary": {"base64": "AQAA", "subType": "00"}}),
        (column("moment"), datetime(2020, 1, 1, 2), {"$date": "2020-01-01T02:00:00.000Z"}),
        (column("date"), date(2020, 1, 1), {"$date": "2020-01-01T00:00:00.000Z"}),
        (column("text"), "x", "x"),
    ],
)
def test_values_from_the_binary_log(given: MysqlColumn, value: Any, made: Any) -> None:
    found = converter(given)(value)
    assert found == made
    assert type(found) is type(made)


def table(**more: Any) -> MysqlTable:
    columns = (
        MysqlColumn("id", "int", "int"),
        MysqlColumn("v", "text", "text"),
        MysqlColumn("j", "json", "json"),
        MysqlColumn("n", "int", "int", default=True),
    )
    return MysqlTable(schema="s", name="t", columns=columns, **({"key": ("id",), "unique": (("id",),)} | more))


def test_rows_of_messages() -> None:
    shape = MySQLShape(table())
    message = Message("t", {"id": 1, "v": {"$uuid": "00000000-0000-0000-0000-000000000001"}, "j": [1]}, offset=3, id_fields=("id",))
    assert shape.written(message) == (("id",), {"id": 1, "v": "00000000-0000-0000-0000-000000000001", "j": "[1]"}, {"n"})
    assert shape.names(frozenset({"n"})) == ("id", "v", "j")
    assert shape.deleted(message) == (("id",), {"id": 1})
    with pytest.raises(Rejected, match="no column w") as refused:
        shape.written(Message("t", {"id": 1, "w": 1}, offset=5))
    assert refused.value.offset == 5
    with pytest.raises(Rejected, match="cannot hold"):
        shape.written(Message("t", {"id": 1, "v": {"$numberDouble": "NaN"}}, offset=5))
    with pytest.raises(Rejected, match="lacks a value for id"):
        shape.written(Message("t", {"v": "x"}, Op.UPDATE, offset=5))
    with pytest.raises(Rejected, match="delete"):
        shape.deleted(Message("t", {}, Op.DELETE, offset=5))


def test_a_key_that_does_not_sort_as_it_compares_is_not_sliced() -> None:
    assert table().sliced
    assert not table(key=()).sliced
    assert not MysqlTable(schema="s", name="t", columns=(MysqlColumn("e", "text", "enum"),), key=("e",)).sliced


def test_statements_name_what_they_write() -> None:
    assert on_conflict(table(), ("id", "v"), ("id",), frozenset({"n"})) == " ON DUPLICATE KEY UPDATE `v` = VALUES(`v`), `n` = DEFAULT"
    assert on_conflict(table(), ("id",), ("id",), frozenset()) == " ON DUPLICATE KEY UPDATE `id` = `id`"
    assert create_table("s", "t", {"id": ColumnType("text"), "v": ColumnType("text")}, ("id",), "exact_bin") == (
        "CREATE TABLE IF NOT EXISTS `s`.`t` (`id` varchar(255) COLLATE exact_bin, `v` longtext, PRIMARY KEY (`id`)) "
        "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
    )

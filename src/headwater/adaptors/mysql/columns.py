"""Column types of MariaDB and MySQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from headwater.adaptors.sql.column_types import SqlColumns
from headwater.pipeline.columns import ColumnKind, ColumnType

# Types that an index can hold, in place of those that are as long as a document may be.
IN_A_KEY: dict[ColumnKind, str] = {
    "text": "varchar(255)",
    "oid": "varchar(255)",
    "bytes": "varbinary(255)",
    "object": "varchar(255)",
    "list": "varchar(255)",
}


class MySQLColumns(SqlColumns):
    """DECIMAL(65,30) is the longest there is. The server would round what has more places, so that is refused."""

    declared: ClassVar[Mapping[ColumnKind, str]] = {
        "bool": "boolean",
        "int": "bigint",
        "decimal": "decimal(65,30)",
        "float": "double",
        "text": "longtext",
        "oid": "longtext",
        "moment": "datetime(6)",
        "bytes": "longblob",
        "uuid": "char(36)",
        "object": "json",
        "list": "json",
        "any": "json",
    }
    described: ClassVar[Mapping[ColumnKind, str]] = {
        "bool": "int",
        "float": "double",
        "oid": "text",
        "uuid": "text",
        "object": "json",
        "list": "json",
        "any": "json",
    }
    floating: ClassVar[ColumnType] = ColumnType("float")
    decimals: ClassVar[ColumnType] = ColumnType("decimal", whole=35, scale=30, exact=True)


RULES = MySQLColumns()

"""Column types of PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from headwater.adaptors.sql.column_types import SqlColumns
from headwater.pipeline.columns import ColumnKind, ColumnType


class PostgresColumns(SqlColumns):
    declared: ClassVar[Mapping[ColumnKind, str]] = {
        "bool": "boolean",
        "int": "bigint",
        "decimal": "numeric",
        "float": "double precision",
        "text": "text",
        "oid": "text",
        "moment": "timestamptz",
        "bytes": "bytea",
        "uuid": "uuid",
        "object": "jsonb",
        "list": "jsonb",
        "any": "jsonb",
    }
    described: ClassVar[Mapping[ColumnKind, str]] = {"oid": "text", "object": "json", "list": "json", "any": "json"}
    floating: ClassVar[ColumnType] = ColumnType("float", nan=True, infinite=True)
    decimals: ClassVar[ColumnType] = ColumnType("decimal", whole=131_072, scale=16_383, exact=True, nan=True, infinite=True)


RULES = PostgresColumns()

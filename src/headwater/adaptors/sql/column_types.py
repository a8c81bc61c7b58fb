"""Column types of database servers: what is the same for all of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from headwater.pipeline.columns import ColumnKind, ColumnRules, ColumnType

_NESTED = frozenset({"null", "object", "list", "any"})  # in columns of JSON, which hold anything


class SqlColumns(ColumnRules):
    """What the tables of a database server can hold."""

    declared: ClassVar[Mapping[ColumnKind, str]]  # the type of each in CREATE TABLE
    described: ClassVar[Mapping[ColumnKind, str]]  # the kind that the table's description has for it, where that has another name
    floating: ClassVar[ColumnType]
    decimals: ClassVar[ColumnType]

    def settled(self, wanted: ColumnType) -> ColumnType | None:
        match wanted.kind:
            case "int":
                return ColumnType("int", whole=19)
            case "float":
                return self.floating
            case "decimal":
                most = self.decimals
                fits = wanted.whole <= most.whole and wanted.scale <= most.scale and wanted.nan <= most.nan
                return most if fits and wanted.infinite <= most.infinite else None
            case "null" | "object":
                return ColumnType("object")
            case "list":
                return ColumnType("list")
            case "any":
                return ColumnType("any", exact=True)
        return wanted

    def widens(self, before: ColumnType, after: ColumnType) -> bool:
        if before == after or (before.kind in _NESTED and after.kind in _NESTED):
            return True
        return before.kind == "int" and after.kind == "decimal"

    def named(self, column: ColumnType) -> str:
        return self.declared[column.kind]

    def described_as(self, column: ColumnType) -> str:
        """The kind of the column in the table's description."""
        return self.described.get(column.kind, column.kind)

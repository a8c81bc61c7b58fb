"""Columns of a folder of CSV parts: their names and order are decided, so that all parts have one header. Pure.

Readers that take the header of the first part for all of them would put values into other columns. A new column comes last.
"""

from __future__ import annotations

from typing import ClassVar

from headwater.pipeline.columns import ColumnRules, ColumnType


class CsvColumns(ColumnRules):
    """Cells of CSV are text: a column holds every value."""

    keyed: ClassVar[bool] = False

    def settled(self, wanted: ColumnType) -> ColumnType | None:
        return ColumnType("any", exact=True)

    def widens(self, before: ColumnType, after: ColumnType) -> bool:
        return True

    def named(self, column: ColumnType) -> str:
        return "CSV"


RULES = CsvColumns()

"""The columns that a sink makes in a database: which a batch needs, and which its table lacks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from headwater.adaptors.sql.column_types import SqlColumns
from headwater.adaptors.sql.table import SqlTable
from headwater.pipeline.column_check import ColumnCheck
from headwater.pipeline.columns import ColumnType
from headwater.pipeline.message import Message, Op
from headwater.pipeline.sink_adaptor import Part


class LackingColumns(NamedTuple):
    """Columns to make, and columns to change to a wider type."""

    missing: dict[str, ColumnType]
    narrow: dict[str, ColumnType]
    key: tuple[str, ...]


class MadeColumns:
    """The decided columns of a part's tables. Where a table has a column of another type, the table counts."""

    def __init__(self, part: Part, rules: SqlColumns) -> None:
        self._check, self._rules = ColumnCheck(part.columns, rules), rules

    def lacking(self, place: str, table: SqlTable[Any] | None, messages: Sequence[Message]) -> LackingColumns | None:
        """What a table lacks for the messages; None where it has everything. Only their own fields count: one with a name that the server
        refuses must not hinder the others.

        Errors: `NeedsColumns`; `Rejected` for a value that its column does not hold; `Unavailable` for a table that is gone.
        """
        if table is None:
            self._check.refuse_gone(place)
        own = [message for message in messages if message.op != Op.COMMAND]
        names = dict.fromkeys(name for message in own for name in (message.data if message.op != Op.DELETE else message.id_fields))
        kinds = {} if table is None else {column.name: column.kind for column in table.columns}
        columns = self._check.table(place).columns
        existing = {name for name, kind in kinds.items() if name not in columns or not self._ours(columns[name], kind)}
        cells = {name: [message.data.get(name) for message in own] for name in names}
        decided = self._check.checked(place, own, cells, given=existing)
        wanted = {name: decided.columns[name] for name in names if name in decided.columns and name not in existing}
        if table is None:  # with its key, also where no message of the batch has an id
            wanted = {name: decided.columns[name] for name in decided.key if name in decided.columns} | wanted
        missing = {name: kind for name, kind in wanted.items() if name not in kinds}
        narrow = {name: kind for name, kind in wanted.items() if kinds.get(name) == "int" and kind.kind == "decimal"}
        key = decided.key if set(decided.key) <= missing.keys() else ()
        return LackingColumns(missing, narrow, key) if missing or narrow else None

    def _ours(self, column: ColumnType, kind: str) -> bool:
        """Whether a column of the table is as it was decided, or as it was before it was made wider."""
        return kind == self._rules.described_as(column) or (kind == "int" and column.kind == "decimal")

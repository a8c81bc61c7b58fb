"""Checks batches against the decided columns before anything of them is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from headwater.core.errors import Rejected, Unavailable
from headwater.pipeline.columns import (
    ColumnRules,
    ColumnType,
    NeedsColumns,
    TableColumns,
    Tables,
    clash,
    fits,
    holds_type,
    misfit,
    observed,
    type_of,
)
from headwater.pipeline.message import Message

HINT = "Correct it with `headwater pipeline edit`, change the field with python(...), or leave it out with omit(...)."


class ColumnCheck:
    """The columns of one part's tables.

    With decided columns, a batch that needs others raises `NeedsColumns`. A writer without a decision, as an operator's replay to a sink
    that has never run has it, decides by its own batches.
    """

    def __init__(self, decided: Tables | None, rules: ColumnRules) -> None:
        self._decided, self.rules = decided is not None, rules
        self._tables: Tables = dict(decided or {})

    def table(self, name: str) -> TableColumns:
        return self._tables.get(name, TableColumns())

    def refuse_gone(self, table: str) -> None:
        """Call it where a table is not there. Errors: `Unavailable` where it was: made anew, it would lack what it held."""
        if self.table(table).made:
            raise Unavailable(f"The table {table} is gone.", hint="Put it back; or let `headwater pipeline run` say what to type.")

    def checked(
        self, table: str, messages: Sequence[Message], cells: Mapping[str, Sequence[Any]], *, given: Collection[str] = ()
    ) -> TableColumns:
        """The table's columns, which hold all of the batch. `cells`: by field, the values of all messages. `given`: columns that the table
        had before: their types are its maker's.

        Errors: `NeedsColumns`; `Rejected` for the first message with a value that does not fit, of which `untouched` is true.
        """
        known = self.table(table)
        key = known.key if table in self._tables else self._key_of(messages)
        odd = [
            name for name, column in cells.items() if name not in given and not _fitting(known.columns.get(name), column, key=name in key)
        ]
        if not odd:
            return known
        needs, at, refused = self._needs(known, messages, odd, key)
        if needs:
            if self._decided:
                raise NeedsColumns(table, needs, at, key)
            self._tables[table] = TableColumns(columns={**known.columns, **needs}, key=key)
        if refused is not None:
            message, name, column = refused
            raise Rejected(self._said(table, name, column, message.data[name]), offset=message.offset, hint=HINT, untouched=True)
        return self.table(table)

    def _needs(
        self, known: TableColumns, messages: Sequence[Message], odd: Sequence[str], key: tuple[str, ...]
    ) -> tuple[dict[str, ColumnType], dict[str, int], tuple[Message, str, ColumnType | str | None] | None]:
        """The types that the messages before the first refused one need, the first message that needs each; and the refused one, with the
        field and the type of its column, or the name of the column that it cannot have a column beside."""
        new = [name for name in odd if name not in known.columns and self.rules.twin(name, known.columns) is None]
        sample = ({name: message.data[name] for name in new if name in message.data} for message in messages)
        types = {**known.columns, **observed(sample, self.rules, key)}
        needs: dict[str, ColumnType] = {}
        first: dict[str, int] = {}
        for message in messages:
            for name in odd:
                kind = type_of(message.data.get(name))
                if kind is None:
                    continue
                before = column = types.get(name)
                if before is None and (twin := self.rules.twin(name, types)) is not None:
                    return needs, first, (message, name, twin)
                if before is not None and not holds_type(before, kind, key=name in key):
                    column = self.rules.widened(before, kind, key=name in key)
                if column is None:
                    return needs, first, (message, name, before)
                types[name] = column
                if column != known.columns.get(name):
                    needs[name] = column
                    first.setdefault(name, message.offset)
        return needs, first, None

    def _said(self, table: str, name: str, column: ColumnType | str | None, value: Any) -> str:
        """The sentence that refuses a value: of the type of its column, of none, or because of the column of another name."""
        if isinstance(column, str):
            return clash(table, name, column)
        if column is None:
            return misfit(table, name, None, value)
        named, kind = self.rules.named(column), type_of(value)
        own = None if kind is None else self.rules.settled(kind)
        if own is not None and self.rules.named(own) == named and str(column) != str(kind):
            named = f"{named} ({column})"  # a column of that name could hold the value; this one holds UUIDs, say, as text
        return misfit(table, name, named, value)

    def _key_of(self, messages: Sequence[Message]) -> tuple[str, ...]:
        """The fields that identify documents; none where no document has an id."""
        if not self.rules.keyed:
            return ()
        return next((message.id_fields for message in messages if message.id is not None), ())


def _fitting(column: ColumnType | None, cells: Sequence[Any], *, key: bool) -> bool:
    """Whether the cells need nothing new. A field that is always null needs no column: its type is decided by its first value."""
    if column is None:
        return all(cell is None for cell in cells)
    return fits(column, cells, key=key)

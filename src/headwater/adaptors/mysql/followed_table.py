"""A table of the binary log: its rows as messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headwater.adaptors.mysql.tables import MysqlTable, converter
from headwater.core.errors import OffsetGone
from headwater.pipeline import values
from headwater.pipeline.message import Message, Mode, Op


class FollowedTable:
    """A table of the binary log, with converters for its columns."""

    def __init__(self, namespace: str, names: tuple[str, ...], now: MysqlTable | None, odd: Mapping[str, Callable[[Any], Any]]) -> None:
        """`odd`: by column, the decoder of text that is not in a plain character set."""
        self._namespace, self._odd = namespace, odd
        known = {column.name: column for column in now.columns} if now is not None else {}
        self._members = {column.name: column.members for column in known.values() if column.members}
        self._convert = {name: converter(known[name]) if name in known else values.extended for name in names}
        self._ids = now.key if now is not None and set(now.key) <= set(names) else ()

    def name_members(self, columns: Iterable[Any]) -> None:
        """Set the names of the members of enums and sets from the table: mysql-replication drops letters that are not in UTF-8."""
        for column in columns:
            members = self._members.get(column.name, ())
            if column.enum_values and len(column.enum_values) == len(members) + 1:
                column.enum_values = ["", *members]
            elif column.set_values and len(column.set_values) == len(members):
                column.set_values = list(members)

    def messages(self, kind: str, row: dict[str, Any], at: int) -> list[Message]:
        def message(op: Op, data: dict[str, Any]) -> Message:
            return Message(self._namespace, data, op, at, Mode.SYNC, id_fields=self._ids or ("_id",))

        if kind == "WriteRowsEvent":
            return [message(Op.INSERT, self._document(row))]
        if kind == "DeleteRowsEvent":
            return [message(Op.DELETE, self._document(row, only=self._ids))]
        before = self._document(row, "before_", only=self._ids) if self._ids else {}
        data = self._document(row, "after_")
        if any(before[name] != data.get(name) for name in self._ids):  # a changed key is a new document
            return [message(Op.DELETE, before), message(Op.INSERT, data)]
        return [message(Op.UPDATE, data)]

    def _document(self, row: dict[str, Any], which: str = "", *, only: Sequence[str] = ()) -> dict[str, Any]:
        """The row before or after the change, with all columns or only some. Errors: `OffsetGone` where the log lacks a column."""
        told = row[f"{which}values"]
        made = {name: self._made(name, value) for name, value in told.items() if not only or name in only}
        for name, why in row.get(f"{which}none_sources", {}).items():
            if name not in made:
                continue
            if why == "empty set":  # mysql-replication returns null for it
                made[name] = ""
            elif why == "cols bitmap":
                raise OffsetGone(
                    f"A session has logged only some columns of a row of {self._namespace}, so the others are missing.",
                    hint="Let every session log whole rows (binlog_row_image), then begin the copy anew.",
                )
        return made

    def _made(self, name: str, value: Any) -> Any:
        if value is None:
            return None
        return self._convert[name](self._odd[name](value) if name in self._odd else value)

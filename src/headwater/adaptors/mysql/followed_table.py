"""A table of the binary log: its rows as messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from headwater.adaptors.mysql.charsets import mangled, readable
from headwater.adaptors.mysql.tables import MysqlTable, converter, time_text
from headwater.core.errors import OffsetGone
from headwater.pipeline import values
from headwater.pipeline.message import Message, Mode, Op

_BIT = 16  # the number of a column's type


class FollowedTable:
    """A table of the binary log, with converters for its columns."""

    def __init__(self, namespace: str, columns: Sequence[Any], now: MysqlTable | None, odd: Mapping[str, Callable[[Any], Any]]) -> None:
        """`columns`: those of the log. `now`: the table as it is by now. `odd`: by column, the decoder of text that is not in a plain
        character set."""
        self._namespace, self._odd = namespace, odd
        names = [column.name for column in columns]
        by_name = {column.name: column for column in now.columns} if now is not None else {}
        self._members = {column.name: column.members for column in by_name.values() if column.members}
        self._convert = {
            column.name: converter(by_name[column.name]) if column.name in by_name else _by_the_log(column) for column in columns
        }
        self._sets: dict[str, list[str]] = {}  # by column, the members of a set in their order
        self._ids = now.key if now is not None and set(now.key) <= set(names) else ()

    def name_members(self, columns: Iterable[Any]) -> None:
        """Set the names of the members of enums and sets where mysql-replication has dropped letters that are not in UTF-8."""
        for column in columns:
            if column.enum_values:
                column.enum_values = ["", *self._named(column, column.enum_values[1:])]
            elif column.set_values:
                column.set_values = self._sets[column.name] = self._named(column, column.set_values)

    def _named(self, column: Any, logged: Sequence[str]) -> list[str]:
        """The members as they were when the row was logged. The table's own names are right where they are still the same.

        Errors: `OffsetGone` where they are not, and the log's cannot be read.
        """
        members, charset = self._members.get(column.name, ()), column.character_set_name
        if logged == list(members) or logged == mangled(members, charset):
            return list(members)
        if readable(logged, charset):
            return list(logged)
        raise OffsetGone(
            f"The members of {column.name} of {self._namespace} are others by now, and the log's, in {charset}, cannot be read.",
            hint="Begin the copy anew.",
        )

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

    def _document(self, row: dict[str, Any], prefix: str = "", *, only: Sequence[str] = ()) -> dict[str, Any]:
        """The row before or after the change, with all columns or only some. Errors: `OffsetGone` where the log lacks a column."""
        cells = row[f"{prefix}values"]
        document = {name: self._made(name, value) for name, value in cells.items() if not only or name in only}
        for name, why in row.get(f"{prefix}none_sources", {}).items():
            if name not in document:
                continue
            if why == "empty set":  # mysql-replication returns null for it
                document[name] = ""
            elif why == "cols bitmap":
                raise OffsetGone(
                    f"A session has logged only some columns of a row of {self._namespace}, so the others are missing.",
                    hint="Let every session log whole rows (binlog_row_image), then begin the copy anew.",
                )
        return document

    def _made(self, name: str, value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, set):
            return ",".join(member for member in self._sets[name] if member in value)
        return self._convert[name](self._odd[name](value) if name in self._odd else value)


def _by_the_log(column: Any) -> Callable[[Any], Any]:
    """The converter of a column that the table does not have by now: by what the log says of it."""

    def convert(value: Any) -> Any:
        if isinstance(value, timedelta):
            return time_text(value, getattr(column, "fsp", 0))
        if column.type == _BIT:
            return int(value, 2) if isinstance(value, str) else int(value)
        return values.extended(value)

    return convert

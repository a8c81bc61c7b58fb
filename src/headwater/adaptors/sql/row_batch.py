"""Consecutive messages of one table and one kind of change, which a few statements can write. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Literal, TypeVar

from headwater.adaptors.sql.row_shape import Row, RowShape
from headwater.core.errors import Rejected
from headwater.pipeline.id_hash import alike
from headwater.pipeline.message import Message, Op

Kind = Literal["upsert", "delete", "truncate"]
AnyShape = TypeVar("AnyShape", bound=RowShape[Any])


class RowBatch(Generic[AnyShape]):
    """Rows of one table. `key`: the columns that identify a row; without a key rows are inserted. `absent` columns get their default."""

    def __init__(self, shape: AnyShape, op: Kind, key: tuple[str, ...], absent: frozenset[str]) -> None:
        self.shape, self.op, self.key, self.absent = shape, op, key, absent
        self.rows: list[Row] = []
        self._ids: set[tuple[Any, ...]] = set()

    def takes(self, shape: AnyShape, op: Kind, key: tuple[str, ...], row: Row, absent: frozenset[str], *, once: bool) -> bool:
        """Add a row. Returns False where it does not belong to the batch."""
        if self.shape is not shape or (self.op, self.key, self.absent) != (op, key, absent):
            return False
        if once and key:
            own = tuple([alike(row[name]) for name in key])
            if own in self._ids:
                return False
            self._ids.add(own)
        self.rows.append(row)
        return True


def row_batches(messages: Sequence[Message], shape_of: Callable[[str], AnyShape], *, once: bool) -> Iterator[RowBatch[AnyShape]]:
    """Cut messages into batches. `once`: no batch has the same id twice, nor two that a table may call equal. Errors: `Rejected`."""
    batch: RowBatch[AnyShape] | None = None
    for message in messages:
        shape = shape_of(message.namespace)
        op: Kind = "upsert"
        key: tuple[str, ...] = ()
        row: Row = {}
        absent: frozenset[str] = frozenset()
        if message.op == Op.DELETE:
            op = "delete"
            key, row = shape.deleted(message)
        elif message.op != Op.COMMAND:
            key, row, absent = shape.written(message)
        elif message.data.get("command") == "truncate":
            op = "truncate"
        else:
            raise Rejected(
                f"The command {message.data} is not known here.",
                offset=message.offset,
                hint="Acknowledge it with `headwater pipeline ack`.",
            )
        if batch is None or not batch.takes(shape, op, key, row, absent, once=once):
            if batch is not None:
                yield batch
            batch = RowBatch(shape, op, key, absent)
            batch.takes(shape, op, key, row, absent, once=once)
    if batch is not None:
        yield batch

"""Writing temporary files of Parquet."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from headwater.adaptors.file.line_writer import Temporary, documents
from headwater.core.errors import Rejected
from headwater.core.files import explained
from headwater.pipeline import values
from headwater.pipeline.adaptor import Batch
from headwater.pipeline.message import Op
from headwater.pipeline.shapes import DocumentShape, shape_of

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_ROWS = 65_536
_AT_ONCE = 1500  # documents: as objects, these fit into a processor's cache
_DIGITS = 38  # of a decimal128
_NESTED = frozenset({dict, list})
_NO_COLUMN = (ValueError, TypeError, NotImplementedError, OverflowError)  # Arrow's own errors are kinds of the first three


class _Gathered(NamedTuple):
    """A batch that waits to be written with others, as columns and as rows."""

    columns: dict[str, pa.Array]  # empty: its rows do not fit into one table
    length: int
    rows: list[dict[str, Any]] | Sequence[bytes]


class ParquetPartWriter(Temporary):
    """Writes Parquet. A table whose types do not fit the schema begins a further file of the same part."""

    takes_text: ClassVar[bool] = True

    def __init__(self, path: Path, *, compression: str) -> None:
        super().__init__(path)
        self._compression = compression
        self._gathered: list[_Gathered] = []
        self._count = 0
        self._shape: DocumentShape | None = None
        self._open: pq.ParquetWriter | None = None
        self._schema: pa.Schema | None = None
        self._files: list[Path] = []

    def write(self, batch: Batch) -> None:
        rows = documents(batch.messages)
        columns = _columns(rows)
        if columns is None:
            written = [message for message in batch.messages if message.op != Op.COMMAND]
            for message, row in zip(written, rows, strict=True):
                if _columns([row]) is None:  # found now: a later error could not name the message
                    raise Rejected(
                        _wrong(row), offset=message.offset, hint="Change the field with python(...), or leave it out with omit(...)."
                    )
        self._shape = shape_of(rows, self._shape.names if self._shape is not None else ())
        self._gather(batch, _Gathered(columns or {}, len(rows), rows))

    def write_text(self, batch: Batch) -> bool:
        """Write documents whose fields are known. The first ones must come as messages, and so must those that fit into no table."""
        some: list[_Gathered] = []
        for at in range(0, len(batch.values), _AT_ONCE):
            texts = batch.values[at : at + _AT_ONCE]
            cells = self._shape.columns(texts) if self._shape is not None else None
            columns = _made(cells) if cells is not None else None
            if columns is None:
                return False
            some.append(_Gathered(columns, len(texts), texts))
        self._gather(batch, *some)
        return True

    def _gather(self, batch: Batch, *some: _Gathered) -> None:
        for one in some:
            if one.length:
                self._gathered.append(one)
                self._count += one.length
        if self._count >= _ROWS:
            self._flush()
        self._end = batch.end

    def _flush(self) -> None:
        """Write the gathered batches: concatenated where all have the same columns, else from their rows."""
        gathered, self._gathered, self._count = self._gathered, [], 0
        kinds = [{name: column.type for name, column in one.columns.items()} for one in gathered]
        if kinds and kinds[0] and all(kind == kinds[0] for kind in kinds):
            columns = {name: pa.concat_arrays([one.columns[name] for one in gathered]) for name in kinds[0]}
            self._put(columns, sum(one.length for one in gathered), ())
        else:
            self._flush_rows([values.decode(row) if isinstance(row, bytes) else row for one in gathered for row in one.rows])

    def _flush_rows(self, rows: list[dict[str, Any]]) -> None:
        """Write rows as a table, or as several in order where they do not fit into one."""
        if not rows:
            return
        columns = _columns(rows)
        if columns is None:
            half = len(rows) // 2
            self._flush_rows(rows[:half])
            self._flush_rows(rows[half:])
            return
        self._put(columns, len(rows), dict.fromkeys(name for row in rows for name in row) if not columns else ())

    def _put(self, columns: dict[str, pa.Array], count: int, names: Iterable[str]) -> None:
        """Write columns; without columns, rows of nulls in the fields of these names."""
        import pyarrow.parquet as pq

        if self._schema is not None and _fits(columns, self._schema):
            arrays = [columns[one.name].cast(one.type) if one.name in columns else pa.nulls(count, one.type) for one in self._schema]
            table = pa.Table.from_arrays(arrays, schema=self._schema)
        else:
            if not columns:  # a table without columns has no rows; every reader of Parquet knows strings
                columns = {name: pa.nulls(count, pa.string()) for name in tuple(names) or ("_id",)}
            table = pa.table(columns)
        try:
            if self._open is None or table.schema != self._schema:
                self._end_file()
                path = self._path.with_name(f"{self._path.name}.{len(self._files)}")
                self._open, self._schema = pq.ParquetWriter(path, table.schema, compression=self._compression), table.schema
                self._files.append(path)
            self._open.write_table(table)
        except OSError as error:
            raise explained(error, self._path) from error

    def _end_file(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
            fd = os.open(self._files[-1], os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)

    def finish(self) -> dict[str, Any]:
        try:
            self._flush()
            self._end_file()
        except OSError as error:
            raise explained(error, self._path) from error
        self._finished = self._end >= 0
        return {"files": [str(one) for one in self._files], "end": self._end} if self._finished else {}

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
        super().close()


def _columns(rows: list[dict[str, Any]]) -> dict[str, pa.Array] | None:
    """Rows as columns, without those that are all null; None where a column would have several types.

    `pa.Table.from_pylist` is no alternative: it uses the names of the first row only.
    """
    first = tuple(rows[0]) if rows else ()
    if all(tuple(row) == first for row in rows):  # usual: every document has the same fields
        return _made(dict(zip(first, zip(*map(dict.values, rows), strict=True), strict=True)) if first else {})
    names = dict.fromkeys(name for row in rows for name in row)
    return _made({name: [row.get(name) for row in rows] for name in names})


def _made(cells: Mapping[str, Sequence[Any]]) -> dict[str, pa.Array] | None:
    try:
        columns = {name: _column(column) for name, column in cells.items()}
    except _NO_COLUMN:
        return None
    return {name: column for name, column in columns.items() if not pa.types.is_null(column.type)}


def _column(cells: Sequence[Any]) -> pa.Array:
    """One column. Decimals get Arrow's full precision, so that a longer number does not change the type. Numbers among decimals, and
    integers beyond 64 bits, become decimals."""
    kinds = set(map(type, cells))
    if kinds == {str}:  # usual; with the type given, Arrow need not look at each value twice
        return pa.array(cells, pa.string())
    if kinds == {float}:
        return pa.array(np.fromiter(cells, np.float64, len(cells)))
    if kinds == {int}:
        with suppress(OverflowError):
            return pa.array(np.fromiter(cells, np.int64, len(cells)))
    if not kinds.isdisjoint(_NESTED):
        cells = [values.natives(one) for one in cells]
    try:
        column = pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        if not all(one is None or (isinstance(one, int | float | Decimal) and not isinstance(one, bool)) for one in cells):
            raise
        column = pa.array([one if one is None or isinstance(one, Decimal) else Decimal(repr(one)) for one in cells])
    if pa.types.is_binary(column.type) and any(isinstance(one, str) for one in cells):
        raise TypeError("texts among bytes would become bytes")
    if pa.types.is_decimal(column.type) and column.type.precision < _DIGITS:
        column = column.cast(pa.decimal128(_DIGITS, column.type.scale))
    if _holds_nothing(column.type):
        column = pa.array([_something(one) for one in cells])
    return column


def _holds_nothing(kind: pa.DataType) -> bool:
    """Whether a type contains an object without fields, which Parquet cannot hold."""
    if pa.types.is_struct(kind):
        return not kind.num_fields or any(_holds_nothing(one.type) for one in kind)
    return pa.types.is_nested(kind) and _holds_nothing(kind.value_type)


def _something(value: Any) -> Any:
    """A value with null in place of objects without fields."""
    if isinstance(value, dict):
        return {name: _something(one) for name, one in value.items()} or None
    return [_something(one) for one in value] if isinstance(value, list) else value


def _wrong(row: dict[str, Any]) -> str:
    """The reason why a document cannot be a row of a table."""
    for name, value in ((name, values.natives(value)) for name, value in row.items()):
        try:
            _column([value])
        except OverflowError:
            return f"The field {name} holds an integer beyond 64 bits inside an object or a list, which Parquet cannot hold."
        except _NO_COLUMN as error:
            if isinstance(value, list | dict):
                return f"The field {name} cannot be in a table: a list in it holds values of several types ({str(error).rstrip('.')})."
            return f"The field {name} cannot be in a table: {str(error).rstrip('.')}."
    return "The document cannot be a row of a table."


def _fits(given: dict[str, pa.Array], kept: pa.Schema) -> bool:
    """Whether a schema holds the columns without changing a value: no new column, and no decimal with more places."""
    if not given.keys() <= set(kept.names):
        return False
    pairs = [(column.type, kept.field(name).type) for name, column in given.items()]
    return all(a == b or (pa.types.is_decimal(a) and pa.types.is_decimal(b) and a.scale <= b.scale) for a, b in pairs)

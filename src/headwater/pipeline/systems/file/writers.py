"""The temporary files that tasks write: lines, or tables."""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, cast

from headwater.core.errors import Rejected
from headwater.core.files import explained
from headwater.pipeline import values
from headwater.pipeline.adaptor import Batch, SinkWriter
from headwater.pipeline.message import Message, Op

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from headwater.pipeline.systems.file.adaptor import File

_ROWS = 65_536
_DIGITS = 38  # of a decimal128
_NO_COLUMN = (ValueError, TypeError, NotImplementedError, OverflowError)  # Arrow's own errors are kinds of the first three


def ending(adaptor: File) -> str:
    """How the names of parts end."""
    from headwater.pipeline.systems.file.formats import compression_of

    kind, compression = adaptor.written_format, compression_of(adaptor.path, adaptor.compression)
    if kind == "parquet":
        return ".parquet"
    return f".{kind}" + {"none": "", "gzip": ".gz", "zstd": ".zst"}[compression]


class _Temporary(SinkWriter):
    """A writer whose file counts once the run publishes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._end = -1
        self._finished = False

    def close(self) -> None:
        if not self._finished:
            for leftover in self._path.parent.glob(self._path.name + "*"):
                leftover.unlink(missing_ok=True)


class LineWriter(_Temporary):
    """JSON lines or CSV, compressed if asked. `names`: the columns that a CSV file has already.

    The header of CSV is compressed by itself, and its length is in the receipt: a part that is appended to a file goes without it.
    """

    def __init__(self, path: Path, *, csv: bool, envelope: bool, compression: str, names: Sequence[str] = ()) -> None:
        super().__init__(path)
        self._csv, self._envelope, self._compression = csv, envelope, compression
        self._names = list(names)
        self._head = 0
        try:
            self._raw = path.open("wb")
        except OSError as error:
            raise explained(error, path) from error
        self._opened: IO[bytes] | None = None

    @property
    def _out(self) -> IO[bytes]:
        if self._opened is None:
            self._opened = self._raw
            if self._compression == "gzip":
                self._opened = cast("IO[bytes]", gzip.GzipFile(fileobj=self._raw, mode="wb", mtime=0))
            elif self._compression == "zstd":
                import pyarrow as pa

                self._opened = cast("IO[bytes]", pa.CompressedOutputStream(pa.PythonFile(self._raw, "w"), "zstd"))
        return self._opened

    def write(self, batch: Batch) -> None:
        try:
            if batch.values:
                self._out.write(b"\n".join(batch.values) + b"\n")
            else:
                self._put(batch.messages)
        except OSError as error:
            raise explained(error, self._path) from error
        self._end = batch.end

    def _put(self, messages: Sequence[Message]) -> None:
        if self._envelope:
            lines = [
                values.encode({"op": m.op.name.lower(), "namespace": m.namespace, "timestamp": m.timestamp, "data": m.data})
                for m in messages
                if m.op != Op.COMMAND
            ]
            self._out.write(b"".join(line + b"\n" for line in lines))
            return
        rows = documents(messages)
        if not rows:
            return
        if not self._csv:
            self._out.write(values.encode_lines(rows))
            return
        cells: list[list[Any]] = []
        for message, row in zip((m for m in messages if m.op != Op.COMMAND), rows, strict=True):
            if not self._names:
                self._names = list(row)
            if not self._names:
                raise Rejected(
                    "A document without fields cannot be the first row of a CSV file, which has its columns by it.",
                    offset=message.offset,
                    hint="Leave it out, or give it the fields.",
                )
            if extra := [name for name in row if name not in self._names]:
                raise Rejected(
                    f"The field {extra[0]} is not among the columns {', '.join(self._names)} of the file.",
                    offset=message.offset,
                    hint="Pick the fields to write with pick(...).",
                )
            cells.append([_cell(row.get(name)) for name in self._names])
        if not self._head:
            self._head = self._raw.write(compressed(_lines([self._names]), self._compression))
        self._out.write(_lines(cells))

    def finish(self) -> dict[str, Any]:
        try:
            if self._opened is not None and self._opened is not self._raw:
                self._opened.close()
            if not self._raw.closed:
                self._raw.flush()
                os.fsync(self._raw.fileno())
                self._raw.close()
            else:
                fd = os.open(self._path, os.O_RDONLY)
                os.fsync(fd)
                os.close(fd)
        except OSError as error:
            raise explained(error, self._path) from error
        self._finished = self._end >= 0
        empty = not self._finished or self._path.stat().st_size == 0
        if empty:
            self._path.unlink(missing_ok=True)
        if not self._finished:
            return {}
        return {"files": [] if empty else [str(self._path)], "end": self._end, "head": self._head, "names": self._names}

    def close(self) -> None:
        self._raw.close()
        super().close()


class TextWriter(LineWriter):
    """JSON lines that are written as they were read."""

    takes_text: ClassVar[bool] = True


def compressed(data: bytes, compression: str) -> bytes:
    """Bytes that can stand in a compressed file before others."""
    if compression == "gzip":
        return gzip.compress(data, mtime=0)
    if compression == "zstd":
        import pyarrow as pa

        made: bytes = pa.compress(data, codec="zstd", asbytes=True)
        return made
    return data


def _lines(rows: Sequence[Sequence[Any]]) -> bytes:
    """Rows of CSV."""
    text = io.StringIO(newline="")
    plain = csv.writer(text, lineterminator="\n")
    plain.writerows(rows)
    if "\r" in text.getvalue():  # some versions of Python quote it only where it is a line's end, and no reader takes it for anything else
        text = io.StringIO(newline="")
        plain, quoting = csv.writer(text, lineterminator="\n"), csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
        for row in rows:
            (quoting if any(isinstance(one, str) and "\r" in one for one in row) else plain).writerow(row)
    return text.getvalue().encode()


class TableWriter(_Temporary):
    """Parquet. A table whose types do not fit the ones before begins a further file of the same part."""

    takes_text: ClassVar[bool] = False

    def __init__(self, path: Path, *, compression: str) -> None:
        super().__init__(path)
        self._compression = compression
        self._gathered: list[tuple[dict[str, pa.Array], list[dict[str, Any]]]] = []  # batches, each as columns and as rows
        self._count = 0
        self._open: pq.ParquetWriter | None = None
        self._schema: pa.Schema | None = None
        self._files: list[Path] = []

    def write(self, batch: Batch) -> None:
        rows = documents(batch.messages)
        columns = _columns(rows)
        if columns is None:
            written = [message for message in batch.messages if message.op != Op.COMMAND]
            for message, row in zip(written, rows, strict=True):
                if _columns([row]) is None:  # later nobody could tell which one it was
                    raise Rejected(
                        _wrong(row), offset=message.offset, hint="Change the field with python(...), or leave it out with omit(...)."
                    )
        if rows:
            self._gathered.append((columns or {}, rows))
            self._count += len(rows)
        if self._count >= _ROWS:
            self._flush()
        self._end = batch.end

    def _flush(self) -> None:
        """Write what was gathered: as it is where all batches have the same columns, else as what their rows make together."""
        gathered, self._gathered, self._count = self._gathered, [], 0
        kinds = [{name: one.type for name, one in columns.items()} for columns, _ in gathered]
        rows = [row for _, rows in gathered for row in rows]
        if kinds and kinds[0] and all(kind == kinds[0] for kind in kinds):
            import pyarrow as pa

            self._put({name: pa.concat_arrays([columns[name] for columns, _ in gathered]) for name in kinds[0]}, rows)
        else:
            self._flush_rows(rows)

    def _flush_rows(self, rows: list[dict[str, Any]]) -> None:
        """Write rows as a table; those that do not fit into one become several, in their order."""
        if not rows:
            return
        columns = _columns(rows)
        if columns is None:
            half = len(rows) // 2
            self._flush_rows(rows[:half])
            self._flush_rows(rows[half:])
            return
        self._put(columns, rows)

    def _put(self, columns: dict[str, pa.Array], rows: list[dict[str, Any]]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._schema is not None and _fits(columns, self._schema):
            arrays = [columns[one.name].cast(one.type) if one.name in columns else pa.nulls(len(rows), one.type) for one in self._schema]
            table = pa.Table.from_arrays(arrays, schema=self._schema)
        else:
            if not columns:  # a table has at least one column, or it has no rows; a text is what every reader of Parquet knows
                columns = {name: pa.nulls(len(rows), pa.string()) for name in dict.fromkeys(n for row in rows for n in row) or ("_id",)}
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
    """Rows as columns, without those that hold no value; None where a column would have several types.

    Arrow casts an integer among texts to nothing: it refuses, and so does this. `from_pylist` looks at the first row's names only.
    """
    import pyarrow as pa

    first = tuple(rows[0]) if rows else ()
    try:
        if all(tuple(row) == first for row in rows):  # the rule: every document has the same fields
            columns = {name: _column(cells) for name, cells in zip(first, zip(*map(dict.values, rows), strict=True), strict=True)}
        else:
            names = dict.fromkeys(name for row in rows for name in row)
            columns = {name: _column([row.get(name) for row in rows]) for name in names}
    except _NO_COLUMN:
        return None
    return {name: column for name, column in columns.items() if not pa.types.is_null(column.type)}


def _column(cells: Sequence[Any]) -> pa.Array:
    """One column. Decimals have all of Arrow's digits, so that a longer number does not change the type; other numbers among them, and
    integers beyond 64 bits, join them."""
    import pyarrow as pa

    cells = values.column_of_natives(cells)
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
    """Whether there is an object without fields in a type: Parquet has none."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return not kind.num_fields or any(_holds_nothing(one.type) for one in kind)
    return pa.types.is_nested(kind) and _holds_nothing(kind.value_type)


def _something(value: Any) -> Any:
    """A value without objects that have no fields: they become null."""
    if isinstance(value, dict):
        return {name: _something(one) for name, one in value.items()} or None
    return [_something(one) for one in value] if isinstance(value, list) else value


def _wrong(row: dict[str, Any]) -> str:
    """Why a document cannot be a row of a table."""
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
    """Whether columns can be written under a schema without changing a value: decimals perhaps with fewer places, and none may be new."""
    import pyarrow as pa

    if not given.keys() <= set(kept.names):
        return False
    pairs = [(column.type, kept.field(name).type) for name, column in given.items()]
    return all(a == b or (pa.types.is_decimal(a) and pa.types.is_decimal(b) and a.scale <= b.scale) for a, b in pairs)


def documents(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The data of inserts and updates. A file cannot take a document away: a delete is refused, with what to do."""
    ops = {message.op for message in messages}
    if Op.DELETE in ops:
        raise Rejected(
            "A delete cannot be written to a file of documents.",
            offset=next(message.offset for message in messages if message.op == Op.DELETE),
            hint='Write changes with envelope=True, or leave deletes out with opfilter(drop=["delete"]).',
        )
    return [message.data for message in messages if message.op != Op.COMMAND] if Op.COMMAND in ops else [one.data for one in messages]


def _cell(value: Any) -> Any:
    value = values.native(value)
    if isinstance(value, dict | list | bool):
        return values.encode(value).decode()
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else value


def written(value: Any) -> str:
    """A value as the text of its cell."""
    cell = _cell(value)
    return "" if cell is None else repr(cell) if isinstance(cell, float) else str(cell)

"""Writing temporary files of JSON lines and CSV."""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, ClassVar, cast

import pyarrow as pa

from headwater.adaptors.file.csv_columns import RULES as CSV
from headwater.core.errors import Rejected
from headwater.core.files import explained
from headwater.pipeline import values
from headwater.pipeline.column_check import ColumnCheck
from headwater.pipeline.columns import Tables
from headwater.pipeline.message import Message, Op
from headwater.pipeline.sink_adaptor import Batch, SinkWriter

_WRITTEN = frozenset({type(None), str, int, float, Decimal})  # types that CSV has text for
TABLE = ""  # the one table of a folder, whatever the namespaces are


class Temporary(SinkWriter):
    """A writer of a temporary file, which counts when the run publishes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._end = -1
        self._finished = False

    def close(self) -> None:
        if not self._finished:
            for leftover in self._path.parent.glob(self._path.name + "*"):
                leftover.unlink(missing_ok=True)


class LineWriter(Temporary):
    """Writes JSON lines or CSV, perhaps compressed. `names`: the columns that a CSV file has already; `decided`: as `Part.columns`.

    The header of CSV is compressed by itself, and its length is in the receipt: a part is appended to a file without its header.
    """

    def __init__(
        self, path: Path, *, csv: bool, envelope: bool, compression: str, names: Sequence[str] = (), decided: Tables | None = None
    ) -> None:
        super().__init__(path)
        self._check = ColumnCheck(decided, CSV) if csv and decided is not None else None
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
                self._opened = cast("IO[bytes]", pa.CompressedOutputStream(pa.PythonFile(self._raw, "w"), "zstd"))
        return self._opened

    def write(self, batch: Batch) -> None:
        try:
            if batch.values:
                self._out.write(values.unmarked(b"\n".join(batch.values)) + b"\n")
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
        written = messages if len(rows) == len(messages) else [m for m in messages if m.op != Op.COMMAND]
        cells = columns(rows)
        if self._check is not None:
            self._names = list(self._check.checked(TABLE, written, cells).columns)
        if not self._names:
            self._names = list(rows[0])
        if not self._names:
            raise Rejected(
                "A document without fields cannot be the first row of a CSV file: the first row names the columns.",
                offset=written[0].offset,
                untouched=True,
                hint="Leave it out, or give it the fields.",
            )
        if not cells.keys() <= set(self._names):
            self._refuse_others(written)
        none = [None] * len(rows)
        table = list(zip(*(_cells(cells[name]) if name in cells else none for name in self._names), strict=True))
        if not self._head:
            self._head = self._raw.write(compressed(_lines([self._names]), self._compression))
        self._out.write(_lines(table))

    def _refuse_others(self, messages: Sequence[Message]) -> None:
        """Errors: `Rejected` for the first message with a field that is not among the columns; where columns are decided, with a value."""
        for message in messages:
            for name, value in message.data.items():
                if name not in self._names and (self._check is None or value is not None):
                    raise Rejected(
                        f"The field {name} is not among the columns {', '.join(self._names)} of the file.",
                        offset=message.offset,
                        untouched=True,
                        hint="Pick the fields to write with pick(...).",
                    )

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
    """Writes JSON text as it is."""

    takes_text: ClassVar[bool] = True


def compressed(data: bytes, compression: str) -> bytes:
    """The data as a compressed frame, which other frames may follow."""
    if compression == "gzip":
        return gzip.compress(data, mtime=0)
    if compression == "zstd":
        frame: bytes = pa.compress(data, codec="zstd", asbytes=True)
        return frame
    return data


def _lines(rows: Sequence[Sequence[Any]]) -> bytes:
    """Rows of CSV."""
    text = io.StringIO(newline="")
    plain = csv.writer(text, lineterminator="\n")
    plain.writerows(rows)
    if "\r" in text.getvalue():  # some versions of Python do not quote it, and readers take it for a line end
        text = io.StringIO(newline="")
        plain, quoting = csv.writer(text, lineterminator="\n"), csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
        for row in rows:
            (quoting if any(isinstance(cell, str) and "\r" in cell for cell in row) else plain).writerow(row)
    return text.getvalue().encode()


def documents(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The data of inserts and updates. Errors: `Rejected`, untouched, for a delete, which a file cannot do."""
    ops = {message.op for message in messages}
    if Op.DELETE in ops:
        raise Rejected(
            "A delete cannot be written to a file of documents.",
            offset=next(message.offset for message in messages if message.op == Op.DELETE),
            untouched=True,
            hint='Write changes with envelope=True, or leave deletes out with opfilter(drop=["delete"]).',
        )
    return (
        [message.data for message in messages if message.op != Op.COMMAND] if Op.COMMAND in ops else [message.data for message in messages]
    )


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
    """Rows as columns. `pa.Table.from_pylist` is no alternative: it uses the names of the first row only."""
    first = tuple(rows[0]) if rows else ()
    if all(tuple(row) == first for row in rows):  # usual: every document has the same fields
        return dict(zip(first, zip(*(row.values() for row in rows), strict=True), strict=True)) if first else {}
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _cells(column: Sequence[Any]) -> Sequence[Any]:
    """`_cell` of each; the column itself where nothing is to convert, which is quicker to see for all at once."""
    return column if _WRITTEN.issuperset(map(type, column)) else list(map(_cell, column))


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

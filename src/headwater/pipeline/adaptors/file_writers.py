"""The temporary files that tasks write: lines, or tables."""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Sequence
from contextlib import suppress
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

    from headwater.pipeline.adaptors.file_adaptor import File

_ROWS = 65_536


def ending(adaptor: File) -> str:
    """How the names of parts end."""
    from headwater.pipeline.adaptors.file_formats import compression_of

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
    """JSON lines or CSV, compressed if asked."""

    takes_text: ClassVar[bool] = True

    def __init__(self, path: Path, *, csv: bool, envelope: bool, compression: str, header: bool) -> None:
        super().__init__(path)
        self._csv, self._envelope, self._header = csv, envelope, header
        self._names: list[str] = []
        try:
            self._raw = path.open("wb")
        except OSError as error:
            raise explained(error, path) from error
        self._out: IO[bytes] = self._raw
        if compression == "gzip":
            self._out = cast("IO[bytes]", gzip.GzipFile(fileobj=self._raw, mode="wb", mtime=0))
        elif compression == "zstd":
            import pyarrow as pa

            self._out = cast("IO[bytes]", pa.CompressedOutputStream(pa.PythonFile(self._raw, "w"), "zstd"))

    def write(self, batch: Batch) -> None:
        try:
            if batch.values and not self._csv and not self._envelope:
                self._out.write(b"\n".join(batch.values) + b"\n")
            elif batch.values:
                self._put([Message("", values.decode(one)) for one in batch.values])
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
            self._out.write(b"\n".join([values.encode(one) for one in rows]) + b"\n")
            return
        text = io.StringIO(newline="")
        out = csv.writer(text, lineterminator="\n")
        for message, row in zip((m for m in messages if m.op != Op.COMMAND), rows, strict=True):
            if not self._names:
                self._names = list(row)
                if self._header:
                    out.writerow(self._names)
            if extra := [name for name in row if name not in self._names]:
                raise Rejected(
                    f"The field {extra[0]} is not among the columns {', '.join(self._names)} of the file.",
                    offset=message.offset,
                    hint="Pick the fields to write with pick(...).",
                )
            out.writerow([_cell(row.get(name)) for name in self._names])
        self._out.write(text.getvalue().encode())

    def finish(self) -> dict[str, Any]:
        try:
            if self._out is not self._raw:
                self._out.close()
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
        return {"files": [] if empty else [str(self._path)], "end": self._end} if self._finished else {}

    def close(self) -> None:
        self._raw.close()
        super().close()


class TableWriter(_Temporary):
    """Parquet. A table whose types do not fit the ones before begins a further file of the same part."""

    takes_text: ClassVar[bool] = False

    def __init__(self, path: Path, *, compression: str) -> None:
        super().__init__(path)
        self._compression = compression
        self._rows: list[dict[str, Any]] = []
        self._open: pq.ParquetWriter | None = None
        self._schema: pa.Schema | None = None
        self._files: list[Path] = []

    def write(self, batch: Batch) -> None:
        rows = documents(batch.messages)
        natives = [values.natives(one) for one in rows]
        self._check(natives, batch)
        self._rows += natives
        if len(self._rows) >= _ROWS:
            self._flush()
        self._end = batch.end

    def _check(self, rows: list[dict[str, Any]], batch: Batch) -> None:
        """Find out now whether the rows fit a table: later nobody could tell whose fault it is."""
        import pyarrow as pa

        try:
            pa.Table.from_pylist(rows)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError) as error:
            offset = batch.start if batch.end - batch.start == 1 else -1
            raise Rejected(
                f"The documents do not fit one table: {error}",
                offset=offset,
                hint="Give the field one type, or leave it out with omit(...).",
            ) from error

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not self._rows:
            return
        names = {name: None for row in self._rows for name in row}
        table = pa.Table.from_pylist(self._rows, schema=None if len(names) == len(self._rows[0]) else _schema(self._rows, list(names)))
        empty = [field.name for field in table.schema if pa.types.is_null(field.type)]
        table = table.drop_columns(empty)
        if self._schema is not None and table.schema != self._schema:
            with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                table = table.select(self._schema.names).cast(self._schema) if set(table.schema.names) == set(self._schema.names) else table
        try:
            if self._open is None or table.schema != self._schema:
                self._end_file()
                path = self._path.with_name(f"{self._path.name}.{len(self._files)}")
                self._open, self._schema = pq.ParquetWriter(path, table.schema, compression=self._compression), table.schema
                self._files.append(path)
            self._open.write_table(table)
        except OSError as error:
            raise explained(error, self._path) from error
        self._rows = []

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


def _schema(rows: list[dict[str, Any]], names: list[str]) -> pa.Schema:
    """The types of rows that do not all have the same fields: `from_pylist` looks at the first row's names only."""
    import pyarrow as pa

    return pa.schema([(name, pa.array([row.get(name) for row in rows]).type) for name in names])


def documents(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The data of inserts and updates. A file cannot take a document away: a delete is refused, with what to do."""
    for message in messages:
        if message.op == Op.DELETE:
            raise Rejected(
                "A delete cannot be written to a file of documents.",
                offset=message.offset,
                hint='Write changes with envelope=True, or leave deletes out with opfilter(drop=["delete"]).',
            )
    return [message.data for message in messages if message.op != Op.COMMAND]


def _cell(value: Any) -> Any:
    value = values.native(value)
    if isinstance(value, dict | list | bool):
        return values.encode(value).decode()
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else value

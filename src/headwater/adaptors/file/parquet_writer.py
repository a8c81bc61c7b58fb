"""Writing temporary files of Parquet."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from headwater.adaptors.file.line_writer import TABLE, Temporary, columns, documents
from headwater.adaptors.file.parquet_columns import RULES, column_of, schema_of
from headwater.core.files import explained
from headwater.pipeline.column_check import ColumnCheck
from headwater.pipeline.columns import TableColumns, Tables, fits
from headwater.pipeline.message import Op
from headwater.pipeline.shapes import DocumentShape, shape_of
from headwater.pipeline.sink_adaptor import Batch

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_ROWS = 65_536
_NO_FIELD = "_empty"  # the column of documents that have no values
_AT_ONCE = 1500  # documents: as objects, these fit into a processor's cache


class ParquetPartWriter(Temporary):
    """Writes Parquet, all of a part with the decided schema. Without a decision, a new schema begins a further file of the part."""

    takes_text: ClassVar[bool] = True

    def __init__(self, path: Path, *, compression: str, decided: Tables | None = None) -> None:
        super().__init__(path)
        self._compression = compression
        self._check = ColumnCheck(decided, RULES)
        self._gathered: list[pa.RecordBatch] = []
        self._count = 0
        self._open: pq.ParquetWriter | None = None
        self._schema: pa.Schema | None = None
        self._table: TableColumns | None = None
        self._shape: DocumentShape | None = None
        self._files: list[Path] = []
        self._know(self._check.table(TABLE))

    def write(self, batch: Batch) -> None:
        rows = documents(batch.messages)
        written = (
            batch.messages if len(rows) == len(batch.messages) else [message for message in batch.messages if message.op != Op.COMMAND]
        )
        cells = columns(rows)
        table = self._check.checked(TABLE, written, cells)
        self._know(table)
        self._gather(self._made(table, cells, len(rows)))
        self._end = batch.end

    def write_text(self, batch: Batch) -> bool:
        """Write documents whose fields are known and whose values fit; others must come as messages."""
        if self._shape is None or self._table is None:
            return False
        record_batches: list[pa.RecordBatch] = []
        for at in range(0, len(batch.values), _AT_ONCE):
            texts = batch.values[at : at + _AT_ONCE]
            cells = self._shape.columns(texts)
            if cells is None or not all(fits(self._table.columns[name], column) for name, column in cells.items()):
                return False
            record_batches.append(self._made(self._table, cells, len(texts)))
        for record_batch in record_batches:
            self._gather(record_batch)
        self._end = batch.end
        return True

    def _know(self, table: TableColumns) -> None:
        """Go on with these columns: tables that were made with others are written before."""
        if table == self._table:
            return
        self._flush()
        self._table = table
        self._shape = shape_of((), tuple(table.columns)) if table.columns else None

    def _made(self, table: TableColumns, cells: Mapping[str, Sequence[Any]], count: int) -> pa.RecordBatch:
        """A table of so many rows."""
        # A table without columns has no rows. A column for a field that is null so far would have a type that its values may not have.
        schema = (
            schema_of(table) if any(column.kind != "null" for column in table.columns.values()) else pa.schema([(_NO_FIELD, pa.bool_())])
        )
        arrays = [
            column_of(table.columns[field.name], cells[field.name])
            if field.name in cells and field.name in table.columns and table.columns[field.name].kind != "null"
            else pa.nulls(count, field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _gather(self, record_batch: pa.RecordBatch) -> None:
        if not len(record_batch):
            return
        if self._gathered and self._gathered[-1].schema != record_batch.schema:
            self._flush()
        self._gathered.append(record_batch)
        self._count += len(record_batch)
        if self._count >= _ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow.parquet as pq

        gathered, self._gathered, self._count = self._gathered, [], 0
        if not gathered:
            return
        table = pa.Table.from_batches(gathered).combine_chunks()
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
        return {"files": [str(path) for path in self._files], "end": self._end} if self._finished else {}

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
        super().close()

"""Queues as tables of Spark: `queue:NAME`, the rows that are there when the read is planned; with the option `view=dead`, the dead list;
with `view=history`, what the log still holds.

A row is the fold of many records. The driver folds the queue's log once, as its owner does, and each task gets rows of it: unlike the
payloads of a region, they do not lie in the log as they are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
import pyarrow as pa

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import BadInput, Damaged
from headwater.log import Log
from headwater.queue.catalogue import stored_catalogue, unknown
from headwater.queue.catalogue_fold import QueueEntry
from headwater.queue.data_place import DataPlace
from headwater.queue.data_reader import give_data
from headwater.queue.fold import QueueFold
from headwater.queue.listing import ALL, dead_ids, dead_row, rows_of
from headwater.queue.log_history import LogHistory
from headwater.queue.records import Malformed
from headwater.queue.region_hints import NAMESPACE
from headwater.queue.requests import checked_name
from headwater.queue.row import BINARY, PROCESSING, Row
from headwater.queue.stored_queue import stored_fold
from headwater.queue.values import DeadRow
from headwater.spark.tables import PlannedTable, Table
from headwater.wal.entries import LogEntry
from headwater.wal.region_topics import region_topics
from headwater.wal.view import RegionView

OPTIONS = {"view": "rows (the default): waiting and processed rows; dead: the dead list; history: each change that the log still has"}
_TIME = pa.timestamp("us", "UTC")
_ROW = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("key", pa.binary(), nullable=False),
    pa.field("data", pa.binary(), nullable=False),
    pa.field("form", pa.string(), nullable=False),
    pa.field("priority", pa.int16(), nullable=False),
    pa.field("insertion_date", _TIME, nullable=False),
    pa.field("process_date", _TIME, nullable=False),
    pa.field("expiration_date", _TIME),
    pa.field("status", pa.string(), nullable=False),
    pa.field("start_processing_date", _TIME),
    pa.field("timeout_counter", pa.int16(), nullable=False),
    pa.field("attempts", pa.int32(), nullable=False),
    pa.field("failures", pa.int32(), nullable=False),
    pa.field("lane", pa.binary(), nullable=False),
    pa.field("declaration", pa.int32(), nullable=False),
    pa.field("error", pa.string(), nullable=False),
    pa.field("lease_until", _TIME),
    pa.field("worker", pa.string(), nullable=False),
    pa.field("group", pa.string(), nullable=False),
    pa.field("follow_up", pa.bool_(), nullable=False),
    pa.field("schedule", pa.string(), nullable=False),
    pa.field("after", pa.list_(pa.int64()), nullable=False),
]
_DEATH = [pa.field("reason", pa.string(), nullable=False), pa.field("date", _TIME, nullable=False)]


_CHANGE = [
    pa.field("sequence", pa.int64(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("date", _TIME, nullable=False),
    pa.field("change", pa.string(), nullable=False),
    pa.field("id", pa.int64()),
    pa.field("key", pa.binary()),
    pa.field("detail", pa.string(), nullable=False),
]


class _QueueTable(PlannedTable):
    options = OPTIONS
    unstreamed = "its rows change and go"
    instead = "Use read instead of readStream, or claim rows with a worker."

    def __init__(self, name: str, clock: Clock | None = None) -> None:
        self._name, self._clock = checked_name(name), clock or SystemClock()

    def __reduce__(self) -> tuple[Any, ...]:  # tasks need no clock
        return type(self), (self._name,)

    def check(self, log: Log) -> None:
        self._entry(log)

    def _entry(self, log: Log) -> QueueEntry:
        catalogue = stored_catalogue(log)
        if self._name not in catalogue.entries:
            raise unknown(self._name, catalogue)
        return catalogue.entries[self._name]

    def rows(self, log: Log, part: bytes, wanted: Sequence[str]) -> Iterator[Mapping[str, pa.Array]]:
        for batch in pa.ipc.open_stream(part):
            yield {name: batch.column(name) for name in wanted}


class _FoldedTable(_QueueTable):
    def plan(self, log: Log, split: int) -> list[bytes]:
        fold, payloads = stored_fold(log, self._entry(log), now=(now := self._clock.now_ms()))
        rows, parts = deque(self._rows(fold, now)), list[bytes]()
        while rows:
            some = [rows.popleft() for _ in range(min(split, len(rows)))]  # what is packed is not needed twice
            fill(map(self._row, some), payloads)
            parts.append(_packed(self._columns(some)))
        return parts

    @abstractmethod
    def _rows(self, fold: QueueFold, now: int) -> Sequence[Any]:
        """What the table shows of a fold."""

    @abstractmethod
    def _row(self, shown: Any) -> Row:
        """The row of one of them."""

    @abstractmethod
    def _columns(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """That as columns."""


class QueueRows(_FoldedTable):
    """The rows of a queue that wait or are processed, by id. An expired row is none."""

    schema = pa.schema(_ROW)

    def _rows(self, fold: QueueFold, now: int) -> Sequence[Row]:
        rows = rows_of(fold, None, b"", -1, len(fold) + 1, now=now, most=ALL)
        return [row for row in rows if row.status == PROCESSING or not 0 < row.expiration_date <= now]

    def _row(self, shown: Row) -> Row:
        return shown

    def _columns(self, rows: Sequence[Row]) -> pa.RecordBatch:
        return _batch(self.schema, map(_cells, rows))


class DeadRows(_FoldedTable):
    """The rows that a queue has given up, by id."""

    schema = pa.schema([*_ROW, *_DEATH])

    def _rows(self, fold: QueueFold, now: int) -> Sequence[DeadRow]:
        return [dead_row(fold, id) for id in dead_ids(fold, b"", "")]

    def _row(self, shown: DeadRow) -> Row:
        return shown.row

    def _columns(self, rows: Sequence[DeadRow]) -> pa.RecordBatch:
        cells = (
            {**_cells(dead.row), "error": dead.error, "worker": dead.worker, "reason": dead.reason, "date": dead.date} for dead in rows
        )
        return _batch(self.schema, cells)


class QueueChanges(_QueueTable):
    """Each change of a row that the log still has, in the order of the log."""

    schema = pa.schema(_CHANGE)

    def plan(self, log: Log, split: int) -> list[bytes]:
        entry = self._entry(log)
        view = RegionView(log, region_topics(NAMESPACE, entry.region))
        return view.fold_table(entry.table, lambda _, parts: self._read(parts, split))

    def _read(self, parts: Iterator[list[LogEntry]], split: int) -> list[bytes]:
        history, rows, packed = LogHistory(), list[dict[str, Any]](), list[bytes]()
        try:
            for entry in chain.from_iterable(parts):
                rows += [change._asdict() for change in history.read(entry)]
                if len(rows) >= split:
                    packed.append(_packed(_batch(self.schema, iter(rows))))
                    rows = []
        except Malformed as error:
            raise Damaged(f"A record of the queue {self._name} cannot be read: {error}.", hint="Run `headwater doctor`.") from error
        return [*packed, _packed(_batch(self.schema, iter(rows)))] if rows else packed


_VIEWS: dict[str, type[QueueRows | DeadRows | QueueChanges]] = {"rows": QueueRows, "dead": DeadRows, "history": QueueChanges}


def queue_table(name: str, options: Mapping[str, str]) -> Table:
    """The table of `queue:name`. Errors: `BadInput`."""
    view = {option.lower(): value for option, value in options.items()}.get("view", "rows")
    if view not in _VIEWS:
        hint = "Leave the option out for its rows, or give view=dead for the dead list, or view=history for what the log still has."
        raise BadInput(f"A queue has no view {view!r}.", hint=hint)
    return _VIEWS[view](name)


def fill(rows: Iterable[Row], payloads: Mapping[int, bytes]) -> None:
    """Give rows their data that are on the log alone, of the payloads by their sequences. Errors: `Damaged`."""
    for row in rows:
        if type(row.data) is DataPlace:
            data = row.data.cut(payloads.get(row.data.sequence, b""))
            if data is None:
                raise Damaged(f"The log does not hold the data of the row {row.id}.", hint="Read again: it may have been done meanwhile.")
            give_data(row, data)


def _cells(row: Row) -> dict[str, Any]:
    """A row by the names of the columns. 0 stands for no date."""
    cells = msgspec.structs.asdict(row)
    cells["form"] = "binary" if row.form == BINARY else "json"
    for name in ("expiration_date", "start_processing_date", "lease_until"):
        cells[name] = cells[name] or None
    return cells


def _batch(schema: pa.Schema, rows: Iterator[dict[str, Any]]) -> pa.RecordBatch:
    batch_rows = list(rows)
    columns = [
        pa.array([row[field.name] for row in batch_rows], pa.timestamp("ms", "UTC") if field.type == _TIME else field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays([column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


def _packed(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())

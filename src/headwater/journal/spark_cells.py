"""Cells of the Spark tables of journals: events and heads by the names of their columns, and the columns as Arrow arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from headwater.journal.change import EventRow
from headwater.journal.event import KIND_NAMES
from headwater.journal.head import Head
from headwater.journal.metadata import EMPTY_COLUMN, read_metadata_column

OPTIONS = {
    "view": "events (the default); heads: a row for each journal; actions: a row for each record of the log",
    "id": "only this journal",
    "fromSeqNr": "the number of the first event; for events alone",
    "toSeqNr": "the number of the last event; for events alone",
    "undecryptable": "fail (the default), or null: what no key opens has no payload, and true in the column encrypted; for events alone",
}
TIME = pa.timestamp("us", "UTC")
"""The type of times."""
HEADERS = pa.map_(pa.string(), pa.string())
"""The type of users' headers."""


def head_cells(id: str, head: Head) -> dict[str, Any]:
    """A head."""
    return {
        **msgspec.structs.asdict(head),
        "id": id,
        "seq_nr": head.last,
        "delete_to": head.deleted,
        "record_id": None if head.record_id is None else str(head.record_id),
    }


def event_cells(id: str, row: EventRow) -> dict[str, Any]:
    """An event."""
    metadata = header = None
    if row.metadata != EMPTY_COLUMN:
        both = read_metadata_column(row.metadata)
        metadata = None if both.payload.data is None else both.payload.data.decode()
        header = None if both.header is None else both.header.decode()
    return {
        "id": id,
        "seq_nr": row.seq_nr,
        "payload": None if row.payload is None else row.payload.data,
        "payload_type": None if row.payload is None else KIND_NAMES[row.payload.kind],
        "tags": row.tags,
        "timestamp": row.timestamp,
        "partition": row.partition,
        "offset": row.offset,
        "origin": row.origin,
        "version": row.version,
        "metadata": metadata,
        "header_metadata": header,
        "headers": row.headers,
    }


def columns(schema: pa.Schema, rows: list[dict[str, Any]], wanted: Sequence[str]) -> Mapping[str, pa.Array]:
    """The columns that are wanted, of rows."""
    return {name: _column(schema.field(name), [row[name] for row in rows]) for name in wanted}


def _column(field: pa.Field, cells: list[Any]) -> pa.Array:
    return pa.array(cells, pa.timestamp("ms", "UTC") if field.type == TIME else field.type)

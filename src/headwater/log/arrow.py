"""Records as Arrow columns: the schema that every engine's `scan` yields, and what `append_arrow` takes."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.core.errors import BadInput
from headwater.log.layout import decode_headers, encode_headers

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),  # milliseconds since 1970, UTC
        pa.field("key", pa.binary_view()),
        pa.field("value", pa.binary_view()),
        pa.field(
            "headers", pa.binary_view()
        ),  # the header block as it is stored, null without headers: headwater.log.layout.decode_headers
        pa.field("mode", pa.uint8(), nullable=False),
        pa.field("op", pa.uint8(), nullable=False),
    ]
)
"""Views point into the mapped segment: nothing is copied until a column is cast to `binary`."""


def check_columns(batch: pa.RecordBatch) -> None:
    """Errors: `BadInput` for a column that is missing or unknown, and for what is no block of headers."""
    names = set(batch.schema.names)
    if names - {"key", "value", "headers", "timestamp", "mode", "op"} or not {"key", "value"} <= names:
        raise BadInput(
            f"The columns {batch.schema.names} cannot be appended.", hint="Give key and value, and perhaps headers, timestamp, mode and op."
        )
    if "headers" in names and batch.column("headers").null_count < len(batch):
        for block in batch.column("headers").cast(pa.binary()).drop_null().to_pylist():
            _check_block(block)


def _check_block(block: bytes) -> None:
    """Refuses header blocks of a wrong length, which would shift the beginning of the record's value."""
    try:
        fits = encode_headers(decode_headers(block)) == block
    except (struct.error, UnicodeDecodeError):
        fits = False
    if not fits:
        raise BadInput("A column of headers holds something else.", hint="Make its cells with headwater.log.layout.encode_headers.")


def lengths(column: pa.Array) -> Any:
    """How many bytes each value has. Read from the views themselves: Arrow has no function for them."""
    if column.null_count == len(column):
        return np.zeros(len(column), np.int64)
    if column.type != pa.binary_view():
        return pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.frombuffer(column.buffers()[1], np.int32)[column.offset * 4 : (column.offset + len(column)) * 4 : 4].astype(np.int64)
    if column.null_count:
        ends[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return ends

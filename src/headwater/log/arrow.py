"""Records as Arrow columns: the schema that every engine's `scan` yields."""

from __future__ import annotations

import pyarrow as pa

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

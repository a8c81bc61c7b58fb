"""The summary of a folder of Parquet parts: `_common_metadata`, a file without rows that has the schema of all parts.

Spark takes the schema of a folder from it. So it reads older parts, in which a column is missing or was one of integers, with the newest
columns. Other readers leave files whose names begin with an underscore out.
"""

from __future__ import annotations

import pyarrow as pa

from headwater.adaptors.file.parquet_columns import schema_of
from headwater.adaptors.parts.store import PartStore
from headwater.pipeline.columns import TableColumns

NAME = "_common_metadata"


def write_summary(store: PartStore, table: TableColumns) -> None:
    """Write the summary, where it has other columns. Call it before a part with these columns is published."""
    import pyarrow.parquet as pq

    schema = schema_of(table)
    if not len(schema):
        return
    sink = pa.BufferOutputStream()
    pq.write_metadata(schema, sink)
    content: bytes = sink.getvalue().to_pybytes()
    if store.read(NAME) != content:
        store.write(NAME, content)

"""Cuts batches of the log to a size that Java holds, and casts them to the types that Spark has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from headwater.log.arrow import lengths
from headwater.spark.tables import SparkTable

BYTES = 64 << 20  # of one batch: Java holds it whole, and `binary` columns end at 2 GiB
_VIEWS = ("key", "value", "headers")


def pieces(batch: pa.RecordBatch, limit: int = BYTES) -> Iterator[pa.RecordBatch]:
    """A batch of the log, cut so that no piece holds more than `limit` bytes, unless it is a single record."""
    ends = np.cumsum(sum(lengths(batch.column(name)) for name in _VIEWS))
    start = 0
    while start < batch.num_rows:
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + limit, side="right")))
        yield batch.slice(start, stop - start)
        start = stop


def rows(table: SparkTable, partition: int, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows that a table makes of a batch."""
    return fitted(table.rows(partition, batch, schema.names), schema)


def fitted(made: Mapping[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Columns as Spark takes them: it refuses views, and compares types and nullability exactly."""
    columns = [made[field.name] if made[field.name].type == field.type else made[field.name].cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)

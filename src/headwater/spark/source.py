"""`spark.read.format("headwater")`: topics, and what the parts register, as tables. No jars: a data source in Python.

Spark finds it through `pyspark_headwater`, in every session. What is read is narrowed by options, not by filters: Spark 4.3 keeps the
filters that it pushed down with the DataFrame instead of with the query, so that a DataFrame used with two filters, or with one and
without, gives wrong answers. So no reader here takes filters, and Spark applies them itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from headwater.core.errors import BadInput
from headwater.log import Log
from headwater.log.opening import open_log
from headwater.spark.batches import pieces, rows
from headwater.spark.ranges import Range
from headwater.spark.requests import ReadRequest, Span, read_options
from headwater.spark.tables import SparkTable, find_table

NAME = "headwater"
SCAN = 16_384  # records of one batch


class Source(DataSource):
    """The format `headwater`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        request = read_options(self.options)
        table = find_table(request.target, self.options)
        with open_log(request.address, read_only=True) as log:
            log.topic(table.topic)  # so that load() tells a misspelt name, not the first action
        return from_arrow_schema(table.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return RangeReader(read_options(self.options).check_batch(), find_table(self.options["path"], self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from headwater.spark.stream import StreamReader

        return StreamReader(read_options(self.options).check_stream(), find_table(self.options["path"], self.options), schema)


class RangeReader(DataSourceReader):
    """Reads a table up to the durable end at the time of planning."""

    def __init__(self, request: ReadRequest, table: SparkTable, schema: StructType) -> None:
        self.request, self.table, self.schema = request, table, chosen(table, schema)

    def partitions(self) -> list[InputPartition]:
        with open_log(self.request.address, read_only=True) as log:
            return tasks(planned(log, self.request, self.table.topic), self.request.split)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # Spark has no partitions to read
            return iter(())
        return read(self.request, self.table, self.schema, partition.value)


def planned(log: Log, request: ReadRequest, topic: str) -> list[Range]:
    """The ranges that hold what was asked for, one for each partition that has some."""
    found = []
    for partition in range(log.topic(topic).partitions):
        if not request.has(partition):
            continue
        bounds = log.bounds(topic, partition)
        span = Span(bounds.start, bounds.end) & request.span(partition)
        if request.start_time is not None:
            span &= Span(low=log.offset_at(topic, partition, request.start_time))
        if request.end_time is not None:
            span &= Span(high=log.offset_at(topic, partition, request.end_time))
        if span.low < span.high:
            found.append(Range(topic, partition, span.low, span.high))
    return found


def tasks(ranges: Iterable[Range], records: int) -> list[InputPartition]:
    """A task for every range; several for a range with more than so many records."""
    return [InputPartition(part) for one in ranges for part in one.slices(-(-len(one) // records))]


def read(request: ReadRequest, table: SparkTable, schema: pa.Schema, range: Range) -> Iterator[pa.RecordBatch]:
    """The rows of a range, inside a task."""
    with open_log(request.address, read_only=True) as log:
        for batch in log.scan(range.topic, range.partition, range.start, range.end, batch=SCAN):
            for piece in pieces(batch):
                yield rows(table, range.partition, piece, schema)


def chosen(table: SparkTable, schema: StructType) -> pa.Schema:
    """The columns that the user's schema names: some or all of the table's. Errors: `BadInput` for others."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    for field in arrow:
        at = table.schema.get_field_index(field.name)
        if at < 0 or not _alike(table.schema.field(at).type, field.type):
            raise BadInput(
                f"The table has no column {field.name} of type {field.type}.",
                hint=f"Its columns are {', '.join(f'{one.name} {one.type}' for one in table.schema)}.",
            )
    return arrow


def _alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Equal but for nullability inside."""
    if pa.types.is_list(one) and pa.types.is_list(other):
        return _alike(one.value_type, other.value_type)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return [f.name for f in one] == [f.name for f in other] and all(_alike(a.type, b.type) for a, b in zip(one, other, strict=True))
    return bool(one == other)

"""`spark.read.format("headwater")`: topics and the tables of the parts. A data source in Python, without jars.

Spark finds it through `pyspark_headwater`, in every session. What is read is narrowed by options, not by filters: Spark 4.3 keeps the
filters that it pushed down with the DataFrame instead of with the query, so that a DataFrame used with two filters, or with one and
without, gives wrong answers. So no reader here takes filters, and Spark applies them itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from headwater.core.errors import BadInput, Unsupported
from headwater.log import Log
from headwater.log.opening import open_log
from headwater.spark.batches import fitted, pieces, rows
from headwater.spark.ranges import Range
from headwater.spark.requests import ReadRequest, Span, read_options
from headwater.spark.tables import PlannedTable, SparkTable, StoreTable, Table, find_any_table

NAME = "headwater"
SCAN = 16_384  # records of one batch


class Source(DataSource):
    """The format `headwater`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        request, table = self._asked()
        if isinstance(table, SparkTable | PlannedTable):
            with open_log(request.address, read_only=True) as log:
                table.check(log)
        return from_arrow_schema(table.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        request, table = self._asked()
        if isinstance(table, StoreTable):
            return ShardReader(request.check_store(), table, schema)
        if isinstance(table, PlannedTable):
            return PlanReader(request.check_planned(), table, schema)
        assert isinstance(table, SparkTable)
        return RangeReader(request.check_batch(), table, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from headwater.spark.stream import StreamReader

        request, table = self._asked()
        if not isinstance(table, SparkTable):
            raise Unsupported(f"{request.target} cannot be streamed: {table.unstreamed}.", hint=table.instead)
        return StreamReader(request.check_stream(), table, schema)

    def _asked(self) -> tuple[ReadRequest, Table]:
        table = find_any_table(self.options.get("path", ""), self.options)
        return read_options(self.options, table.options), table


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


class PlanReader(DataSourceReader):
    """Reads what a table has planned, with a task for each part."""

    def __init__(self, request: ReadRequest, table: PlannedTable, schema: StructType) -> None:
        self.request, self.table, self.schema = request, table, chosen(table, schema)

    def partitions(self) -> list[InputPartition]:
        with open_log(self.request.address, read_only=True) as log:
            return [InputPartition(part) for part in self.table.plan(log, self.request.split)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # Spark has no partitions to read
            return
        with open_log(self.request.address, read_only=True) as log:
            for made in self.table.rows(log, partition.value, self.schema.names):
                yield fitted(made, self.schema)


class ShardReader(DataSourceReader):
    """Reads a store, with a task for each shard."""

    def __init__(self, request: ReadRequest, table: StoreTable, schema: StructType) -> None:
        self.data, self.table, self.schema = Path(request.address.path), table, chosen(table, schema)

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(shard) for shard in self.table.shards(self.data)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for made in self.table.rows(partition.value, self.schema.names) if partition.value is not None else ():
            yield fitted(made, self.schema)


def planned(log: Log, request: ReadRequest, topic: str) -> list[Range]:
    """The ranges that hold what was asked for, one for each partition that has some."""
    ranges = []
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
            ranges.append(Range(topic, partition, span.low, span.high))
    return ranges


def tasks(ranges: Iterable[Range], records: int) -> list[InputPartition]:
    """A task for every range; several for a range with more than so many records."""
    return [InputPartition(part) for part_range in ranges for part in part_range.slices(-(-len(part_range) // records))]


def read(request: ReadRequest, table: SparkTable, schema: pa.Schema, range: Range) -> Iterator[pa.RecordBatch]:
    """The rows of a range, inside a task."""
    with open_log(request.address, read_only=True) as log:
        for batch in log.scan(range.topic, range.partition, range.start, range.end, batch=SCAN):
            for piece in pieces(batch):
                yield rows(table, range.partition, piece, schema)


def chosen(table: Table, schema: StructType) -> pa.Schema:
    """The columns that the user's schema names: some or all of the table's. Errors: `BadInput` for others."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    for field in arrow:
        at = table.schema.get_field_index(field.name)
        if at < 0 or not _alike(table.schema.field(at).type, field.type):
            raise BadInput(
                f"The table has no column {field.name} of type {field.type}.",
                hint=f"Its columns are {', '.join(f'{field.name} {field.type}' for field in table.schema)}.",
            )
    return arrow


def _alike(kind: pa.DataType, other: pa.DataType) -> bool:
    """Equal but for nullability inside."""
    if pa.types.is_list(kind) and pa.types.is_list(other):
        return _alike(kind.value_type, other.value_type)
    if pa.types.is_struct(kind) and pa.types.is_struct(other):
        return [f.name for f in kind] == [f.name for f in other] and all(_alike(a.type, b.type) for a, b in zip(kind, other, strict=True))
    return bool(kind == other)

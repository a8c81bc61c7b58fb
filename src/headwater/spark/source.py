"""`spark.read.format("headwater")`: topics, and what the parts register, as tables. No jars: a data source in Python.

Spark finds it through `pyspark_headwater`, in every session. Where Spark's setting for filter push-down is on (`headwater.spark.attach`
turns it on), filters choose the records that are read; where it is off, Spark filters what it is sent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from headwater.core.errors import BadInput
from headwater.log import Log
from headwater.log.opening import open_log
from headwater.spark.batches import masked, pieces, rows
from headwater.spark.filters import Span, push
from headwater.spark.ranges import Range
from headwater.spark.requests import Request, read_options
from headwater.spark.tables import Table, find_table

NAME = "headwater"
PLANNER = "pyspark.sql.worker.data_source_pushdown_filters"
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
        kind = PushdownReader if planning_with_filters() else Reader
        return kind(read_options(self.options).check_batch(), find_table(self.options["path"], self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from headwater.spark.stream import StreamReader

        return StreamReader(read_options(self.options).check_stream(), find_table(self.options["path"], self.options), schema)


class Slice(InputPartition):
    """A range for one task."""

    def __init__(self, range: Range) -> None:
        super().__init__(range)


class Reader(DataSourceReader):
    """Reads a table up to the durable end at the time of planning."""

    def __init__(self, request: Request, table: Table, schema: StructType) -> None:
        self.request, self.table, self.schema = request, table, chosen(table, schema)

    def partitions(self) -> list[InputPartition]:
        with open_log(self.request.address, read_only=True) as log:
            return [Slice(one) for whole in planned(log, self.request, self.table.topic) for one in split(whole, self.request.split)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # Spark's way to say that there are no partitions
            return iter(())
        return read(self.request, self.table, self.schema, partition.value)


class PushdownReader(Reader):
    """Takes filters. Spark refuses to run a reader that does in a session whose setting for push-down is off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        wanted, left = push(self.request.wanted, filters)
        self.request = msgspec.structs.replace(self.request, wanted=wanted)
        return left


def planning_with_filters() -> bool:
    """Whether this process is the one in which Spark plans reads with push-down.

    Registering a second source that takes filters would do as well, but costs every session two seconds at its start. Should Spark
    rename its program, reads stay right, only that Spark filters them itself; a test would tell.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return PLANNER in sys.modules or (main is not None and main.name == PLANNER)


def planned(log: Log, request: Request, topic: str) -> list[Range]:
    """The ranges that hold what was asked for, one for each partition that has some."""
    found = []
    for partition in range(log.topic(topic).partitions):
        if not request.wanted.has(partition):
            continue
        bounds = log.bounds(topic, partition)
        span = Span(bounds.start, bounds.end) & request.span(partition) & request.wanted.offsets
        starts = [time for time in (request.start_time, request.wanted.timestamps.low) if time]
        if starts:  # records before are earlier; a filter's upper time cuts nothing, for a later record may be earlier, too
            span &= Span(low=log.offset_at(topic, partition, max(starts)))
        if request.end_time is not None:
            span &= Span(high=log.offset_at(topic, partition, request.end_time))
        if span.low < span.high:
            found.append(Range(topic, partition, span.low, span.high))
    return found


def split(range: Range, records: int) -> list[Range]:
    return range.slices(-(-len(range) // records))


def read(request: Request, table: Table, schema: pa.Schema, range: Range) -> Iterator[pa.RecordBatch]:
    """The rows of a range, inside a task."""
    with open_log(request.address, read_only=True) as log:
        for batch in log.scan(range.topic, range.partition, range.start, range.end, batch=SCAN):
            for piece in pieces(masked(batch, request.wanted.timestamps)):
                yield rows(table, range.partition, piece, schema)


def chosen(table: Table, schema: StructType) -> pa.Schema:
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

"""The tables that Spark can load: `topic:NAME`, the tables of the parts, and those of other packages.

A part names in its `PartDefinition.tables`, under a scheme, a function `(name, options)` that returns a `SparkTable` over a topic, a
`PlannedTable` over chosen records of a log, or a `StoreTable` over a store. Another package names one under the entry point group
`headwater.spark.tables`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.core.errors import BadInput
from headwater.log import Log
from headwater.log.layout import decode_headers
from headwater.log.record import check_topic_name
from headwater.wire.part import load

GROUP = "headwater.spark.tables"
_PARTS = "headwater.parts:tables"  # the list of parts lies above Spark, so it is looked up when a table is asked for
HEADERS = pa.list_(pa.struct([pa.field("name", pa.string(), nullable=False), pa.field("value", pa.binary())]))


class Table(ABC):
    """A table for Spark."""

    schema: pa.Schema  # every column, in types that Spark has: no views, no unsigned numbers, times as timestamp("us", "UTC")
    options: Mapping[str, str] = {}  # those that only this table has, and what each is; they are given to the function that makes it
    unstreamed: str = "it is no log"  # why there is no stream of a table that is not over a topic
    instead: str = "Use read instead of readStream."  # what to do then


class SparkTable(Table):
    """Rows made of the records of one topic, batch by batch."""

    topic: str

    def check(self, log: Log) -> None:
        """Errors: `NotFound` where there is nothing of this name, so that `load()` tells it, and not the first action."""
        log.topic(self.topic)

    @abstractmethod
    def rows(self, partition: int, batch: pa.RecordBatch, wanted: Sequence[str]) -> Mapping[str, pa.Array]:
        """The `wanted` columns of the rows that a batch of records gives: as many rows as it likes, all columns of one length.

        The batch has the log's columns (`headwater.log.arrow.SCHEMA`); key, value and headers may be `binary` instead of views.
        Types need only be castable to those of `schema`.
        """


class PlannedTable(Table):
    """Rows of a log at places that the part finds when a read is planned. Each part of the plan is one task. It is not streamed."""

    @abstractmethod
    def check(self, log: Log) -> None:
        """As `SparkTable.check`."""

    @abstractmethod
    def plan(self, log: Log, split: int) -> Sequence[Any]:
        """What is to be read now: parts of at most about `split` rows, which travel to tasks. Creates nothing."""

    @abstractmethod
    def rows(self, log: Log, part: Any, wanted: Sequence[str]) -> Iterator[Mapping[str, pa.Array]]:
        """The `wanted` columns of a part, batch by batch. Types as of `SparkTable.rows`. Errors: `OffsetGone`: never fewer rows."""


class StoreTable(Table):
    """Rows of a part's store. Each shard is one task, which runs the part's own Python. It can be read, and not streamed."""

    unstreamed = "it is a store"

    @abstractmethod
    def shards(self, data: Path) -> Sequence[str]:
        """The files of the shards in a data directory; tasks open them by these paths. Creates nothing. Errors: `NotFound`."""

    @abstractmethod
    def rows(self, shard: str, wanted: Sequence[str]) -> Iterator[Mapping[str, pa.Array]]:
        """The `wanted` columns of a shard as of one moment, batch by batch. Types as of `SparkTable.rows`."""


Factory = Callable[[str, Mapping[str, str]], Table]


class TopicTable(SparkTable):
    """The records of a topic as they are."""

    schema = pa.schema(
        [
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", pa.timestamp("us", "UTC"), nullable=False),
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("headers", HEADERS, nullable=False),
            pa.field("mode", pa.int8(), nullable=False),
            pa.field("op", pa.int8(), nullable=False),
        ]
    )

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        check_topic_name(name)
        self.topic = name

    def rows(self, partition: int, batch: pa.RecordBatch, wanted: Sequence[str]) -> Mapping[str, pa.Array]:
        made: dict[str, pa.Array] = {}
        for name in wanted:
            if name == "partition":
                made[name] = pa.array(np.full(batch.num_rows, partition, np.int32))
            elif name == "timestamp":
                made[name] = batch.column(name).cast(pa.timestamp("ms", "UTC"))
            elif name == "headers":
                made[name] = headers(batch.column(name))
            else:
                made[name] = batch.column(name)
        return made


def headers(blocks: pa.Array) -> pa.Array:
    """Header blocks as lists of names and values; a record without headers has an empty list."""
    if blocks.null_count == len(blocks):
        return pa.ListArray.from_arrays(np.zeros(len(blocks) + 1, np.int32), pa.array([], HEADERS.value_type), HEADERS)
    each = ([] if block is None else [{"name": n, "value": v} for n, v in decode_headers(block)] for block in blocks.to_pylist())
    return pa.array(each, HEADERS)


def find_table(target: str, options: Mapping[str, str]) -> SparkTable:
    """The table of `scheme:name`, over a topic. Errors: as `find_any_table`; `BadInput` for another one, which has no records to follow."""
    table = find_any_table(target, options)
    if not isinstance(table, SparkTable):
        raise BadInput(f"{target} has no records to follow: {table.unstreamed}.", hint="Read it with Spark: spark.read.format(...).")
    return table


def find_any_table(target: str, options: Mapping[str, str]) -> Table:
    """The table of `scheme:name`. Errors: `BadInput` for a scheme that no package has registered, with those that exist."""
    ours: dict[str, str] = load(_PARTS)()
    theirs = {entry.name: entry for entry in entry_points(group=GROUP)}
    known = {"topic", *ours, *theirs}
    scheme, colon, name = target.partition(":")
    if not colon or not name or scheme not in known:
        examples = ", ".join(f"{scheme}:NAME" for scheme in sorted(known))
        raise BadInput(f"{target!r} names nothing that can be loaded.", hint=f"Load one of {examples}.")
    if scheme == "topic":
        return TopicTable(name, options)
    factory: Factory = load(ours[scheme]) if scheme in ours else theirs[scheme].load()
    return factory(name, options)

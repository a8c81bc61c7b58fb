"""`spark.readStream.format("headwater")`: exactly the durable records, each once; positions are Spark's to keep, in its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from headwater.core.errors import BadBounds, Conflict, OffsetGone
from headwater.log import Log
from headwater.log.opening import open_log
from headwater.spark.ranges import Range
from headwater.spark.requests import ReadRequest
from headwater.spark.source import chosen, read, tasks
from headwater.spark.tables import SparkTable

Ends = dict[int, int]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in the driver, reads them in tasks.

    A position is `{"generation": …, "offsets": {partition: next offset}}`. Records are never passed over in silence: a position below the
    log's start, beyond its end, or of a topic that was deleted and created again, is an error.
    """

    def __init__(self, request: ReadRequest, table: SparkTable, schema: StructType) -> None:
        self.request, self.table, self.schema = request, table, chosen(table, schema)
        self._log: Log | None = None
        self._last: Ends | None = None  # where a stream of what is available now ends

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_log": None}  # tasks open their own

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        log, topic, offsets = self._opened(), self.table.topic, {}
        for partition in self._partitions():
            bounds = log.bounds(topic, partition)
            first = bounds.start
            if self.request.latest:
                first = bounds.end
            elif self.request.start_time is not None:
                first = log.offset_at(topic, partition, self.request.start_time)
            offsets[partition] = min(max(first, self.request.span(partition).low), bounds.end)
        return self._position(offsets)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.request.limit is None else ReadMaxRows(self.request.limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begins = self._checked(start)
        ends = self._ends() if self._last is None else {p: max(end, begins.get(p, 0)) for p, end in self._last.items()}
        if isinstance(limit, ReadMaxRows):
            ends = advanced(begins, ends, limit.max_rows)
        return self._position(ends)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._position(self._ends())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = self._ends()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begins = self._checked(start)
        ranges = [Range(self.table.topic, p, begins.get(p, 0), stop) for p, stop in _offsets(end).items() if begins.get(p, 0) < stop]
        return tasks(ranges, self.request.split)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read(self.request, self.table, self.schema, partition.value)

    def stop(self) -> None:
        if self._log is not None:
            self._log.close()

    def _opened(self) -> Log:
        if self._log is None:
            self._log = open_log(self.request.address, read_only=True)
        return self._log

    def _partitions(self) -> list[int]:
        return [p for p in range(self._opened().topic(self.table.topic).partitions) if self.request.has(p)]

    def _ends(self) -> Ends:
        return {p: self._opened().bounds(self.table.topic, p).end for p in self._partitions()}

    def _position(self, offsets: Ends) -> dict[str, Any]:
        generation = self._opened().topic(self.table.topic).generation
        return {"generation": generation, "offsets": {str(p): offsets[p] for p in sorted(offsets)}}

    def _checked(self, position: dict[str, Any]) -> Ends:
        """The offsets of a position from which reading can go on."""
        topic, offsets = self.table.topic, _offsets(position)
        if position["generation"] != self._opened().topic(topic).generation:
            raise Conflict(
                f"Topic {topic} was deleted and created again since the checkpoint.",
                hint="Start the stream with a new checkpoint location.",
            )
        for partition in self._partitions():
            bounds, at = self._opened().bounds(topic, partition), offsets.setdefault(partition, 0)
            if at < bounds.start:
                raise OffsetGone(
                    f"The stream has read {topic} {partition} up to offset {at}, but the log begins at {bounds.start}: records are gone.",
                    hint="Start it with a new checkpoint location to go on with what is there.",
                )
            if at > bounds.end:
                raise BadBounds(
                    f"The stream has read {topic} {partition} up to offset {at}, but the log ends at {bounds.end}.",
                    hint="Was the log restored from an older copy? Start the stream with a new checkpoint location.",
                )
        return offsets


def advanced(begins: Mapping[int, int], ends: Mapping[int, int], limit: int) -> Ends:
    """Ends that take `limit` records, or all when there are fewer: of each partition its share of what is waiting."""
    waiting = {p: end - begins.get(p, 0) for p, end in ends.items()}
    total = sum(waiting.values())
    if total <= limit:
        return dict(ends)
    taken = {p: count * limit // total for p, count in waiting.items()}
    rest = limit - sum(taken.values())
    for p in sorted(waiting, key=lambda p: taken[p] - waiting[p]):  # the fullest first
        extra = min(rest, waiting[p] - taken[p])
        taken[p] += extra
        rest -= extra
    return {p: begins.get(p, 0) + taken[p] for p in ends}


def _offsets(position: dict[str, Any]) -> Ends:
    return {int(p): offset for p, offset in position["offsets"].items()}

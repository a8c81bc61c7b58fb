from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from headwater.core.errors import BadBounds, BadInput, Conflict, OffsetGone
from headwater.log import Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.spark.requests import read_options
from headwater.spark.stream import StreamReader, advanced
from headwater.spark.tables import TopicTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL = ReadAllAvailable()
TIME = 1_700_000_000_000


@pytest.fixture
def events(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic("events", partitions=2)
        put(log, 0, 10)
        put(log, 1, 4)
        yield log


def put(log: EmbeddedLog, partition: int, count: int) -> None:
    first = log.bounds("events", partition).end
    log.append("events", partition, [Record(b"k", b"%d" % i, timestamp=TIME + i * 1000) for i in range(first, first + count)])


def stream_of(log: EmbeddedLog, **options: str) -> StreamReader:
    request = read_options({"data": str(log.data)} | options).check_stream()
    return StreamReader(request, TopicTable("events", {}), from_arrow_schema(TopicTable.schema))


def offsets(position: dict[str, Any]) -> list[int]:
    return list(position["offsets"].values())


@settings(deadline=None)
@given(
    each=st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=6),
    limit=st.integers(1, 120),
)
def test_a_limit_is_used_whole_and_shared_by_what_is_waiting(each: dict[int, tuple[int, int]], limit: int) -> None:
    begins = {p: start for p, (start, _) in each.items()}
    ends = {p: start + more for p, (start, more) in each.items()}
    reached = advanced(begins, ends, limit)
    assert all(begins[p] <= reached[p] <= ends[p] for p in each)
    taken = sum(reached[p] - begins[p] for p in each)
    assert taken == min(limit, sum(ends[p] - begins[p] for p in each))


class TestPositions:
    def test_begin_at_the_start_of_the_log(self, events: EmbeddedLog) -> None:
        assert offsets(stream_of(events).initialOffset()) == [0, 0]
        events.delete_before("events", 0, 3)
        assert offsets(stream_of(events).initialOffset()) == [3, 0]

    def test_or_where_the_options_say(self, events: EmbeddedLog) -> None:
        assert offsets(stream_of(events, startOffset="latest").initialOffset()) == [10, 4]
        assert offsets(stream_of(events, startOffset="6").initialOffset()) == [6, 4]
        assert offsets(stream_of(events, startTimestamp="2023-11-14T22:13:22").initialOffset()) == [2, 2]
        assert list(stream_of(events, partition="1").initialOffset()["offsets"]) == ["1"]

    def test_go_on_to_the_durable_end_or_by_the_limit(self, events: EmbeddedLog) -> None:
        stream = stream_of(events, maxRecordsPerTrigger="7")
        begin = stream.initialOffset()
        assert stream.getDefaultReadLimit() == ReadMaxRows(7)
        assert offsets(stream.latestOffset(begin, ALL)) == [10, 4]
        assert sum(offsets(stream.latestOffset(begin, ReadMaxRows(7)))) == 7
        assert stream_of(events).getDefaultReadLimit() == ALL
        assert offsets(stream.reportLatestOffset()) == [10, 4]

    def test_stay_when_nothing_is_new(self, events: EmbeddedLog) -> None:
        stream = stream_of(events)
        end = stream.latestOffset(stream.initialOffset(), ALL)
        again = stream.latestOffset(json.loads(json.dumps(end)), ALL)
        assert json.dumps(again) == json.dumps(end), "Spark compares the text"

    def test_available_now_ends_where_it_began_to_look(self, events: EmbeddedLog) -> None:
        stream = stream_of(events)
        stream.prepareForTriggerAvailableNow()
        put(events, 0, 5)
        assert offsets(stream.latestOffset(stream.initialOffset(), ALL)) == [10, 4]

    def test_a_batch_is_cut_into_ranges_for_tasks(self, events: EmbeddedLog) -> None:
        stream = stream_of(events, splitRecords="4")
        begin = stream.initialOffset()
        ranges = [one.value for one in stream.partitions(begin, stream.latestOffset(begin, ALL))]
        assert [(one.partition, one.start, one.end) for one in ranges] == [(0, 0, 3), (0, 3, 6), (0, 6, 10), (1, 0, 4)]
        assert stream.partitions(begin, begin) == []

    def test_records_that_are_gone_are_not_passed_over(self, events: EmbeddedLog) -> None:
        stream = stream_of(events)
        begin = stream.initialOffset()
        events.delete_before("events", 0, 3)
        with pytest.raises(OffsetGone, match="up to offset 0, but the log begins at 3"):
            stream.latestOffset(begin, ALL)

    def test_a_position_beyond_the_end_is_not_waited_for(self, events: EmbeddedLog) -> None:
        stream = stream_of(events)
        beyond = stream.initialOffset() | {"offsets": {"0": 50, "1": 0}}
        with pytest.raises(BadBounds, match="the log ends at 10"):
            stream.latestOffset(beyond, ALL)

    def test_a_topic_of_the_same_name_is_another_one(self, events: EmbeddedLog) -> None:
        stream = stream_of(events)
        begin = stream.initialOffset()
        events.delete_topic("events")
        events.create_topic("events", partitions=2)
        with pytest.raises(Conflict, match="deleted and created again"):
            stream_of(events).latestOffset(begin, ALL)

    def test_travels_to_tasks_without_its_open_log(self, events: EmbeddedLog) -> None:
        stream = stream_of(events)
        begin = stream.initialOffset()
        (first, *_) = stream.partitions(begin, stream.latestOffset(begin, ALL))
        copy = pickle.loads(pickle.dumps(stream))
        assert [row["value"] for batch in copy.read(first) for row in batch.to_pylist()] == [b"%d" % i for i in range(10)]
        stream.stop()

    def test_an_end_makes_no_sense(self, events: EmbeddedLog) -> None:
        with pytest.raises(BadInput, match="do not fit a stream"):
            stream_of(events, endOffset="5")


@pytest.mark.spark
def test_a_restart_goes_on_from_the_checkpoint_without_loss_or_doubles(spark: SparkSession, events: EmbeddedLog, tmp_path: Path) -> None:
    out, kept = str(tmp_path / "out"), str(tmp_path / "checkpoint")

    def run() -> list[int]:
        reader = spark.readStream.format("headwater").option("data", str(events.data)).option("maxRecordsPerTrigger", 10)
        writer = reader.load("topic:events").writeStream.format("parquet").option("path", out).option("checkpointLocation", kept)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [batch["numInputRows"] for batch in query.recentProgress if batch["numInputRows"]]

    def found() -> list[tuple[int, int, bytes]]:
        rows = spark.read.parquet(out).orderBy("partition", "offset").collect()
        return [(row.partition, row.offset, row.value) for row in rows]

    assert run() == [10, 4]
    put(events, 0, 2)
    put(events, 1, 2)
    assert run() == [4]
    assert run() == []
    assert found() == [(0, i, b"%d" % i) for i in range(12)] + [(1, i, b"%d" % i) for i in range(6)]

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater.core.settings import Settings, SparkSettings
from headwater.log import Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.adaptors import file
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.running.run import Run
from headwater.spark import attach
from headwater.spark.ranges import Range
from headwater.spark.requests import read_options
from headwater.spark.source import planned, tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FROZEN = """\
root
 |-- partition: integer (nullable = false)
 |-- offset: long (nullable = false)
 |-- timestamp: timestamp (nullable = false)
 |-- key: binary (nullable = true)
 |-- value: binary (nullable = true)
 |-- headers: array (nullable = false)
 |    |-- element: struct (containsNull = true)
 |    |    |-- name: string (nullable = false)
 |    |    |-- value: binary (nullable = true)
 |-- mode: byte (nullable = false)
 |-- op: byte (nullable = false)
"""


def plan_of(log: EmbeddedLog, **options: str) -> list[tuple[int, int, int]]:
    request = read_options({"data": str(log.data)} | options)
    return [(one.partition, one.start, one.end) for one in planned(log, request, "orders")]


class TestPlanned:
    def test_every_partition_from_its_start_to_its_durable_end(self, log: EmbeddedLog) -> None:
        assert plan_of(log) == [(0, 0, 1000), (1, 0, 1000)]

    def test_options_cut_it(self, log: EmbeddedLog) -> None:
        assert plan_of(log, partition="1", startOffset="10", endOffset="5000") == [(1, 10, 1000)]
        assert plan_of(log, startOffset='{"0": 990}', endOffset='{"1": 3}') == [(0, 990, 1000), (1, 0, 3)]

    def test_times_are_looked_up(self, log: EmbeddedLog) -> None:
        assert plan_of(log, startTimestamp="2023-11-14T22:13:30", endTimestamp="2023-11-14T22:13:32.5") == [(0, 10, 13), (1, 10, 13)]

    def test_nothing_asked_for_is_nothing_to_read(self, log: EmbeddedLog) -> None:
        assert plan_of(log, startOffset="1000") == []
        assert plan_of(log, partition="7") == []
        assert plan_of(log, startTimestamp="2030-01-01") == []

    def test_what_was_deleted_is_not_asked_for(self, tmp_path: Path) -> None:
        with EmbeddedLog(tmp_path) as log:
            log.create_topic("orders")
            log.append("orders", 0, [Record(b"k", b"v")] * 10)
            log.delete_before("orders", 0, 4)
            assert plan_of(log) == [(0, 4, 10)]

    def test_a_large_partition_is_for_several_tasks(self) -> None:
        assert [len(one.value) for one in tasks([Range("t", 0, 0, 10)], 4)] == [3, 3, 4]
        assert [one.value for one in tasks([Range("t", 0, 0, 10)], 10)] == [Range("t", 0, 0, 10)]


@pytest.mark.spark
class TestRead:
    @pytest.fixture
    def orders(self, spark: SparkSession, log: EmbeddedLog) -> DataFrame:
        return spark.read.format("headwater").option("data", str(log.data)).load("topic:orders")

    def test_the_schema_is_frozen(self, orders: DataFrame) -> None:
        assert orders._jdf.schema().treeString() == FROZEN

    def test_every_record_comes_as_it_is(self, orders: DataFrame, log: EmbeddedLog) -> None:
        rows = orders.orderBy("partition", "offset").collect()
        records = [(p, record) for p in range(2) for record in log.read("orders", p, 0, limit=1000)]
        assert len(rows) == len(records) == 2000
        for row, (partition, record) in zip(rows, records, strict=True):
            assert (row.partition, row.offset, row.key, row.value) == (partition, record.offset, record.key, record.value)
            assert tuple((header.name, header.value) for header in row.headers) == record.headers
            assert (row.mode, row.op, int(row.timestamp.timestamp() * 1000)) == (record.mode, record.op, record.timestamp)

    def test_a_schema_chooses_columns(self, spark: SparkSession, log: EmbeddedLog) -> None:
        reader = spark.read.format("headwater").schema("value binary, offset long").option("data", str(log.data))
        frame = reader.option("partition", "0").option("startOffset", "998").load("topic:orders")
        assert [tuple(row) for row in frame.collect()] == [(b"v998", 998), (b"v999", 999)]

    def test_the_messages_of_a_pipeline(self, spark: SparkSession, tmp_path: Path) -> None:
        (tmp_path / "orders.jsonl").write_text("".join(f'{{"_id":{n},"eur":{n}.50}}\n' for n in range(30)))
        pipeline = Pipeline("shop")
        pipeline.source("in", file(str(tmp_path / "orders.jsonl"))).save("out", file(f"{tmp_path}/out/"))
        with EmbeddedLog(tmp_path / "data") as log:
            settings = Settings(data=tmp_path / "data", spark=SparkSettings(start="never"))
            assert Run(pipeline, log, settings).go().state == "done"
        reader = spark.read.format("headwater").option("data", f"{tmp_path}/data").option("splitRecords", 10)
        frame = reader.option("startingOffset", 5).load("pipeline:shop")
        assert frame._jdf.schema().treeString().count("\n |--") == 8
        total = "sum(from_json(data, 'eur DECIMAL(9,2)').eur) AS total"
        found = frame.selectExpr(total, "count(*) AS rows", "max(namespace) AS of").first()
        assert found is not None
        assert (str(found.total), found.rows, found["of"]) == (str(sum(range(5, 30)) + 12.5) + "0", 25, "orders")

    def test_a_column_that_is_not_there_is_refused(self, spark: SparkSession, log: EmbeddedLog) -> None:
        frame = spark.read.format("headwater").schema("offset string").option("data", str(log.data)).load("topic:orders")
        with pytest.raises(Exception, match="The table has no column offset of type string"):
            frame.collect()

    @pytest.mark.parametrize("pushed", ["false", "true"])
    def test_one_frame_with_several_filters_gives_each_its_answer(self, spark: SparkSession, log: EmbeddedLog, pushed: str) -> None:
        """A reader that takes filters fails this: Spark would keep the last one for all queries of the frame."""
        spark.conf.set("spark.sql.python.filterPushdown.enabled", pushed)
        orders = spark.read.format("headwater").option("data", str(log.data)).load("topic:orders")
        few, some = orders.where("partition = 1 and offset < 3"), orders.where("timestamp < '2023-11-14 22:13:25Z'")
        assert (few.count(), orders.count(), some.count(), few.count()) == (3, 2000, 10, 3)
        assert few.unionAll(some).unionAll(orders).count() == 2013
        assert few.alias("a").join(orders.alias("b"), "offset").count() == 6

    def test_options_choose_what_is_read(self, spark: SparkSession, log: EmbeddedLog) -> None:
        reader = spark.read.format("headwater").option("data", str(log.data)).option("partition", "1").option("endOffset", 5)
        frame = reader.option("startTimestamp", "2023-11-14T22:13:22Z").load("topic:orders")
        assert [row.offset for row in frame.collect()] == [2, 3, 4]
        assert frame.rdd.getNumPartitions() == 1

    def test_a_frame_stays_as_it_was_when_it_was_first_read(self, spark: SparkSession, log: EmbeddedLog) -> None:
        log.create_topic("growing")
        log.append("growing", 0, [Record(b"k", b"v")] * 3)
        reader = spark.read.format("headwater").option("data", str(log.data))
        frame = reader.load("topic:growing")
        assert frame.count() == 3
        log.append("growing", 0, [Record(b"k", b"v")])
        assert (frame.count(), reader.load("topic:growing").count()) == (3, 4)

    def test_a_session_can_be_told_of_the_format(self, spark: SparkSession, log: EmbeddedLog) -> None:
        attach(spark)
        assert spark.read.format("headwater").option("data", str(log.data)).load("topic:orders").count() == 2000

    def test_large_partitions_are_read_by_several_tasks(self, spark: SparkSession, log: EmbeddedLog) -> None:
        frame = spark.read.format("headwater").option("data", str(log.data)).option("splitRecords", 300).load("topic:orders")
        assert frame.rdd.getNumPartitions() == 8
        assert frame.groupBy("partition").count().orderBy("partition").collect() == [(0, 1000), (1, 1000)]

    def test_an_empty_answer_is_no_error(self, spark: SparkSession, log: EmbeddedLog) -> None:
        assert spark.read.format("headwater").option("data", str(log.data)).option("partition", "9").load("topic:orders").count() == 0

    def test_a_directory_given_relative_is_relative_to_this_process(self, spark: SparkSession, log: EmbeddedLog) -> None:
        relative = os.path.relpath(log.data)
        assert spark.read.format("headwater").option("data", relative).load("topic:orders").count() == 2000

    @pytest.mark.parametrize(
        ("target", "options", "told"),
        [
            ("topic:nothing", {}, "There is no topic nothing"),
            ("ledger:q", {}, "Load one of collection:NAME, feed:NAME, journal:NAME, pipeline:NAME, queue:NAME, topic:NAME"),
            ("topic:orders", {"startOfset": "1"}, "Did you mean startOffset?"),
        ],
    )
    def test_mistakes_are_told_by_load(
        self, spark: SparkSession, log: EmbeddedLog, target: str, options: dict[str, Any], told: str
    ) -> None:
        with pytest.raises(Exception, match=told.replace("?", r"\?")):
            spark.read.format("headwater").option("data", str(log.data)).options(**options).load(target)

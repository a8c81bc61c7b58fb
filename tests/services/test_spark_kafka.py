"""Spark on this machine reading a real Kafka: ranges, tables and streams."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from quick_spark import quick

from headwater.cluster.kafka import KafkaOwnership
from headwater.log import Log, Record
from headwater.log.kafka.log import KafkaLog
from headwater.spark import session
from headwater.spark.ranges import Range, Runner
from headwater.testing.log_ground import fresh
from headwater.wal.region import open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import RegionTopics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.service("kafka")]
COUNTS = pa.schema([("records", pa.int64()), ("bytes", pa.int64())])
EACH = 5000


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # tasks cannot import the tests
    started = session(quick(), archive="use")
    yield started
    started.stop()
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def log(kafka: str) -> Iterator[KafkaLog]:
    with KafkaLog(kafka) as opened:
        yield opened


@pytest.fixture(scope="module")
def topic(log: KafkaLog) -> str:
    """Two partitions of 5000 records each."""
    name = log.create_topic(fresh("spark"), partitions=2).name
    for partition in range(2):
        log.append(name, partition, [Record(b"k%d" % i, b"v%05d" % i, headers=(("n", b"%d" % i),)) for i in range(EACH)])
    return name


def ranges(topic: str) -> list[Range]:
    return [one for partition in range(2) for one in Range(topic, partition, 0, EACH).slices(2)]


def count(log: Log, slice: Range) -> pa.RecordBatch:
    rows = size = 0
    for batch in log.scan(slice.topic, slice.partition, slice.start, slice.end):
        rows += batch.num_rows
        size += sum(map(len, batch.column("value").to_pylist()))
    return pa.RecordBatch.from_pydict({"records": [rows], "bytes": [size]}, schema=COUNTS)


def test_ranges_are_read_by_the_tasks(spark: SparkSession, log: KafkaLog, topic: str) -> None:
    with Runner(spark, log.address) as runner:
        tables = runner.run(ranges(topic), count, schema=COUNTS)
    assert [table.to_pylist() for table in tables] == [[{"records": EACH // 2, "bytes": EACH // 2 * 6}]] * 4


def test_a_killed_python_worker_costs_nothing_but_time(spark: SparkSession, log: KafkaLog, topic: str, tmp_path: Path) -> None:
    flag = tmp_path / "flag"

    def killed(log: Log, slice: Range) -> pa.RecordBatch:
        counted = count(log, slice)
        if slice.start and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return counted

    with Runner(spark, log.address) as runner:
        tables = runner.run(ranges(topic), killed, schema=COUNTS)
    assert flag.exists()
    assert sum(table["records"][0].as_py() for table in tables) == 2 * EACH


def test_tasks_may_append(spark: SparkSession, log: KafkaLog, topic: str) -> None:
    copies = log.create_topic(fresh("copies"), partitions=2).name

    def copy(log: Log, slice: Range) -> None:
        for batch in log.scan(slice.topic, slice.partition, slice.start, slice.end):
            log.append_arrow(copies, slice.partition, batch.select(["key", "value"]))

    with Runner(spark, log.address) as runner:
        runner.run(ranges(topic), copy, schema=COUNTS, read_only=False)
    assert [log.bounds(copies, partition).end for partition in range(2)] == [EACH, EACH]


def test_a_topic_is_a_table(spark: SparkSession, kafka: str, topic: str) -> None:
    frame = spark.read.format("headwater").option("servers", kafka).option("splitRecords", 2000).load(f"topic:{topic}")
    assert frame.rdd.getNumPartitions() == 6
    assert frame.groupBy("partition").count().orderBy("partition").collect() == [(0, EACH), (1, EACH)]
    (row,) = frame.where("partition = 1 and offset = 4321").collect()
    assert (row.key, row.value, row.headers[0].name, row.headers[0].value) == (b"k4321", b"v04321", "n", b"4321")


def test_options_reach_kafkas_client(spark: SparkSession, kafka: str, topic: str) -> None:
    reader = spark.read.format("headwater").option("servers", kafka).option("kafka.client.id", "mine").option("startOffset", EACH - 3)
    assert reader.load(f"topic:{topic}").count() == 6
    with pytest.raises(Exception, match=r"no\.such\.setting"):
        reader.option("kafka.no.such.setting", "1").load(f"topic:{topic}").count()


def test_offsets_that_hold_no_record_are_passed_over(spark: SparkSession, log: KafkaLog, kafka: str) -> None:
    """A transaction's end takes an offset: counts go by records, ends by positions."""
    name = log.create_topic(fresh("transactions")).name
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": fresh("id")})
    producer.init_transactions(60)
    for value in (b"a", b"b"):
        producer.begin_transaction()
        producer.produce(name, value, partition=0)
        producer.commit_transaction(60)
    while log.bounds(name, 0).end < 4:  # the broker answers before it has written the marker
        pass
    with Runner(spark, log.address) as runner:
        (table,) = runner.run([Range(name, 0, 0, 4)], count, schema=COUNTS)
    assert table["records"].to_pylist() == [2]
    frame = spark.read.format("headwater").option("servers", kafka).load(f"topic:{name}")
    assert [(row.offset, row.value) for row in frame.collect()] == [(0, b"a"), (2, b"b")]


def test_a_stream_goes_on_from_its_checkpoint(spark: SparkSession, log: KafkaLog, kafka: str, tmp_path: Path) -> None:
    name = log.create_topic(fresh("stream"), partitions=2).name
    log.append(name, 0, [Record(b"k", b"%d" % i) for i in range(6)])

    def run() -> list[tuple[int, int]]:
        frame = spark.readStream.format("headwater").option("servers", kafka).load(f"topic:{name}")
        writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        writer.option("checkpointLocation", str(tmp_path / "kept")).trigger(availableNow=True).start().awaitTermination()
        rows = spark.read.parquet(str(tmp_path / "out")).orderBy("partition", "offset").collect()
        return [(row.partition, row.offset) for row in rows]

    assert run() == [(0, i) for i in range(6)]
    log.append(name, 1, [Record(b"k", b"x")] * 2)
    assert run() == [(0, i) for i in range(6)] + [(1, 0), (1, 1)]


async def written(log: KafkaLog, topics: RegionTopics) -> None:
    """Two payloads of table 1, of which one is flushed, and one of table 2^64-1."""
    create_region(log, topics)
    with KafkaOwnership(log, group=fresh("owners"), session=6.0) as owners:
        region = await open_region(log, owners, topics)
        await region.write(1, [b"a", b"b"])
        await region.write(2**64 - 1, [b"far"])
        await region.mark_delete_up_to(1, 1)
        await region.close()


def test_a_region_as_a_table(spark: SparkSession, log: KafkaLog, kafka: str) -> None:
    topics = RegionTopics(fresh("wal").replace("_", "-"), 7)
    asyncio.run(written(log, topics))
    reading = spark.read.format("headwater").option("servers", kafka)
    live = sorted((int(row["table"]), row["sequence"], bytes(row["payload"])) for row in reading.load(f"wal:{topics}").collect())
    assert live == [(1, 2, b"b"), (2**64 - 1, 1, b"far")]
    records = reading.option("view", "log").load(f"wal:{topics}").orderBy("offset", "sequence").collect()
    assert [row["kind"] for row in records] == ["claim", "entry", "entry", "entry", "mark"]
    assert len({row["epoch"] for row in records}) == 1
    assert records[0]["epoch"] > 0

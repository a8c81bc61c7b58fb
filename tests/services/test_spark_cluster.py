"""A real Spark cluster of two workers: code and ranges reach them, and whatever is killed there, counts stay right."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from cluster_work import EACH, RESULT, count, driver, executor, fill, ranges, total, wait_for

from headwater.core.errors import Cancelled
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.kafka.log import KafkaLog
from headwater.spark.ranges import Range, Runner, attempts
from headwater.testing.log_ground import fresh

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def cluster(spark_master: str) -> Iterator[SparkSession]:
    with driver(spark_master) as started:
        yield started


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLog]:
    """An embedded log in a folder that every worker sees: here because they share the machine, elsewhere by a network disk."""
    with EmbeddedLog(tmp_path_factory.mktemp("data")) as log:
        log.create_topic("orders", partitions=2)
        fill(log, "orders")
        yield log


def test_both_workers_take_part(cluster: SparkSession, embedded: EmbeddedLog, tmp_path: Path) -> None:
    def meet(log: Log, slice: Range) -> pa.RecordBatch:
        (tmp_path / str(slice.partition)).touch()
        wait_for(tmp_path / "0", tmp_path / "1")
        return count(log, slice)

    with Runner(cluster, embedded.address) as runner:
        tables = runner.run([Range("orders", p, 0, EACH) for p in range(2)], meet, schema=RESULT)
    assert total(tables) == 2 * EACH
    assert len({table["executor"][0].as_py() for table in tables}) == 2


def test_the_cluster_tries_four_times(cluster: SparkSession) -> None:
    assert attempts(cluster) == 4


@pytest.mark.service("kafka")
def test_kafka_is_read_by_ranges_and_as_a_table(cluster: SparkSession, kafka: str) -> None:
    with KafkaLog(kafka) as log:
        name = log.create_topic(fresh("cluster"), partitions=2).name
        fill(log, name)
        with Runner(cluster, log.address) as runner:
            assert total(runner.run(ranges(name), count, schema=RESULT)) == 2 * EACH
    frame = cluster.read.format("headwater").option("servers", kafka).option("splitRecords", 1000).load(f"topic:{name}")
    assert frame.rdd.getNumPartitions() == 4
    assert frame.groupBy("partition").count().orderBy("partition").collect() == [(0, EACH), (1, EACH)]


@pytest.mark.parametrize("victim", ["python worker", "executor"])
def test_what_dies_in_the_middle_is_done_again(cluster: SparkSession, embedded: EmbeddedLog, tmp_path: Path, victim: str) -> None:
    flag = tmp_path / "flag"

    def dies(log: Log, slice: Range) -> pa.RecordBatch:
        counted = count(log, slice)
        if slice.start and not flag.exists():
            flag.touch()
            os.kill(os.getpid() if victim == "python worker" else executor(), signal.SIGKILL)
        return counted

    with Runner(cluster, embedded.address) as runner:
        assert total(runner.run(ranges("orders"), dies, schema=RESULT)) == 2 * EACH
    assert flag.exists()


def test_cancelling_ends_the_tasks(cluster: SparkSession, embedded: EmbeddedLog, tmp_path: Path) -> None:
    def waits(log: Log, slice: Range) -> None:
        (tmp_path / f"began-{slice.start}").touch()
        wait_for(tmp_path / "never")

    cancel = threading.Event()
    threading.Thread(target=lambda: (wait_for(tmp_path / "began-0"), cancel.set())).start()
    with Runner(cluster, embedded.address) as runner:
        with pytest.raises(Cancelled):
            runner.run(ranges("orders")[:2], waits, schema=RESULT, cancel=cancel)
        assert total(runner.run(ranges("orders"), count, schema=RESULT)) == 2 * EACH, "the cluster is free again"

"""What the tests of a Spark cluster share: the driver's session, a log's content, and a worker that counts."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from quick_spark import quick

from headwater.log import Log, Record
from headwater.spark import session
from headwater.spark.ranges import Range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESULT = pa.schema([("records", pa.int64()), ("executor", pa.int64())])
EACH = 2000
GIVE_UP = 240


@contextmanager
def driver(master: str) -> Iterator[SparkSession]:
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers cannot import the tests
    # The cluster's workers have one core and 1 GiB each; all of it is on this machine.
    conf = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.driver.host": "127.0.0.1"}
    conf["spark.executor.extraJavaOptions"] = "-XX:TieredStopAtLevel=1"
    if (left := SparkSession.getActiveSession()) is not None:  # of a pipeline that another file has run in this process
        left.stop()
    started = session(quick(master, **conf), archive="use")
    try:
        yield started
    finally:
        started.stop()
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def fill(log: Log, topic: str) -> None:
    for partition in range(2):
        log.append(topic, partition, [Record(b"k%d" % i, b"v%d" % i) for i in range(EACH)])


def ranges(topic: str) -> list[Range]:
    return [one for partition in range(2) for one in Range(topic, partition, 0, EACH).slices(2)]


def count(log: Log, slice: Range) -> pa.RecordBatch:
    rows = sum(batch.num_rows for batch in log.scan(slice.topic, slice.partition, slice.start, slice.end))
    return pa.RecordBatch.from_pydict({"records": [rows], "executor": [executor()]}, schema=RESULT)


def executor() -> int:
    """The process id of the Java process that this task belongs to: the parent of the parent."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def total(tables: list[pa.Table]) -> int:
    return sum(table["records"][0].as_py() for table in tables)


def wait_for(*paths: Path) -> None:
    deadline = time.monotonic() + GIVE_UP
    while not all(path.exists() for path in paths):
        assert time.monotonic() < deadline, f"{paths} did not come"
        time.sleep(0.02)

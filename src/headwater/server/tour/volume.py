"""Large volume: appends records in batches, checks every checksum, and counts the records on Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.core.errors import Unavailable
from headwater.core.settings import SparkSettings
from headwater.core.units import rounded_size
from headwater.log import Log
from headwater.server.tour.report import TourReport, rate

if TYPE_CHECKING:
    import pyarrow as pa

    from headwater.spark.ranges import Range

TOPIC = "demo-volume"
_RECORDS, _BATCH, _VALUE = 500_000, 10_000, 100


def fill(log: Log, report: TourReport) -> None:
    """Fill the topic up to half a million records. A second tour reuses them."""
    import pyarrow as pa

    report.part("batches")
    log.create_topic(TOPIC)
    began, appended = time.perf_counter(), 0
    while (end := log.bounds(TOPIC, 0).end) < _RECORDS:
        numbers = range(end, end + _BATCH)
        keys = pa.array([b"%d" % (number % 1000) for number in numbers], pa.binary())
        values = pa.array([(b"%d" % number).ljust(_VALUE) for number in numbers], pa.binary())
        appended += len(log.append_arrow(TOPIC, 0, pa.RecordBatch.from_arrays([keys, values], names=["key", "value"])))
    seconds = time.perf_counter() - began
    if appended:
        report.fact(f"{appended:,} records of {_VALUE} B in batches of {_BATCH:,}, each batch synced: {rate(appended, seconds)}")
    else:
        report.fact(f"{log.bounds(TOPIC, 0).end:,} records are there since an earlier tour")


def check(data: Path, topics: list[str], report: TourReport) -> None:
    """Check the checksum of every batch of these topics."""
    from headwater.log.embedded.check import check as checked
    from headwater.log.embedded.log import EmbeddedLog

    report.part("check")
    with EmbeddedLog(data, read_only=True) as log:
        for topic in topics:
            began = time.perf_counter()
            result = checked(log.reader(topic, 0))
            seconds = time.perf_counter() - began
            report.fact(f"{topic}: {result.records:,} records, {rounded_size(result.bytes)} read in {seconds:.2f} s")
            report.claim("every checksum is right, and none is missing", not result.damage and result.records == log.bounds(topic, 0).end)


def count_on_spark(log: Log, settings: SparkSettings, report: TourReport) -> None:
    """Count the same records with a job on Spark, whose tasks read their ranges of the log themselves."""
    from headwater.spark import session
    from headwater.spark.ranges import Range, Runner

    report.part("spark")
    if settings.start == "never":
        report.fact('left out: spark.start is "never"')
        return
    began = time.perf_counter()
    try:
        spark = session(settings, name="headwater tour")
    except Unavailable as error:
        report.fact(f"left out: {error}")
        return
    report.fact(f"Spark {spark.version} on {spark.sparkContext.master} is up after {time.perf_counter() - began:.1f} s")
    bounds = log.bounds(TOPIC, 0)
    ranges = Range(TOPIC, 0, bounds.start, bounds.end).slices(os.cpu_count() or 1)
    with Runner(spark, log.address) as runner:
        _counted(runner.run(ranges[:1], count, schema=_schema()))  # the first job starts the Python workers
        began = time.perf_counter()
        counted = _counted(runner.run(ranges, count, schema=_schema()))
        seconds = time.perf_counter() - began
    report.fact(f"{TOPIC} counted in {len(ranges)} ranges: {counted:,} records, {rate(counted, seconds)}")
    report.claim(f"as many as the log holds, {bounds.end - bounds.start:,}", counted == bounds.end - bounds.start)


def stop_spark() -> None:
    """End the tour's Spark session, if there is one."""
    import sys

    if "pyspark" in sys.modules:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()


def count(log: Log, slice: Range) -> Iterator[pa.RecordBatch]:
    """The worker: runs inside a Spark task."""
    import pyarrow as pa

    rows = sum(batch.num_rows for batch in log.scan(slice.topic, slice.partition, slice.start, slice.end))
    yield pa.RecordBatch.from_arrays([pa.array([rows], pa.int64())], schema=_schema())


def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([("records", pa.int64())])


def _counted(tables: list[pa.Table]) -> int:
    return sum(sum(table.column(0).to_pylist()) for table in tables)

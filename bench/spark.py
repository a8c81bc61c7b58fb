"""Reading a range of the log in Spark tasks, against `spark.read.text` of a file with as many lines and bytes, in one session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from bench.case import Case, Side, Skipped, timed
from bench.place import TOPIC, VALUE, Place, segments
from bench.sizes import Sizes
from headwater.core.errors import Differs, HeadwaterError
from headwater.log import Log
from headwater.log.address import LogAddress
from headwater.spark.ranges import Range, Runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COUNTS = pa.schema([("records", pa.int64()), ("bytes", pa.int64())])


def spark(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """Records and bytes of values are counted: by ranges whose tasks read the log themselves, and by the table that Spark SQL sees."""
    from pyspark.sql import SparkSession

    from headwater.spark import session

    was_running = SparkSession.getActiveSession() is not None
    try:
        started = session(archive="use")
    except HeadwaterError as problem:
        yield Skipped("spark", str(problem))
        return
    try:
        with place.filled(sizes.spark, per_batch=1000) as folder, place.sub("text") as other:
            text = _text(other / "lines.txt", segments(folder), sizes.spark)
            peer = Side("spark.read.text", timed(lambda: _lines(started, text, sizes.spark)))
            tasks = started.sparkContext.defaultParallelism
            with Runner(started, LogAddress(path=str(folder))) as runner:
                yield Case("spark ranges", "record", Side("ranges", timed(lambda: _ranges(runner, tasks, sizes.spark))), peer)
            table = Side('format("headwater")', timed(lambda: _table(started, folder, sizes.spark)))
            yield Case("spark table", "record", table, peer, rounds=sizes.few)
    finally:
        if not was_running:
            started.stop()


def _text(path: Path, files: list[Path], count: int) -> Path:
    """As many lines as records, and together as many bytes as the log."""
    width = sum(file.stat().st_size for file in files) // count - 1
    with path.open("wb") as out:
        for number in range(count):
            out.write(b"%0*d\n" % (width, number))
    return path


def count_values(log: Log, range: Range) -> pa.Table:
    """What each task does. Imported by Spark's workers."""
    counted = [(rows.num_rows, pc.sum(pc.binary_length(rows.column("value").cast(pa.binary()))).as_py()) for rows in _scan(log, range)]
    return pa.table({"records": [sum(rows for rows, _ in counted)], "bytes": [sum(size for _, size in counted)]}, schema=_COUNTS)


def _scan(log: Log, range: Range) -> Iterator[pa.RecordBatch]:
    return log.scan(range.topic, range.partition, range.start, range.end)


def _ranges(runner: Runner, tasks: int, expected: int) -> int:
    counts = pa.concat_tables(runner.run(Range(TOPIC, 0, 0, expected).slices(tasks), count_values, schema=_COUNTS))
    return _right(pc.sum(counts["records"]).as_py(), pc.sum(counts["bytes"]).as_py() // VALUE, expected)


def _table(session: SparkSession, folder: Path, expected: int) -> int:
    frame = session.read.format("headwater").option("data", str(folder)).load(f"topic:{TOPIC}")
    rows, size = frame.selectExpr("count(*)", "sum(length(value))").collect()[0]
    return _right(rows, size // VALUE, expected)


def _lines(session: SparkSession, path: Path, expected: int) -> int:
    rows, size = session.read.text(str(path)).selectExpr("count(*)", "sum(length(value))").collect()[0]
    return _right(rows, size // (path.stat().st_size // expected - 1), expected)


def _right(records: int, by_size: int, expected: int) -> int:
    if (records, by_size) != (expected, expected):
        raise Differs(f"Spark counted {records} records, {by_size} by their size, of {expected}.", hint="See Spark's log.")
    return records

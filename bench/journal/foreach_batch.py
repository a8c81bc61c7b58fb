"""The same copy written by hand in Spark: a stream of the topic's records, whose batches go into SQLite by `foreachBatch`.

It keeps events alone: no heads, no Deletes, no Purges, and nothing says how far a file goes but Spark's checkpoint.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bench.case import Sample
from bench.journal.opened import JOURNALS
from bench.machine import processor_time
from headwater.core.errors import Differs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TABLE = Path(__file__).with_name("hand_table.sql").read_text()
_INSERT = Path(__file__).with_name("hand_insert.sql").read_text()
_AT_ONCE = "100000"  # records of a batch: the larger they are, the quicker it is


class ForeachBatch:
    """Copies by the session that replication uses, too."""

    def __init__(self, session: SparkSession, data: Path, folder: Path) -> None:
        self._session, self._data, self._folder = session, data, folder

    def round(self, expected: int) -> Sample:
        out, checkpoint = self._folder / "by-hand", self._folder / "checkpoint"
        out.mkdir()
        try:
            used, begun = processor_time(), time.perf_counter()
            stream = self._session.readStream.format("headwater").option("data", str(self._data)).option("maxRecordsPerTrigger", _AT_ONCE)
            records = stream.load(f"topic:{JOURNALS}").select("partition", "offset", "timestamp", "key", "value")
            query = (
                records.writeStream.foreachBatch(partial(_written, out))
                .option("checkpointLocation", str(checkpoint))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            seconds, used = time.perf_counter() - begun, processor_time() - used
            count = sum(map(_count, out.glob("*.db")))
        finally:
            shutil.rmtree(out, ignore_errors=True)
            shutil.rmtree(checkpoint, ignore_errors=True)
        if count != expected:
            raise Differs(f"{count} events were copied, not {expected}.", hint="See Spark's log.")
        return Sample(count, seconds, used)


def _written(out: Path, batch: DataFrame, number: int) -> None:
    batch.foreachPartition(partial(_insert, out))


def _insert(out: Path, rows: Iterable[Any]) -> None:
    """In a task: decode the Appends of a partition, and insert their events in one transaction."""
    import apsw

    files: dict[int, list[tuple[object, ...]]] = {}
    for row in rows:
        files.setdefault(row["partition"], []).extend(_events(row))
    for partition, events in files.items():
        connection = apsw.Connection(str(out / f"{partition}.db"))
        connection.set_busy_timeout(60_000)
        connection.execute("pragma journal_mode = wal; pragma synchronous = normal").fetchall()
        connection.execute(_TABLE)
        with connection:
            connection.executemany(_INSERT, events)
        connection.close()


def _events(row: Any) -> Iterator[tuple[object, ...]]:
    id, time = bytes(row["key"]).decode(), row["timestamp"]
    for event in msgspec.json.decode(bytes(row["value"]))["events"]:
        yield id, event["seqNr"], row["offset"], str(time), msgspec.json.encode(event["payload"])


def _count(path: Path) -> int:
    import apsw

    connection = apsw.Connection(str(path))
    try:
        return int(connection.execute("select count(*) from event").fetchall()[0][0])
    finally:
        connection.close()

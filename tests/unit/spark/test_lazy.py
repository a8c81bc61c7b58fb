"""Spark, started when it is first needed. The session is a stand-in but in the last test: what counts is who starts it, and when."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from headwater.core.errors import Unavailable, Unsupported
from headwater.core.settings import SparkSettings
from headwater.log import Record
from headwater.log.address import LogAddress
from headwater.log.embedded.log import EmbeddedLog
from headwater.spark import lazy, ranges
from headwater.spark.lazy import LazySpark, cores
from headwater.testing.log_ground import PATIENCE


class Starts:
    """Counts starts; each one waits until it may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.go, self.closed, self.problem = 0, threading.Event(), 0, None
        starts = self

        class Runner:
            def __init__(self, session: Any, address: LogAddress) -> None:
                self.session = session

            def close(self) -> None:
                starts.closed += 1

        monkeypatch.setattr(lazy, "session", self._start)
        monkeypatch.setattr(lazy, "running", lambda: None)
        monkeypatch.setattr(ranges, "Runner", Runner)

    def _start(self, settings: SparkSettings, *, name: str) -> str:
        self.count += 1
        assert self.go.wait(PATIENCE)
        if self.problem is not None:
            raise self.problem
        return name


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    return Starts(monkeypatch)


def made(start: str = "lazy") -> LazySpark:
    return LazySpark(LogAddress(path="x"), SparkSettings(start=start), name="n")  # type: ignore[arg-type]


def until(true: Any) -> None:
    wait = threading.Event()
    for _ in range(int(PATIENCE / 0.005)):
        if true():
            return
        wait.wait(0.005)
    assert true()


def test_making_one_starts_nothing_and_many_threads_start_it_once(starts: Starts) -> None:
    spark = made()
    assert starts.count == 0
    threads = [threading.Thread(target=spark.runner) for _ in range(4)]
    for thread in threads:
        thread.start()
    starts.go.set()
    for thread in threads:
        thread.join()
    assert starts.count == 1
    assert spark.runner().session == "n"


def test_its_start_is_begun_in_the_background_and_not_waited_for(starts: Starts) -> None:
    spark = made()
    assert not spark.ready()
    assert not spark.ready()
    starts.go.set()
    until(spark.ready)
    assert starts.count == 1
    spark.close()
    assert starts.closed == 1


def test_an_eager_one_is_waited_for(starts: Starts) -> None:
    starts.go.set()
    assert made("eager").ready()
    assert starts.count == 1


def test_a_start_that_fails_is_heard_by_whoever_needs_it(starts: Starts) -> None:
    starts.problem = Unavailable("no Java")  # type: ignore[assignment]
    starts.go.set()
    spark = made()
    until(spark.ready)  # quiet: perhaps nobody needs it
    with pytest.raises(Unavailable, match="no Java"):
        spark.runner()


def test_closing_does_not_wait_for_a_start_which_then_lets_go_by_itself(starts: Starts) -> None:
    spark = made()
    assert not spark.ready()
    until(lambda: starts.count == 1)
    spark.close()
    assert starts.closed == 0
    starts.go.set()
    until(lambda: starts.closed == 1)


def test_one_that_may_not_be_started_is_not(starts: Starts) -> None:
    spark = made("never")
    assert not spark.allowed
    with pytest.raises(Unsupported, match="not started here"):
        spark.runner()
    assert starts.count == 0


@pytest.mark.parametrize(
    ("master", "count"), [("local", 1), ("local[3]", 3), ("local[3,4]", 3), ("spark://h:7077", 4), ("yarn", 4), ("local[ 3]", 4)]
)
def test_as_many_tasks_run_at_once_as_the_master_says(master: str, count: int) -> None:
    assert cores(master) == count
    assert LazySpark(LogAddress(path="x"), SparkSettings(master=master)).local == master.startswith("local")


@pytest.mark.spark
def test_a_real_one_works_off_ranges(spark: Any, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyspark import cloudpickle

    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t")
        log.append("t", 0, [Record(b"k", b"v")] * 10)
        used = LazySpark(log.address, SparkSettings(master="local[2]"))
        assert used.ready()  # this process has a session
        schema = pa.schema([("records", pa.int64())])
        cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # tasks cannot import the tests
        try:
            tables = used.runner().run(ranges.Range("t", 0, 0, 10).slices(2), _count, schema=schema)
        finally:
            cloudpickle.unregister_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
        assert [table.column("records").to_pylist() for table in tables] == [[5], [5]]
        used.close()
        assert spark.range(3).count() == 3  # the session stays


def _count(log: Any, part: Any) -> Any:
    import pyarrow as pa

    found = len(log.read(part.topic, part.partition, part.start, limit=len(part)))
    return pa.RecordBatch.from_pydict({"records": [found]})

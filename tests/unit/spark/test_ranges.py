from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core.errors import BadBounds, Cancelled, TaskFailed, Unavailable
from headwater.core.metrics import Metrics
from headwater.log import Log, Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.spark.progress import JobProgress
from headwater.spark.ranges import Range, Runner, _explained, attempts, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS = pa.schema([("records", pa.int64())])
HALVES = [Range("orders", 0, 0, 500), Range("orders", 0, 500, 1000), Range("orders", 1, 0, 1000)]
GIVE_UP = 240


@settings(deadline=None)
@given(start=st.integers(0, 10**12), length=st.integers(0, 10**6), count=st.integers(1, 50))
def test_slices_are_the_range_cut_in_pieces_of_nearly_one_length(start: int, length: int, count: int) -> None:
    whole = Range("t", 3, start, start + length)
    slices = whole.slices(count)
    assert slices[0].start == whole.start
    assert slices[-1].end == whole.end
    assert [one.end for one in slices[:-1]] == [one.start for one in slices[1:]]
    assert len(slices) == max(1, min(count, length))
    assert max(map(len, slices)) - min(map(len, slices)) <= 1


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 4)])
def test_a_range_the_wrong_way_round_is_refused(start: int, end: int) -> None:
    with pytest.raises(BadBounds, match="no range of offsets"):
        Range("t", 0, start, end)


def test_a_range_says_what_it_is() -> None:
    assert str(Range("orders", 1, 5, 9)) == "orders 1 [5, 9)"


@pytest.fixture(scope="module")
def runner(spark: SparkSession, log: EmbeddedLog) -> Iterator[Runner]:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # tasks cannot import the tests
    with Runner(spark, log.address) as made:
        yield made
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def count(log: Log, slice: Range) -> pa.RecordBatch:
    rows = sum(batch.num_rows for batch in log.scan(slice.topic, slice.partition, slice.start, slice.end))
    return pa.RecordBatch.from_pydict({"records": [rows]}, schema=COUNTS)


def counted(tables: list[pa.Table]) -> list[int]:
    return [sum(table["records"].to_pylist()) for table in tables]


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + GIVE_UP
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.spark
class TestRunner:
    def test_gives_one_result_for_each_range_in_their_order(self, runner: Runner) -> None:
        assert counted(runner.run(HALVES, count, schema=COUNTS)) == [500, 500, 1000]

    def test_a_worker_may_yield_several_batches_or_nothing(self, runner: Runner) -> None:
        def some(log: Log, slice: Range) -> Iterator[pa.RecordBatch]:
            for _ in range(slice.partition * 2):
                yield count(log, slice)

        assert [table.num_rows for table in runner.run(HALVES, some, schema=COUNTS)] == [0, 0, 2]
        assert [table.schema for table in runner.run(HALVES[:1], lambda log, slice: None, schema=COUNTS)] == [COUNTS]

    def test_no_ranges_are_no_work(self, runner: Runner) -> None:
        assert runner.run([], count, schema=COUNTS) == []

    def test_can_be_called_once_without_a_runner(self, spark: SparkSession, log: EmbeddedLog, runner: Runner) -> None:
        assert counted(run(spark, log.address, HALVES, count, schema=COUNTS)) == [500, 500, 1000]

    def test_a_worker_may_append(self, runner: Runner, log: EmbeddedLog) -> None:
        log.create_topic("copies", partitions=2)

        def copy(log: Log, slice: Range) -> None:
            for batch in log.scan(slice.topic, slice.partition, slice.start, slice.end):
                log.append_arrow("copies", slice.partition, batch.select(["key", "value"]))

        runner.run(HALVES, copy, schema=COUNTS, read_only=False)
        assert [log.bounds("copies", p).end for p in range(2)] == [1000, 1000]

    def test_a_killed_python_worker_is_replaced_and_its_range_run_again(self, runner: Runner, flag: Path) -> None:
        def killed(log: Log, slice: Range) -> pa.RecordBatch:
            if slice.start and not flag.exists():
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return count(log, slice)

        assert counted(runner.run(HALVES, killed, schema=COUNTS)) == [500, 500, 1000]
        assert flag.exists()

    def test_a_worker_that_always_dies_is_given_up(self, runner: Runner, tmp_path: Path) -> None:
        def dies(log: Log, slice: Range) -> None:
            (tmp_path / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)

        with pytest.raises(Unavailable, match=r"Spark gave up: .*failed 4 times") as raised:
            runner.run(HALVES[:1], dies, schema=COUNTS)
        assert len(list(tmp_path.iterdir())) == 4
        assert "spark.log" in raised.value.hint
        assert "\n" not in raised.value.message

    def test_an_exception_comes_back_with_its_range_and_traceback(self, runner: Runner) -> None:
        def broken(log: Log, slice: Range) -> None:
            raise ValueError("no such field: total")

        with pytest.raises(TaskFailed, match=r"orders 0 \[0, 500\) failed: ValueError: no such field: total") as raised:
            runner.run(HALVES[:1], broken, schema=COUNTS)
        assert "in broken" in raised.value.message
        assert "py4j" not in raised.value.message.lower()

    def test_an_error_of_ours_keeps_its_type_and_hint(self, runner: Runner) -> None:
        def beyond(log: Log, slice: Range) -> pa.RecordBatch:
            return count(log, Range(slice.topic, slice.partition, 0, 5000))

        with pytest.raises(BadBounds) as raised:
            runner.run(HALVES[:1], beyond, schema=COUNTS)
        assert raised.value.hint
        assert "in beyond" in raised.value.__notes__[0]

    def test_a_machine_that_does_not_answer_is_tried_again(self, runner: Runner, flag: Path) -> None:
        def flaky(log: Log, slice: Range) -> pa.RecordBatch:
            if not flag.exists():
                flag.touch()
                raise Unavailable("The broker does not answer.")
            return count(log, slice)

        assert counted(runner.run(HALVES[2:], flaky, schema=COUNTS)) == [1000]

    def test_the_first_failure_ends_the_other_tasks(self, runner: Runner, tmp_path: Path) -> None:
        def one_fails(log: Log, slice: Range) -> None:
            if slice.start:
                raise ValueError("boom")
            wait_for(tmp_path / "never")
            (tmp_path / "waited").touch()

        with pytest.raises(TaskFailed, match="boom"):
            runner.run(HALVES[:2], one_fails, schema=COUNTS)
        assert not (tmp_path / "waited").exists()

    def test_results_must_fit_the_schema(self, runner: Runner) -> None:
        with pytest.raises(TaskFailed, match="The worker gave columns"):
            runner.run(HALVES[:1], lambda log, slice: pa.table({"other": [1]}), schema=COUNTS)

    def test_tells_progress_until_all_is_done(self, runner: Runner) -> None:
        seen: list[JobProgress] = []
        runner.run(HALVES, count, schema=COUNTS, progress=seen.append, every=0)
        assert seen[-1].ranges_done == seen[-1].ranges == 3
        assert seen[-1].records_done == seen[-1].records == 2000
        assert seen[-1].lag == 0
        done = [one.records_done for one in seen]
        assert done == sorted(done)

    def test_progress_comes_while_other_tasks_still_run(self, runner: Runner, tmp_path: Path) -> None:
        def waits(log: Log, slice: Range) -> pa.RecordBatch:
            if slice.partition == 1:
                wait_for(tmp_path / "go")
            return count(log, slice)

        def watch(progress: JobProgress) -> None:
            if progress.records_done == 1000:
                (tmp_path / "go").touch()

        assert counted(runner.run(HALVES, waits, schema=COUNTS, progress=watch, every=0)) == [500, 500, 1000]
        assert (tmp_path / "go").exists()

    def test_can_be_cancelled_from_another_thread(self, runner: Runner, tmp_path: Path) -> None:
        def waits(log: Log, slice: Range) -> None:
            (tmp_path / f"began-{slice.start}").touch()
            wait_for(tmp_path / "never")

        cancel = threading.Event()
        threading.Thread(target=lambda: (wait_for(tmp_path / "began-0"), cancel.set())).start()
        with pytest.raises(Cancelled):
            runner.run(HALVES[:2], waits, schema=COUNTS, cancel=cancel)

    def test_a_job_can_be_started_watched_and_cancelled(self, runner: Runner, tmp_path: Path, spark: SparkSession) -> None:
        def waits(log: Log, slice: Range) -> None:
            (tmp_path / "began").touch()
            wait_for(tmp_path / "never")

        job = runner.start(HALVES[:1], waits, schema=COUNTS)
        wait_for(tmp_path / "began")
        assert job.progress().ranges_done == 0
        job.cancel()
        with pytest.raises(Cancelled):
            job.result()
        assert spark.sparkContext.statusTracker().getActiveJobsIds() == []

    def test_a_job_can_be_cancelled_before_spark_has_taken_it_up(self, runner: Runner, flag: Path) -> None:
        def touch(log: Log, slice: Range) -> None:
            wait_for(flag)

        job = runner.start(HALVES[:1], touch, schema=COUNTS)
        job.cancel()
        with pytest.raises(Cancelled):
            job.result()

    def test_several_threads_may_run_at_once(self, runner: Runner) -> None:
        results: list[list[int]] = []
        threads = [threading.Thread(target=lambda: results.append(counted(runner.run(HALVES, count, schema=COUNTS)))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [[500, 500, 1000]] * 3

    def test_leaves_ctrl_c_to_whoever_had_it(self, runner: Runner) -> None:
        before = signal.getsignal(signal.SIGINT)
        runner.run(HALVES[:1], count, schema=COUNTS)
        assert signal.getsignal(signal.SIGINT) is before

    def test_ctrl_c_cancels_and_is_raised(self, runner: Runner, tmp_path: Path, spark: SparkSession) -> None:
        def waits(log: Log, slice: Range) -> None:
            (tmp_path / "began").touch()
            wait_for(tmp_path / "never")

        main = threading.main_thread().ident
        assert main is not None
        threading.Thread(target=lambda: (wait_for(tmp_path / "began"), signal.pthread_kill(main, signal.SIGINT))).start()
        with pytest.raises(KeyboardInterrupt):
            runner.run(HALVES[:1], waits, schema=COUNTS)
        assert spark.sparkContext.statusTracker().getActiveJobsIds() == []

    def test_counts_rounds(self, spark: SparkSession, log: EmbeddedLog, runner: Runner) -> None:
        metrics = Metrics()
        with Runner(spark, log.address, metrics=metrics.spark) as own:
            own.run(HALVES, count, schema=COUNTS)
        assert b"headwater_spark_round_seconds_count 1.0" in metrics.render()

    def test_knows_how_often_spark_tries(self, spark: SparkSession) -> None:
        assert attempts(spark) == 4

    def test_keys_and_values_reach_the_worker(self, runner: Runner) -> None:
        def first(log: Log, slice: Range) -> pa.Table:
            record: Record = log.read(slice.topic, slice.partition, slice.start, limit=1)[0]
            return pa.table(
                {"key": [record.key], "value": [record.value]}, schema=pa.schema([("key", pa.binary()), ("value", pa.binary())])
            )

        (table,) = runner.run(HALVES[1:2], first, schema=pa.schema([("key", pa.binary()), ("value", pa.binary())]))
        assert table.to_pylist() == [{"key": b"k500", "value": b"v500"}]


_WITHOUT_SPARK = """
import sys
import pyarrow as pa
from headwater.core.errors import Unavailable
from headwater.log.embedded.log import EmbeddedLog
from headwater.spark import session
from headwater.spark.ranges import Range, Runner

with EmbeddedLog(sys.argv[1]) as log:
    log.create_topic("t")
    started = session()
    runner = Runner(started, log.address)
    process = started.sparkContext._gateway.proc
    process.kill()
    process.wait()
    for _ in range(2):
        try:
            runner.run([Range("t", 0, 0, 0)], print, schema=pa.schema([("n", pa.int64())]))
        except Unavailable as error:
            print("unavailable:", error.hint)
    assert not runner._jobs, "closing would wait for them"
    runner.close()
print("closed", flush=True)
"""


class _OfDeadJava(Exception):
    def __str__(self) -> str:
        raise ConnectionRefusedError("Java is gone")


def test_an_error_whose_text_died_with_spark_is_unavailable() -> None:
    """A supervisor that stops all processes at once ends Spark's before the run has stopped its jobs."""
    with pytest.raises(Unavailable, match=r"^Spark's process has ended \(_OfDeadJava\)\. "):
        raise _explained(_OfDeadJava())


@pytest.mark.spark
def test_a_spark_whose_process_was_killed_is_unavailable_and_nobody_waits_for_its_jobs(tmp_path: Path) -> None:
    said = subprocess.run([sys.executable, "-c", _WITHOUT_SPARK, str(tmp_path / "data")], capture_output=True, text=True, timeout=GIVE_UP)
    assert [line.split(":")[0] for line in said.stdout.splitlines()] == ["unavailable", "unavailable", "closed"], said.stderr

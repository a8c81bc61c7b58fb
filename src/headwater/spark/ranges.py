"""Processes ranges of the log on Spark: the ranges travel, the records do not.

    with Runner(session, log.address) as runner:
        counts = runner.run(ranges, count, schema=pa.schema([("records", pa.int64())]))

Each range becomes one task. The task opens the log itself, hands it with the range to the worker, and sends back the worker's small result.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from signal import SIGINT, getsignal, signal
from types import FrameType
from typing import TYPE_CHECKING, Self

import msgspec

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import BadBounds, Cancelled, HeadwaterError, Unavailable
from headwater.core.ids import random_id
from headwater.log import Log
from headwater.log.address import LogAddress
from headwater.spark.progress import JobProgress, Meter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from headwater.core.metrics import SparkMetrics
    from headwater.spark.tasks import Report, Row, TaskFailure, Work

POLL = 0.05  # seconds between looks at cancellation; Ctrl-C is noticed within one
CANCELLING = 30.0  # seconds that a cancelled job may take to end


class Range(msgspec.Struct, frozen=True, order=True):
    """Offsets [start, end) of a partition."""

    topic: str
    partition: int
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise BadBounds(
                f"{self.start} to {self.end} is no range of offsets.", hint="Give a start of at least 0 and an end not below it."
            )

    def __len__(self) -> int:
        return self.end - self.start

    def __bool__(self) -> bool:
        return True  # an empty range is a range

    def __str__(self) -> str:
        return f"{self.topic} {self.partition} [{self.start}, {self.end})"

    def slices(self, count: int) -> list[Range]:
        """Consecutive slices of nearly one length, none empty, at most `count`; an empty range is its own only slice."""
        count = max(1, min(count, len(self)))
        cuts = [self.start + len(self) * i // count for i in range(count + 1)]
        return [msgspec.structs.replace(self, start=a, end=b) for a, b in pairwise(cuts)]


Worker = Callable[[Log, Range], "Iterable[pa.RecordBatch | pa.Table] | pa.RecordBatch | pa.Table | None"]
Through = Callable[["SparkSession", "Work"], "Iterable[Row]"]


def run(
    session: SparkSession,
    address: LogAddress,
    ranges: Sequence[Range],
    worker: Worker,
    *,
    schema: pa.Schema,
    progress: Callable[[JobProgress], None] | None = None,
    cancel: threading.Event | None = None,
) -> list[pa.Table]:
    """`Runner.run` once. For more than one call, keep a `Runner`."""
    with Runner(session, address) as runner:
        return runner.run(ranges, worker, schema=schema, progress=progress, cancel=cancel)


class Runner:
    """Processes ranges of one log in one Spark session. Safe from several threads: each call is a job of its own.

    Guarantees: a range whose Python worker, executor or machine dies is run again, up to Spark's count of attempts (4 in headwater's
    sessions), so a worker must be able to write twice. Each range has one result, in the order of the ranges.
    """

    def __init__(
        self,
        session: SparkSession,
        address: LogAddress,
        *,
        clock: Clock | None = None,
        metrics: SparkMetrics | None = None,
        pool: str | None = None,
    ) -> None:
        from headwater.spark.tasks import Reports

        self.session, self._address = session, address
        self._clock, self._metrics, self._pool = clock or SystemClock(), metrics, pool
        self._jobs: dict[str, RangeJob] = {}
        self._receiver = Reports(self._deliver)
        self._reports = session.sparkContext.accumulator((), self._receiver)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel what still runs. The session stays."""
        for job in list(self._jobs.values()):
            job.cancel()
        self._receiver.close()

    def run(
        self,
        ranges: Sequence[Range],
        worker: Worker,
        *,
        schema: pa.Schema,
        read_only: bool = True,
        progress: Callable[[JobProgress], None] | None = None,
        every: float = 0.5,
        cancel: threading.Event | None = None,
        through: Through | None = None,
    ) -> list[pa.Table]:
        """Give each range to `worker(log, range)` inside a task; return the tables made of what it returned, range by range.

        The worker returns or yields record batches or tables of `schema`, small ones: what is large it writes itself. The log is opened
        `read_only` unless said otherwise. `progress` is called in this thread, each `every` seconds and at the end. Setting `cancel`, or
        Ctrl-C, ends the job and its tasks. Code that a worker uses must be importable where tasks run. `through`: a job of the caller's own
        making, which calls `tasks.task` once for each range.

        Errors: an error of ours that a worker raised, as it was; `TaskFailed` with the task's traceback for any other; `Cancelled`;
        `KeyboardInterrupt` after Ctrl-C; `Unavailable` when Spark itself gives up. The first failure ends the other tasks.
        """
        job = self.start(ranges, worker, schema=schema, read_only=read_only, through=through)
        shown = self._clock.monotonic()
        with _interrupts() as interrupted:
            while not job.wait(POLL):
                if interrupted.is_set() or (cancel is not None and cancel.is_set()):
                    job.cancel()
                if progress is not None and self._clock.monotonic() - shown >= every:
                    shown = self._clock.monotonic()
                    progress(job.progress())
        if interrupted.is_set():
            raise KeyboardInterrupt
        tables = job.result()
        if progress is not None:
            progress(job.progress())
        return tables

    def start(
        self, ranges: Sequence[Range], worker: Worker, *, schema: pa.Schema, read_only: bool = True, through: Through | None = None
    ) -> RangeJob:
        """`run` without waiting, for threads such as a server's."""
        from headwater.spark.tasks import Work

        session, name = self.session, f"headwater-{random_id()}"
        try:
            work = Work(
                job=name,
                address=self._address,
                read_only=read_only,
                ranges=tuple(ranges),
                worker=worker,
                schema=schema,
                attempts=attempts(session),
                reports=self._reports,
            )
            job = RangeJob(session, work, clock=self._clock, pool=self._pool, ended=self._ended, through=through or _mapped)
            self._jobs[name] = job
            job.start()
        except Exception as problem:  # Spark's process is gone
            self._jobs.pop(name, None)
            raise _explained(problem) from problem
        return job

    def _deliver(self, report: Report) -> None:
        job = self._jobs.get(report.job)
        if job is not None:  # a report of a job that was given up comes late
            job.reported(report)

    def _ended(self, job: RangeJob) -> None:
        self._jobs.pop(job.name, None)
        if self._metrics is not None:
            self._metrics.round(job.progress().seconds)


class RangeJob:
    """A job over ranges. Made by `Runner.start`."""

    def __init__(
        self, session: SparkSession, work: Work, *, clock: Clock, pool: str | None, ended: Callable[[RangeJob], None], through: Through
    ) -> None:
        from pyspark import InheritableThread

        self.name: str = work.job
        self._session, self._work, self._clock, self._pool, self._ended, self._through = session, work, clock, pool, ended, through
        self._meter = Meter([len(chosen) for chosen in work.ranges], clock=clock)
        self._rows: dict[int, bytes] = {}
        self._failures: dict[int, TaskFailure] = {}
        self._problem: Exception | None = None
        self._cancelled = False
        self._done = threading.Event()
        self._thread = InheritableThread(target=self._go, name=self.name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """True once the job has ended, with a result or an error."""
        if self._failures and not self._done.is_set():
            self._stop_tasks()
        return self._clock.wait(self._done, seconds)

    def cancel(self) -> None:
        """End the job, and return when Spark has ended it. Safe from any thread, and twice.

        Spark then kills the Python processes of its tasks: after 0.2 s in headwater's sessions, after 2 s by default. Until then they
        may write; an epoch in the writes fences them.
        """
        self._cancelled = True
        deadline = self._clock.monotonic() + CANCELLING
        while not self._done.is_set() and self._clock.monotonic() < deadline:
            self._stop_tasks()  # repeatedly: Spark cannot cancel a job that it has not begun
            self._clock.wait(self._done, POLL)

    def progress(self) -> JobProgress:
        return self._meter.read()

    def result(self) -> list[pa.Table]:
        """Wait for the end and give the tables, one for each range. Errors as `Runner.run`."""
        from headwater.spark.tasks import decoded

        while not self.wait(POLL):
            pass
        if self._failures:
            number = min(self._failures)
            raise self._failures[number].error(self._work.ranges[number])
        if self._cancelled:
            raise Cancelled("The work on Spark was cancelled.", hint="Start it again; ranges that were worked off are done again.")
        if self._problem is not None:
            raise self._problem
        return [decoded(self._rows[number]) for number in range(len(self._work.ranges))]

    def reported(self, report: Report) -> None:
        if report.failure is not None:
            self._failures[report.number] = report.failure
        else:
            self._meter.finished(report.number)

    def _go(self) -> None:
        try:
            if not self._cancelled and self._work.ranges:
                self._collect()
        except Exception as problem:  # py4j and Spark raise many kinds; `result` raises one of headwater's
            self._problem = _explained(problem)
        finally:
            self._done.set()
            self._ended(self)

    def _collect(self) -> None:
        context = self._session.sparkContext
        context.setJobGroup(self.name, f"headwater: {len(self._work.ranges)} ranges", interruptOnCancel=True)
        if self._pool is not None:
            context.setLocalProperty("spark.scheduler.pool", self._pool)
        for number, result, failure in self._through(self._session, self._work):
            if failure is not None:
                self._failures[number] = failure
            else:
                self._rows[number] = result
                self._meter.finished(number)

    def _stop_tasks(self) -> None:
        with suppress(Exception):  # a session that is gone has no tasks
            self._session.sparkContext.cancelJobGroup(self.name)


def _mapped(session: SparkSession, work: Work) -> Iterable[Row]:
    """The job as an RDD: a DataFrame costs each round a third more, and its Python workers load pandas at their start."""
    from headwater.spark.tasks import task

    count = len(work.ranges)
    rows: list[Row] = session.sparkContext.parallelize(range(count), count).mapPartitions(task(work)).collect()
    return rows


def attempts(session: SparkSession) -> int:
    """How often Spark tries a task: `local[n]` once, `local[n,m]` m times, elsewhere by its setting."""
    context = session.sparkContext
    local = re.fullmatch(r"local(?:\[[^,]+(?:,\s*(\d+))?\])?", context.master or "")
    if local:
        return int(local[1] or 1)
    return int(context.getConf().get("spark.task.maxFailures") or 4)


def _explained(problem: Exception) -> HeadwaterError:
    if isinstance(problem, HeadwaterError):
        return problem
    from headwater.spark.starting import log_file

    try:
        text = str(problem)  # with Spark's own sentence in the middle of Java's stack
    except Exception:  # py4j asks Java for the text, and that process has ended: a supervisor may stop it together with this one
        return Unavailable(f"Spark's process has ended ({type(problem).__name__}).", hint=f"See Spark's log, in our sessions {log_file()}.")
    match = re.search(r"SparkException: (.+)", text)
    reason = match[1] if match else (text.strip().splitlines() or [type(problem).__name__])[0]
    return Unavailable(f"Spark gave up: {reason}", hint=f"See Spark's log, in our sessions {log_file()}.")


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Handle Ctrl-C while a job runs: PySpark would leave the job running, or cancel all jobs. A second one raises at once."""
    seen = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return

    def handler(number: int, frame: FrameType | None) -> None:
        if seen.is_set():
            raise KeyboardInterrupt
        seen.set()

    before = getsignal(SIGINT)
    signal(SIGINT, handler)
    try:
        yield seen
    finally:
        signal(SIGINT, before)

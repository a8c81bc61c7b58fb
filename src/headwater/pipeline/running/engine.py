"""The Spark jobs of a run: slices that are copied, and parts that are delivered, side by side in tasks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from headwater.core.errors import Cancelled, NotFound, Unavailable, UnknownTopic, Unsupported
from headwater.core.ids import random_id
from headwater.core.memory import uncollected
from headwater.core.settings import SparkSettings
from headwater.log import Log
from headwater.pipeline.running.part_delivery import deliver_part
from headwater.pipeline.running.pieces import Copied, CopyWork, copy_slices
from headwater.pipeline.running.visibility import check_probes, check_seen, probe, unseen_log
from headwater.pipeline.running.work import Outcome, SinkWork
from headwater.pipeline.sink_adaptor import Part
from headwater.spark.lazy import LazySpark
from headwater.spark.starting import SPECULATION, speculates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.spark.ranges import Range, Runner, Through


RESULT = pa.schema([("result", pa.binary())])


class Engine:
    """Gives work to Spark. Safe for several threads.

    `stopping` cancels the jobs. Tasks that outlive their job do no harm: they check the run's epoch and publish nothing.
    """

    def __init__(self, log: Log, settings: SparkSettings, *, stopping: threading.Event) -> None:
        self._address = log.address
        self.spark = LazySpark(log.address, settings, name="headwater pipeline")
        self._stopping = stopping
        self._free = threading.Event()  # set while no copy has all of Spark's cores
        self._free.set()
        self._probed: set[tuple[str, int]] = set()  # the sinks, each with the run's epoch, whose tasks the run sees write
        self._checked: SparkSession | None = None  # the session that may run our tasks

    def copy(self, work: CopyWork, tasks: dict[int, list[int]]) -> list[Copied]:
        """Read on in these slices for one round. `tasks`: by the number of a task, the numbers of its slices."""
        from headwater.spark.ranges import Range

        ranges = [Range(work.topic, task, work.since, work.since) for task in tasks]  # a range's partition carries the task's number
        with self._explaining():
            runner = self._runner()
            self._free.clear()
            try:
                tables = runner.run(ranges, partial(_copy_task, work, tasks), schema=RESULT, read_only=False, cancel=self._stopping)
            finally:
                self._free.set()
        return [copied for table in tables for copied in msgspec.json.decode(table.column("result")[0].as_py(), type=list[Copied])]

    def deliver_parts(self, work: SinkWork, parts: Sequence[Part], *, batch: int, through: Through | None = None) -> list[Outcome]:
        """Each part in a task of its own; outcomes in the order of the parts. `through`: as `Runner.run` has it."""
        from headwater.spark.ranges import Range

        self.probe(work, parts[0])
        ranges = [Range(work.topic, number, part.start, part.end) for number, part in enumerate(parts)]
        worker = partial(_deliver_task, work, tuple(parts), batch, not self.spark.local)
        with self._explaining():
            tables = self._runner().run(ranges, worker, schema=RESULT, cancel=self._stopping, through=through)
        return [msgspec.json.decode(table.column("result")[0].as_py(), type=Outcome) for table in tables]

    def probe(self, work: SinkWork, part: Part) -> None:
        """Once for each sink and run, before the first batch: try whether the run sees what tasks write. Errors: `BadConfig`."""
        from headwater.spark.ranges import Range

        if self.spark.local or (work.sink.name, part.epoch) in self._probed:
            return
        ranges = [Range(work.topic, number, part.start, part.start) for number in range(self.spark.cores)]  # a task for each worker
        with self._explaining():
            tables = self._runner().run(ranges, partial(_probe_task, work, part), schema=RESULT, cancel=self._stopping)
        check_probes(work, part, [msgspec.json.decode(table.column("result")[0].as_py(), type=tuple[str, str]) for table in tables])
        self._probed.add((work.sink.name, part.epoch))

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Errors: `BadConfig` for an embedded log that the tasks of a cluster do not see; `Cancelled` for what Spark lacks while the run
        stops: who stops all processes of a service ends Spark's, too."""
        try:
            yield
        except Unavailable as error:
            if not self._stopping.is_set():
                raise
            raise Cancelled(error.message, hint=error.hint) from error
        except (NotFound, UnknownTopic) as error:
            if self.spark.local or self._address.engine != "embedded":
                raise
            raise unseen_log(self._address, error) from error

    def _runner(self) -> Runner:
        """Errors: those of `LazySpark.runner`; `BadConfig` for a session, which somebody else has started, that speculates."""
        runner = self.spark.runner()
        if self._checked is runner.session:
            return runner
        if runner.session.sparkContext.getConf().get(SPECULATION, "false") == "true":
            raise speculates(f"Start the session with {SPECULATION}=false, or let headwater start one.")
        self._checked = runner.session
        return runner

    def free(self, seconds: float) -> bool:
        """Whether tasks would begin at once; waits for that so long. A copy takes every core of one machine; a cluster may have more."""
        return not self.spark.local or self._free.wait(seconds)

    def start(self) -> SparkSession:
        """Start Spark now, for transforms that it evaluates. Errors: `Unavailable`; `Unsupported` where it may not be started."""
        if not self.spark.allowed:
            raise Unsupported(
                "A transform needs Spark, which is not started here.",
                hint="Over HTTP and in Python it never is: run the pipeline; or send it from the command line with --file FILE, "
                'and with spark.start = "lazy".',
            )
        return self.spark.runner().session


def result_table(result: object) -> pa.RecordBatch:
    """A value as tasks send it back."""
    return pa.RecordBatch.from_pydict({"result": [msgspec.json.encode(result)]}, schema=RESULT)


def _copy_task(work: CopyWork, tasks: dict[int, list[int]], log: Log, task_range: Range) -> pa.RecordBatch:
    with uncollected():
        return result_table(copy_slices(log, work, task_range.partition, tasks[task_range.partition]))


def _deliver_task(work: SinkWork, parts: tuple[Part, ...], batch: int, apart: bool, log: Log, task_range: Range) -> pa.RecordBatch:
    """`apart`: the task may be on another machine than the run."""
    part = msgspec.structs.replace(parts[task_range.partition], attempt=random_id())
    if apart:
        check_seen(work, part)
    with uncollected():
        return result_table(deliver_part(log, work, part, batch=batch, ends=_over(time.monotonic() + work.seconds)))


def _probe_task(work: SinkWork, part: Part, log: Log, task_range: Range) -> pa.RecordBatch:
    return result_table(probe(work, msgspec.structs.replace(part, attempt=random_id())))


def _over(deadline: float) -> Callable[[], bool]:
    return lambda: time.monotonic() >= deadline

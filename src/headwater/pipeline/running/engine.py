"""Where a run's work is done: in Spark's tasks, or for little of it here."""

from __future__ import annotations

import gc
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from headwater.core.errors import Unsupported
from headwater.core.ids import random_id
from headwater.core.memory import keep_freed
from headwater.core.settings import SparkSettings
from headwater.log import Log
from headwater.pipeline.adaptor import Part
from headwater.pipeline.running.copying import Copied, CopyWork, copy_slices
from headwater.pipeline.running.part_delivery import deliver_part
from headwater.pipeline.running.work import Outcome, SinkWork

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from headwater.spark.ranges import Range, Runner, Through


class Engine:
    """Runs parts side by side. Spark is started at the first use, by whichever thread comes first; safe for several threads.

    `stopping` cancels what runs: orphans of it are harmless, because they check the run's epoch and publish nothing.
    """

    def __init__(
        self, log: Log, settings: SparkSettings, *, stopping: threading.Event, started: Callable[[str], None] | None = None
    ) -> None:
        self._log, self._settings, self._stopping = log, settings, stopping
        self._started = started
        self._lock = threading.Lock()
        self._gate = threading.Lock()
        self._runner: Runner | None = None
        self._starting: threading.Thread | None = None
        self._eager = settings.start == "eager"
        self._closed = threading.Event()
        self._free = threading.Event()  # set while no copy has all of Spark's cores
        self._free.set()
        self.cores = _cores(settings.master)
        self.allowed = settings.start != "never"
        self.spreads = self.allowed and log.engine == "embedded"  # tasks may append only where a claim can be shared

    def copy(self, work: CopyWork, tasks: dict[int, list[int]]) -> list[Copied]:
        """A share of these slices, which tasks have by their numbers."""
        from headwater.spark.ranges import Range

        ranges = [Range(work.topic, task, work.since, work.since) for task in tasks]  # a range's partition carries the task's number
        running = self._running()
        self._free.clear()
        try:
            tables = running.run(ranges, partial(_copy_task, work, tasks), schema=result_schema(), read_only=False, cancel=self._stopping)
        finally:
            self._free.set()
        return [one for table in tables for one in msgspec.json.decode(table.column("result")[0].as_py(), type=list[Copied])]

    def deliver_parts(self, work: SinkWork, parts: Sequence[Part], *, batch: int, through: Through | None = None) -> list[Outcome]:
        """Each part in a task of its own; outcomes in the order of the parts. `through`: as `Runner.run` has it."""
        from headwater.spark.ranges import Range

        ranges = [Range(work.topic, number, part.start, part.end) for number, part in enumerate(parts)]
        worker = partial(_deliver_task, work, tuple(parts), batch)
        tables = self._running().run(ranges, worker, schema=result_schema(), cancel=self._stopping, through=through)
        return [msgspec.json.decode(table.column("result")[0].as_py(), type=Outcome) for table in tables]

    def free(self, seconds: float) -> bool:
        """Whether tasks would begin at once; waits for that so long. On one machine a copy takes every core, and what is asked for
        meanwhile only queues; a cluster may have more."""
        return not self._settings.master.startswith("local") or self._free.wait(seconds)

    def ready(self) -> bool:
        """Whether work of some size is better given to Spark than done here.

        Spark takes seconds to start. Its start is begun, and until it is there the work goes on here: often it is done before. With
        `spark.start` set to eager it is waited for.
        """
        if self._eager or _session_is_there():
            self._running()
            return True
        with self._gate:
            if self._starting is None and self._runner is None:
                self._starting = threading.Thread(target=self._start_quietly, name="headwater spark start", daemon=True)
                self._starting.start()
            return self._starting is None or not self._starting.is_alive()

    def _start_quietly(self) -> None:
        with suppress(Exception):  # whoever needs it tries again, and hears what is wrong
            self._running()
        if self._closed.is_set():
            self.close()

    def start(self) -> SparkSession:
        """Start Spark now, for transforms that it evaluates. Errors: `Unavailable`; `Unsupported` where it may not be started."""
        if not self.allowed:
            raise Unsupported(
                "A transform needs Spark, which is not started here.",
                hint="Over HTTP and in Python it never is: run the pipeline; or send it from the command line with --file FILE, "
                'and with spark.start = "lazy".',
            )
        return self._running().session

    def close(self) -> None:
        """Let go of Spark's runner; the session stays for whoever else uses it in this process. One that still starts is not waited for."""
        self._closed.set()
        if self._starting is not None and self._starting.is_alive() and threading.current_thread() is not self._starting:
            return
        with self._lock:
            if self._runner is not None:
                self._runner.close()
                self._runner = None

    def _running(self) -> Runner:
        with self._lock:
            if self._runner is None:
                from headwater.spark import session
                from headwater.spark.ranges import Runner

                started = session(self._settings, name="headwater pipeline")
                self._runner = Runner(started, self._log.address)
                if self._started is not None:
                    self._started(started.sparkContext.master or self._settings.master)
            return self._runner


def _session_is_there() -> bool:
    """Whether this process has started Spark before."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    return SparkSession._instantiatedSession is not None


def _cores(master: str) -> int:
    """How many tasks run at once: what a local master says, else four, which a cluster's own setting shares out."""
    found = re.fullmatch(r"local\[(\*|\d+)(?:,\s*\d+)?\]", master)
    if found is None:
        return 1 if master == "local" else 4
    return os.cpu_count() or 1 if found[1] == "*" else int(found[1])


def result_schema() -> pa.Schema:
    """Of what tasks send back."""
    import pyarrow as pa

    return pa.schema([("result", pa.binary())])


def result_table(result: object) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({"result": [msgspec.json.encode(result)]}, schema=result_schema())


@contextmanager
def uncollected() -> Iterator[None]:
    """Without Python's search for cycles, of which documents have none: it would look at every one of them again and again. And with
    the memory of the batch before."""
    keep_freed()
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _copy_task(work: CopyWork, tasks: dict[int, list[int]], log: Log, given: Range) -> pa.RecordBatch:
    with uncollected():
        return result_table(copy_slices(log, work, given.partition, tasks[given.partition]))


def _deliver_task(work: SinkWork, parts: tuple[Part, ...], batch: int, log: Log, given: Range) -> pa.RecordBatch:
    part = msgspec.structs.replace(parts[given.partition], attempt=random_id())
    with uncollected():
        return result_table(deliver_part(log, work, part, batch=batch))

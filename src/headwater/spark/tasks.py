"""Runs inside a Spark task: opens the log, gives one range to the worker, and sends back a small result or the error, never records."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

from headwater.core.errors import HeadwaterError, TaskFailed, Unavailable
from headwater.log.opening import LogAddress, open_log
from headwater.spark.ranges import Range, Worker

Row = tuple[int, bytes, "TaskFailure | None"]  # the number of a range, its result, or its failure


class TaskFailure(msgspec.Struct, frozen=True):
    """An error of a task, as it travels to the driver."""

    kind: str
    message: str
    trace: str
    pickled: bytes | None = None  # of an error of ours, which keeps its type

    def error(self, range: Range) -> HeadwaterError:
        """The error to raise: ours as it was, with the task's traceback as a note; any other as `TaskFailed`."""
        if self.pickled is not None:
            ours: HeadwaterError = pickle.loads(self.pickled)
            ours.add_note(f"Raised in a Spark task for {range}:\n{self.trace}")
            return ours
        return TaskFailed(f"The work on {range} failed: {self.kind}: {self.message}\n\n{self.trace}")


class Report(msgspec.Struct, frozen=True):
    """Sent to the driver when a task ends, while the job still runs."""

    job: str
    number: int
    failure: TaskFailure | None


class Reports(AccumulatorParam[tuple[Report, ...]]):
    """Carries reports from tasks to the driver over Spark's accumulators; the driver calls `deliver` with each.

    PySpark keeps it while the Spark context lives: its receiving thread dies of an update for a deleted accumulator. So `close` only
    drops `deliver`.
    """

    def __init__(self, deliver: Callable[[Report], None] | None = None) -> None:
        self._deliver = deliver

    def zero(self, value: tuple[Report, ...]) -> tuple[Report, ...]:
        return ()

    def addInPlace(self, value1: tuple[Report, ...], value2: tuple[Report, ...]) -> tuple[Report, ...]:  # noqa: N802
        if self._deliver is None:
            return value1 + value2
        for report in value2:
            self._deliver(report)
        return ()

    def close(self) -> None:
        self._deliver = lambda report: None

    def __reduce__(self) -> tuple[object, ...]:
        return (Reports, ())  # a task gathers reports, and sends them when it ends


class Work(msgspec.Struct, frozen=True):
    """Everything that a task needs. It travels; the records do not."""

    job: str
    address: LogAddress
    read_only: bool
    ranges: tuple[Range, ...]
    worker: Worker
    schema: pa.Schema
    attempts: int
    reports: Any  # Accumulator


def task(work: Work) -> Callable[[Iterable[int]], Iterator[Row]]:
    """The function that Spark calls: it is given the numbers of ranges."""

    def run(numbers: Iterable[int]) -> Iterator[Row]:
        for number in numbers:
            yield _row(work, number)

    return run


def _row(work: Work, number: int) -> Row:
    result, failure = b"", None
    try:
        result = _result(work, work.ranges[number])
    except Exception as problem:  # the error is a result: raising it would run the range again, and hide it in an error of Java
        context = TaskContext.get()
        if isinstance(problem, Unavailable | OSError) and context is not None and context.attemptNumber() + 1 < work.attempts:
            raise  # the next attempt may reach the broker or the disk
        failure = failure_of(problem)
    work.reports.add((Report(work.job, number, failure),))
    return number, result, failure


def _result(work: Work, range: Range) -> bytes:
    with open_log(work.address, read_only=work.read_only) as log:
        given = work.worker(log, range)
        return encoded((given,) if isinstance(given, pa.RecordBatch | pa.Table) else given or (), work.schema)


def failure_of(problem: Exception) -> TaskFailure:
    """An error ready to travel. The frames of this file are left out of its traceback: they are the same for all."""
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(problem), problem, trace))
    pickled = pickle.dumps(problem) if isinstance(problem, HeadwaterError) else None
    return TaskFailure(type(problem).__name__, str(problem), text, pickled)


def encoded(tables: Iterable[pa.RecordBatch | pa.Table], schema: pa.Schema) -> bytes:
    """A task's result as it travels."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        for table in tables:
            if not table.schema.equals(schema):
                raise TypeError(f"The worker gave columns {table.schema.to_string()}, not {schema.to_string()}.")
            stream.write(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def decoded(payload: bytes) -> pa.Table:
    """A task's result as the worker gave it."""
    return pa.ipc.open_stream(payload).read_all()

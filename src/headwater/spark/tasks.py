"""What runs inside a Spark task: open the log, give one range to the worker, and send back a small result or the error, never a payload."""

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
    """Carries reports from tasks to the driver over Spark's accumulators; in the driver each one is given to `deliver` as it arrives.

    PySpark keeps it for as long as the Spark context lives, and must: its receiving thread dies of an update for an accumulator that is
    gone. So `close` only lets go of what it holds.
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
        return (Reports, ())  # in a task there is nobody to deliver to: reports are gathered and sent when it ends


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
    except Exception as problem:  # an error is a result: raising would run the range again, and hide the error in Java's
        context = TaskContext.get()
        if isinstance(problem, Unavailable | OSError) and context is not None and context.attemptNumber() + 1 < work.attempts:
            raise  # a broker or a disk that does not answer now may answer the next attempt
        failure = failure_of(problem)
    work.reports.add((Report(work.job, number, failure),))
    return number, result, failure


def _result(work: Work, range: Range) -> bytes:
    with open_log(work.address, read_only=work.read_only) as log:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, work.schema) as stream:
            given = work.worker(log, range)
            for table in (given,) if isinstance(given, pa.RecordBatch | pa.Table) else given or ():
                if not table.schema.equals(work.schema):
                    raise TypeError(f"The worker gave columns {table.schema.to_string()}, not {work.schema.to_string()}.")
                stream.write(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def failure_of(problem: Exception) -> TaskFailure:
    """An error ready to travel. The frames of this file are left out of its traceback: they are the same for all."""
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(problem), problem, trace))
    pickled = pickle.dumps(problem) if isinstance(problem, HeadwaterError) else None
    return TaskFailure(type(problem).__name__, str(problem), text, pickled)


def decoded(payload: bytes) -> pa.Table:
    """A task's result as the worker gave it."""
    return pa.ipc.open_stream(payload).read_all()

"""One round of delivery through an `sql` transform as one Spark job, with a task for each part.

In each task a Python worker reads the part's records and gives Spark the columns that the expression needs. Spark evaluates it. A second
worker reads the records again, puts the results into the documents and writes them. The documents do not pass through Java, unless other
transforms come before.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.core.ids import random_id
from headwater.core.memory import uncollected
from headwater.log import Log
from headwater.log.address import LogAddress
from headwater.log.opening import open_log
from headwater.pipeline import values
from headwater.pipeline.message import Message, Op
from headwater.pipeline.running.engine import RESULT, result_table
from headwater.pipeline.running.part_delivery import PartDelivery
from headwater.pipeline.running.record_batch import RecordBatch
from headwater.pipeline.running.visibility import check_seen
from headwater.pipeline.running.work import Detour, Outcome, SinkWork
from headwater.pipeline.sink_adaptor import Part, SinkWriter
from headwater.pipeline.transform import Fields, Transform, chain, each_changed
from headwater.pipeline.transforms.columns import SAME, Staying, batch_of, changes
from headwater.pipeline.transforms.sql import DIGITS, quietly
from headwater.pipeline.transforms.sql_plan import LEAD, Known, SqlPlan, empty_rows, types_of
from headwater.pipeline.transforms.type_widening import Unusual, fitted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.spark.ranges import Range
    from headwater.spark.tasks import Row, Work

_op, _namespace, _data = attrgetter("op"), attrgetter("namespace"), attrgetter("data")
_ROWS = pa.schema([("number", pa.int64()), ("result", pa.binary()), ("failure", pa.binary())])


class PieceMark(msgspec.Struct, frozen=True, array_like=True):
    """The last row of each batch: its offsets and the number of its messages, or why the part ends here (`stop`)."""

    start: int
    end: int
    count: int
    stop: str | None = None
    columns: bytes = b""


@dataclass(frozen=True)
class SqlJob:
    """A value: it travels to Spark's workers."""

    address: LogAddress
    work: SinkWork
    parts: tuple[Part, ...]
    batch: int
    namespace: str
    plan: SqlPlan
    before: tuple[Transform, ...]
    behind: tuple[Transform, ...]
    apart: bool = False  # the tasks may be on other machines than the run

    def through(self, session: SparkSession, work: Work) -> Iterable[Row]:
        """Run the job, without a shuffle. Where Spark gives up, every part ends at its beginning."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from headwater.spark.tasks import encoded

        count = len(self.parts)
        try:
            with quietly():
                rows = session.range(0, count, 1, count).mapInArrow(self.given, empty_rows(session, self.plan.columns).schema)
                made = self.plan.evaluated(session, rows)
                written = made.mapInArrow(partial(self.written, work), "number bigint, result binary, failure binary").collect()
        except (PySparkException, Py4JError) as problem:
            reason = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
            none = [
                Outcome(start=part.start, end=part.end, acked=part.start, bucket=part.bucket, buckets=part.buckets, stop=Detour(reason))
                for part in self.parts
            ]
            return [(number, encoded([result_table(outcome)], RESULT), None) for number, outcome in enumerate(none)]
        return [(row.number, bytes(row.result), pickle.loads(bytes(row.failure))) for row in written]

    # -- the first worker of a task -------------------------------------------------------------------------

    def given(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self._given(self.parts[number])

    def _given(self, part: Part) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        at, task = part.start, TaskContext.get()
        try:
            if task is not None and task.attemptNumber():
                # The first attempt most likely failed by an error of the expression. The driver finds the message that it fails for,
                # and the other parts of this round count.
                raise Unusual("Spark has failed here once")
            with uncollected(), open_log(self.address, read_only=True) as log:
                columns = _Columns(self)
                while at < part.end:
                    records = RecordBatch(log, self.work, at, min(part.end, at + self.batch), part=part)
                    yield columns.of(records)
                    at = records.end
        except Exception as problem:  # the driver meets it as well, and says at which message
            known = problem.columns if isinstance(problem, Unusual) else None
            stored = known.serialize().to_pybytes() if known is not None else b""
            yield _rows(self.plan, [], [], {}, PieceMark(at, at, 0, str(problem) or type(problem).__name__, stored))

    # -- the second one -------------------------------------------------------------------------------------

    def written(self, work: Work, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        from headwater.spark.tasks import task

        context = TaskContext.get()
        assert context is not None
        for number, result, failure in task(msgspec.structs.replace(work, worker=partial(self._written, rows)))([context.partitionId()]):
            for _ in rows:  # to the end: Spark fails a task that leaves rows unread
                pass
            yield pa.RecordBatch.from_pydict({"number": [number], "result": [result], "failure": [pickle.dumps(failure)]}, schema=_ROWS)

    def _written(self, rows: Iterator[pa.RecordBatch], log: Log, task_range: Range) -> pa.RecordBatch:
        part = msgspec.structs.replace(self.parts[task_range.partition], attempt=random_id())
        if self.apart:
            check_seen(self.work, part)
        writer = self.work.sink.adaptor.writer(part)
        try:
            with uncollected():
                return result_table(SqlPartDelivery(self, log, part, writer, rows=rows).run())
        finally:
            writer.close()


class _Columns:
    """Makes the columns of one batch after the other."""

    def __init__(self, round: SqlJob) -> None:
        self._round, self._known = round, Known(round.plan)
        self._fixed = round.plan.fixed
        self._apply = chain(round.before)

    def of(self, records: RecordBatch) -> pa.RecordBatch:
        """Errors: `Rejected`, of reading or of a transform; `Unusual`."""
        round, plan = self._round, self._round.plan
        messages = [message for message in self._apply(records.messages()) if message is not None]
        mark = PieceMark(records.start, records.end, len(messages))
        if not messages:
            return _rows(plan, [], [], {}, mark)
        if Op.COMMAND in map(_op, messages) or set(map(_namespace, messages)) != {round.namespace}:
            raise Unusual("there are commands, or several namespaces")
        columns: dict[str, pa.Array] = {}
        try:
            self._known.check(map(_data, messages))
            # The mark is a row like the others, for which the expression is evaluated: it has the values of the one before it.
            again = [*messages, messages[-1]]
            fixed = batch_of(again, schema=self._fixed, wanted=lambda name: False) if self._fixed is not None else None
            for name in plan.needed:
                if fixed is not None and name in fixed.schema.names:
                    columns[name] = fixed.column(name)
                else:
                    columns[name] = fitted([message.data.get(name) for message in again], plan.columns.field(name), DIGITS)
        except Unusual as other:
            if other.columns is None:
                raise
            # The types of the whole batch: with those of one column, the next attempt would end at the next column.
            types = types_of(plan.transform, [messages], other.columns, fixed=plan.fixed)
            raise Unusual(other.reason, types or other.columns) from other
        shipped = [pickle.dumps(message) for message in messages] if round.before else []
        return _rows(plan, [message.offset for message in messages], shipped, columns, mark)


def _rows(
    plan: SqlPlan, offsets: Sequence[int], messages: Sequence[bytes], columns: dict[str, pa.Array], mark: PieceMark
) -> pa.RecordBatch:
    count = len(offsets)
    arrays = [
        pa.array([*range(count), -1], pa.int64()),
        pa.array([*[None] * count, msgspec.msgpack.encode(mark)], pa.binary()),
        pa.array([*messages, None], pa.binary()) if messages else pa.nulls(count + 1, pa.binary()),
        pa.array([*offsets, offsets[-1] if offsets else -1], pa.int64()),
    ]
    for field in plan.columns:
        arrays.append(columns[field.name] if field.name in columns else pa.nulls(count + 1, field.type))
    return pa.RecordBatch.from_arrays(arrays, names=[*(field.name for field in LEAD), *plan.columns.names])


class SqlPartDelivery(PartDelivery):
    """Delivers the rows that Spark has evaluated."""

    def __init__(self, round: SqlJob, log: Log, part: Part, writer: SinkWriter, *, rows: Iterator[pa.RecordBatch]) -> None:
        super().__init__(log, round.work, part, writer, batch=round.batch, transforms=round.behind)
        self._round, self._batches = round, _batches(rows)
        self._mark, self._made = PieceMark(part.start, part.start, 0), pa.table({})
        self._stay = Staying(round.plan.leaves)

    def batch(self, start: int) -> RecordBatch:
        mark, self._made = next(self._batches, (None, self._made))
        if mark is None:
            raise Unusual("Spark has broken off")
        if mark.stop is not None:
            raise Unusual(mark.stop, pa.ipc.read_schema(pa.py_buffer(mark.columns)) if mark.columns else None)
        if self._round.plan.transform.expression.where is None and len(self._made) != mark.count:
            raise Unusual("rows are missing")
        self._mark, records = mark, self._found(mark.start, mark.end)
        if (start, records.end) != (mark.start, mark.end):
            raise Unusual(f"offsets {mark.start} to {mark.end} came, not {start} to {records.end}")
        return records

    def text(self, records: RecordBatch) -> list[bytes] | None:
        """Puts fields into the documents' text without reading the other values."""
        plan = self._round.plan
        texts = None if self._round.before or plan.transform.keeps_id else records.text()
        if texts is None or (records.end == self._mark.end and len(texts) != self._mark.count):
            return None
        at, change = self._change(len(texts), of_text=True)
        return values.field_by_field(texts if len(at) == len(texts) else [texts[row] for row in at], change)

    def messages(self, records: RecordBatch) -> list[Message]:
        if self._round.before:
            shipped = [pickle.loads(cell) for cell in self._made.column(2).to_pylist()]
            messages = [message for message in shipped if message.offset < records.end]
            _, change = self._change(len(messages), of_rows=True)
        else:
            read = records.messages()
            if records.end == self._mark.end and len(read) != self._mark.count:
                raise Unusual(f"{self._mark.count} messages became {len(read)}")
            at, change = self._change(len(read))
            messages = [read[row] for row in at]
        return each_changed(self._round.plan.transform, messages, change)

    def _change(self, count: int, *, of_rows: bool = False, of_text: bool = False) -> tuple[list[int], Fields]:
        """The rows that are left of the first `count` messages, or the first `count` rows; and the function to call for each document,
        in their order. `of_text`: the values are for the text of documents."""
        plan, made = self._round.plan, self._made.slice(0, count) if of_rows else self._made
        numbers = made.column(0).to_numpy()
        if len(numbers) > 1 and np.diff(numbers).min() <= 0:
            raise Unusual("rows changed places")
        if not of_rows:
            made = made.slice(0, int(np.searchsorted(numbers, count)))
            numbers = numbers[: len(made)]
        was = {name: made.column(3 + i).combine_chunks() for i, name in enumerate(plan.was)}
        new: dict[str, list[Any]] = {}
        for i, name in enumerate(plan.made, start=3 + len(plan.was)):
            column = made.column(i).combine_chunks()
            changed = changes(pa.field(name, column.type), column, was.get(name))
            if changed is not None:
                new[name] = values.tagged(changed) if of_text else changed
        return numbers.tolist(), _putting(new, self._stay if plan.stays is not None or plan.gone else None)


def _putting(new: dict[str, list[Any]], stay: Staying | None) -> Fields:
    """The function that puts values into one document after the other."""
    names, rows = tuple(new), zip(*new.values(), strict=True)

    def change(data: dict[str, Any]) -> dict[str, Any]:
        if stay is not None:
            stay(data)
        for name, value in zip(names, next(rows), strict=True):
            if value is not SAME:
                data[name] = value
        return data

    return change if new else stay or (lambda data: data)


def _batches(rows: Iterator[pa.RecordBatch]) -> Iterator[tuple[PieceMark, pa.Table]]:
    """The batches that the first worker gave, however Spark has cut them; only whole ones."""
    held: list[pa.RecordBatch] = []
    for batch in rows:
        start = 0
        for at in pc.indices_nonzero(pc.is_valid(batch.column(1))).to_pylist():
            held.append(batch.slice(start, at - start))
            yield msgspec.msgpack.decode(batch.column(1)[at].as_py(), type=PieceMark), pa.Table.from_batches(held)
            held, start = [], at + 1
        held.append(batch.slice(start))

"""Chooses where an `sql` transform is evaluated: in Spark's tasks, on all cores, or in the driver.

The driver evaluates every expression and finds the message that one fails for. Per document both cost the same processor time, but the
driver is one process. Where the expression only leaves fields out, tasks need half of that time, because Java sees no document.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from headwater.core.errors import Rejected
from headwater.log import Log
from headwater.pipeline.definition import Sink
from headwater.pipeline.message import Message, Op
from headwater.pipeline.running.engine import Engine
from headwater.pipeline.running.record_batch import RecordBatch
from headwater.pipeline.running.sql_job import SqlJob
from headwater.pipeline.running.work import Outcome, SinkWork
from headwater.pipeline.sink_adaptor import Part
from headwater.pipeline.transform import Transform, chain
from headwater.pipeline.transforms.sql import Sql, schema_of
from headwater.pipeline.transforms.sql_plan import SelectedColumns, SqlPlan, planned, types_of
from headwater.pipeline.transforms.type_widening import both, mixes

_LEAST = 20_000  # messages: the driver has delivered fewer before Spark has planned the query and started its workers
_SAMPLE = 500  # messages of a part whose types are looked at
_SAMPLES = 8  # parts whose types are looked at
_BATCH = 20_000  # messages at once: enough for columns, few enough that reading, evaluating and writing overlap
_MOST = 64  # rounds in a row that are left to the driver, at most
_WIDER = 8  # rounds in a row that may end early because the planned types were too narrow


class SqlDelivery:
    """Delivers through one sink's `sql` transform. It keeps the types of the documents from round to round."""

    def __init__(self, sink: Sink, log: Log, engine: Engine, *, least: int | None = None) -> None:
        """`least`: messages that are given to the tasks; the driver takes fewer."""
        self._log, self._engine, self._least = log, engine, _LEAST if least is None else least
        at = [i for i, transform in enumerate(sink.transforms) if transform.needs_session]
        fits = len(at) == 1 and isinstance(sink.transforms[at[0]], Sql) and sink.transforms[at[0]].namespaces.everything
        self._at = at[0] if fits else None  # the place of the transform; None: the driver takes all
        self._types: pa.Schema | None = None  # of the documents seen so far
        self._plan: tuple[pa.Schema, SqlPlan] | None = None  # the last one, and the types that it was made for
        self._pause, self._next_pause = 0, 1  # rounds that are left to the driver: now, and after the next failure
        self._wider = 0
        self.careful = False  # whether the driver delivers what the tasks could not

    def deliver_in_tasks(self, work: SinkWork, parts: Sequence[Part], *, batch: int) -> list[Outcome] | None:
        """Deliver the parts in Spark's tasks; None where the driver has to. Errors: as `Engine.deliver_parts`."""
        self.careful = self._pause > 0
        if self._at is None or self._pause > 0:
            self._pause = max(0, self._pause - 1)
            return None
        if sum(part.end - part.start for part in parts) < self._least:
            return None
        outcomes = self._deliver(work, parts, self._at, batch)
        if outcomes is None:
            self._leave_to_driver()
        else:
            self._learn(outcomes)
        return outcomes

    def _deliver(self, work: SinkWork, parts: Sequence[Part], at: int, batch: int) -> list[Outcome] | None:
        before, transform, behind = work.sink.transforms[:at], work.sink.transforms[at], work.sink.transforms[at + 1 :]
        assert isinstance(transform, Sql)
        try:
            samples = self._samples(work, parts, before)
            types = types_of(transform, samples, self._types, fixed=schema_of(transform)) if samples else None
        except Rejected:
            return None
        if types is None:
            return None
        if self._plan is not None and types.equals(self._plan[0], check_metadata=True):
            plan: SqlPlan | None = self._plan[1]
        else:
            plan = planned(transform, self._engine.start(), types)
        if plan is None:
            return None
        self._types, self._plan = types, (types, plan)
        if plan.chooses:
            sink = msgspec.structs.replace(work.sink, transforms=(*before, SelectedColumns(plan), *behind))
            return self._engine.deliver_parts(msgspec.structs.replace(work, sink=sink), parts, batch=batch)
        job = SqlJob(
            address=self._log.address,
            work=work,
            parts=tuple(parts),
            batch=max(batch, _BATCH),
            namespace=samples[0][0].namespace,
            plan=plan,
            before=before,
            behind=behind,
            apart=not self._engine.spark.local,
        )
        return self._engine.deliver_parts(work, parts, batch=batch, through=job.through)

    def _samples(self, work: SinkWork, parts: Sequence[Part], before: Sequence[Transform]) -> list[list[Message]]:
        """Some messages of some parts; none where they are of several namespaces or hold a command. Errors: `Rejected`."""
        apply = chain(before)
        samples: list[list[Message]] = []
        for part in parts[:: -(-len(parts) // _SAMPLES)]:
            read = RecordBatch(self._log, work, part.start, min(part.end, part.start + _SAMPLE), part=part).messages()
            if messages := [message for message in apply(read) if message is not None]:
                samples.append(messages)
        names = {message.namespace for messages in samples for message in messages}
        commands = any(message.op is Op.COMMAND for messages in samples for message in messages)
        return [] if commands or len(names) > 1 else samples

    def _learn(self, outcomes: Sequence[Outcome]) -> None:
        """Widen the types by those of the documents that ended a part."""
        stops = [outcome.stop for outcome in outcomes if outcome.stop is not None]
        if not stops:
            self._next_pause, self._wider = 1, 0
            return
        before = self._types
        for stop in stops:
            schema = pa.ipc.read_schema(pa.py_buffer(stop.columns)) if stop.columns else None
            wide = both(self._types, schema) if schema is not None and self._types is not None else None
            if wide is None or mixes(wide, self._types):
                self._leave_to_driver()
                return
            self._types = wide
        self._wider += 1
        if self._wider > _WIDER or (before is not None and before.equals(self._types, check_metadata=True)):
            self._leave_to_driver()

    def _leave_to_driver(self) -> None:
        """Leave the next rounds to the driver: after each failure in a row, twice as many."""
        self._pause, self._next_pause = self._next_pause, min(_MOST, self._next_pause * 2)
        self._wider = 0
        self._types = None

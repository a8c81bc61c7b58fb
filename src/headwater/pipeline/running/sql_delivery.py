"""Which way documents take through an `sql` transform: in Spark's tasks, which is the quick one, or in the driver, which takes all of them
and finds the message that an expression fails for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from headwater.core.errors import Rejected
from headwater.log import Log
from headwater.pipeline.adaptor import Part
from headwater.pipeline.definition import Sink
from headwater.pipeline.message import Message, Op
from headwater.pipeline.running.engine import Engine
from headwater.pipeline.running.record_batch import RecordBatch
from headwater.pipeline.running.work import Outcome, SinkWork
from headwater.pipeline.transform import Transform, chain

if TYPE_CHECKING:
    from headwater.pipeline.transforms.sql_plan import SqlPlan

_LEAST = 20_000  # messages: fewer are through the driver before Spark has planned the query and its workers have begun
_SAMPLE = 500  # messages of a part that types are found from
_SAMPLES = 8  # parts
_BATCH = 20_000  # messages at once: enough for columns, few enough that reading, evaluating and writing overlap
_MOST = 64  # rounds that the driver's way is taken for, after the other has failed again and again
_WIDER = 8  # rounds in a row that may end early because types were too narrow


class SqlDelivery:
    """The ways of one sink. What was learnt of the documents' types is kept from round to round."""

    def __init__(self, sink: Sink, log: Log, engine: Engine, *, least: int | None = None) -> None:
        """`least`: messages that the tasks take; fewer are the driver's."""
        self._log, self._engine, self._least = log, engine, _LEAST if least is None else least
        at = [i for i, one in enumerate(sink.transforms) if one.needs_session]
        self._at = at[0] if len(at) == 1 and _spreads(sink.transforms[at[0]]) else None
        self._types: pa.Schema | None = None
        self._planned: pa.Schema = pa.schema([])
        self._plan: SqlPlan | None = None  # the last one, made for the types that were planned with
        self._pause, self._next = 0, 1
        self._wider = 0
        self.careful = False  # whether the driver has to take over what the tasks have left

    def deliver_in_tasks(self, work: SinkWork, parts: Sequence[Part], *, batch: int) -> list[Outcome] | None:
        """The parts delivered by Spark's tasks; None where it is the driver's turn. Errors: as `Engine.deliver_parts`."""
        self.careful = self._pause > 0
        if self._at is None or self._pause > 0:
            self._pause = max(0, self._pause - 1)
            return None
        if sum(part.end - part.start for part in parts) < self._least:
            return None
        outcomes = self._delivered(work, parts, self._at, batch)
        if outcomes is None:
            self._wait()
        else:
            self._learn(outcomes)
        return outcomes

    def _delivered(self, work: SinkWork, parts: Sequence[Part], at: int, batch: int) -> list[Outcome] | None:
        from headwater.pipeline.running.sql_job import SqlJob
        from headwater.pipeline.transforms.sql import Sql, schema_of
        from headwater.pipeline.transforms.sql_plan import Projection, planned, types_of

        before, transform, behind = work.sink.transforms[:at], work.sink.transforms[at], work.sink.transforms[at + 1 :]
        assert isinstance(transform, Sql)
        try:
            samples = self._samples(work, parts, before)
            if not samples:
                return None
            types = types_of(transform, samples, self._types, fixed=schema_of(transform))
        except Rejected:
            return None
        plan = self._plan if types is not None and types.equals(self._planned, check_metadata=True) else None
        if plan is None and types is not None:
            plan = planned(transform, self._engine.start(), types)
        if plan is None or types is None:
            return None
        self._types = self._planned = types
        self._plan = plan
        if plan.chooses:
            sink = msgspec.structs.replace(work.sink, transforms=(*before, Projection(plan), *behind))
            return self._engine.deliver_parts(msgspec.structs.replace(work, sink=sink), parts, batch=batch)
        made = SqlJob(
            address=self._log.address,
            work=work,
            parts=tuple(parts),
            batch=max(batch, _BATCH),
            namespace=samples[0][0].namespace,
            plan=plan,
            before=before,
            behind=behind,
        )
        return self._engine.deliver_parts(work, parts, batch=batch, through=made.through)

    def _samples(self, work: SinkWork, parts: Sequence[Part], before: Sequence[Transform]) -> list[list[Message]]:
        """Some messages of some parts; none where they are of several namespaces. Errors: `Rejected`."""
        apply = chain(before) if before else None
        out: list[list[Message]] = []
        for part in parts[:: -(-len(parts) // _SAMPLES)]:
            messages = RecordBatch(self._log, work, part.start, min(part.end, part.start + _SAMPLE), part=part).messages()
            if apply is not None:
                messages = [message for message in apply(messages) if message is not None]
            if messages:
                out.append(messages)
        names = {message.namespace for messages in out for message in messages}
        commands = any(message.op is Op.COMMAND for messages in out for message in messages)
        return [] if commands or len(names) > 1 else out

    def _learn(self, outcomes: Sequence[Outcome]) -> None:
        from headwater.pipeline.transforms.type_widening import both, mixes

        stops = [one.stop for one in outcomes if one.stop is not None]
        if not stops:
            self._next, self._wider = 1, 0
            return
        before = self._types
        for stop in stops:
            found = pa.ipc.read_schema(pa.py_buffer(stop.columns)) if stop.columns else None
            wide = both(self._types, found) if found is not None and self._types is not None else None
            if wide is None or mixes(wide, self._types):
                self._wait()
                return
            self._types = wide
        self._wider += 1
        if self._wider > _WIDER or (before is not None and before.equals(self._types, check_metadata=True)):
            self._wait()

    def _wait(self) -> None:
        """Leave the next rounds to the driver, more of them each time that this was for nothing."""
        self._pause, self._next = self._next, min(_MOST, self._next * 2)
        self._wider = 0
        self._types = None


def _spreads(transform: Transform) -> bool:
    from headwater.pipeline.transforms.sql import Sql

    return isinstance(transform, Sql) and transform.namespaces.everything

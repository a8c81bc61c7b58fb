"""Decides the columns of a sink's tables by a sample of the log, before the first part, and makes them wider where a part needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache

import msgspec

from headwater.core.errors import Rejected, TaskFailed
from headwater.log import Log
from headwater.pipeline.columns import ColumnNeeds, ColumnRules, TableColumns, observed
from headwater.pipeline.definition import Sink
from headwater.pipeline.message import Message, Op
from headwater.pipeline.offsets.column_decision import ColumnDecision, decided
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.state import Change, State
from headwater.pipeline.running.record_batch import RecordBatch
from headwater.pipeline.running.work import SinkWork
from headwater.pipeline.sink_adaptor import deliverable
from headwater.pipeline.transform import chain

SAMPLE = 10_000  # messages
_LATER = 2000  # messages, where a table or a column comes later
_FIRST = 100  # messages that are looked at whatever it costs
_LONG = 1.0  # seconds after which the sample ends: a transform may be slow
Decide = Callable[[ColumnDecision | None], ColumnDecision]


class ColumnDeciding:
    """The decision of one sink. It is written before the first part that uses it, so that all parts, tasks and runs have the same."""

    def __init__(self, control: Control, sink: Sink, log: Log) -> None:
        self._control, self._sink, self._log = control, sink, log
        # An adaptor reads its options anew for each question, which costs more than all else about a message.
        self._place = lru_cache(maxsize=1024)(lambda namespace: sink.adaptor.place(namespace))

    @cached_property
    def _rules(self) -> ColumnRules | None:
        """Errors: `BadConfig` of the adaptor, which then end this sink alone."""
        return self._sink.adaptor.column_rules()

    @property
    def missing(self) -> bool:
        """Whether the sink makes tables, and nothing is decided."""
        return self._rules is not None and self._sink.name not in self._control.state.columns

    def work(self, work: SinkWork, start: int, end: int) -> SinkWork:
        """The work with the decided columns: by the messages [start, end) where nothing is decided. Errors: `Unavailable`; `Fenced`."""
        rules = self._rules
        if rules is None:
            return work
        if self.missing:
            sample = ((self._place(message.namespace), message) for message in self._sample(work, start, min(end, start + SAMPLE)))
            decision = self._without_given(decided(sample, rules))
            self._write(work.epoch, lambda before: decision if before is None else before)
        known = self._control.state.columns.get(self._sink.name)
        return work if known is None else msgspec.structs.replace(work, columns=known.tables)

    def extend(self, work: SinkWork, needs: ColumnNeeds) -> None:
        """Decide what a part needs. Errors: `TaskFailed` where the decision has all of it, and the part did not use it."""
        rules = self._rules
        assert rules is not None
        now = self._control.clock.now_ms()
        needs = self._sampled(work, needs, rules)
        self._write(work.epoch, lambda before: (before or ColumnDecision()).extended(needs, rules, at=now))
        decision = self._control.state.columns[self._sink.name]
        if decision.tables == work.columns:
            raise TaskFailed(f"The columns {', '.join(needs.types)} of {needs.table} could not be decided for message {needs.offset}.")

    def _sampled(self, work: SinkWork, needs: ColumnNeeds, rules: ColumnRules) -> ColumnNeeds:
        """The needs with the types of new columns by a sample from their first message on: one batch may not have all kinds of values."""
        known = self._control.state.columns.get(self._sink.name, ColumnDecision()).tables.get(needs.table, TableColumns())
        new = needs.types.keys() - known.columns.keys()
        if not new:
            return needs
        end = min(self._log.bounds(work.topic, 0).end, needs.offset + _LATER)
        sample = [message for message in self._sample(work, needs.offset, end) if self._place(message.namespace) == needs.table]
        documents = ({name: message.data[name] for name in new if name in message.data} for message in sample)
        return msgspec.structs.replace(needs, types={**needs.types, **observed(documents, rules, needs.key)})

    def _write(self, epoch: int, decide: Decide) -> None:
        key = f"columns/{self._sink.name}"

        def change(state: State) -> list[Change]:
            self._control.check_run(state, epoch)
            before = state.columns.get(self._sink.name)
            after = decide(before)
            return [] if after == before else [(key, after)]

        self._control.change(change)

    def _without_given(self, decision: ColumnDecision) -> ColumnDecision:
        """The decision without the columns that tables have already: those keep their types."""
        tables = {}
        for place, table in decision.tables.items():
            existing = set(self._sink.adaptor.columns_of(place))
            columns = {name: column for name, column in table.columns.items() if name not in existing}
            tables[place] = msgspec.structs.replace(table, columns=columns)
        return msgspec.structs.replace(decision, tables=tables)

    def _sample(self, work: SinkWork, start: int, end: int) -> Iterator[Message]:
        """The messages as the sink gets them, without those that a transform refuses."""
        clock, count = self._control.clock, _FIRST
        deadline = clock.monotonic() + _LONG
        while start < end and clock.monotonic() < deadline:
            batch = RecordBatch(self._log, work, start, min(end, start + count))
            after = max(batch.end, start + 1)
            try:
                messages = self._transformed(batch)
            except Rejected as refused:
                if start <= refused.offset < after:
                    after = refused.offset + 1
                messages = self._before(work, start, after - 1)
            yield from messages
            start, count = after, count * 2

    def _before(self, work: SinkWork, start: int, end: int) -> list[Message]:
        try:
            return self._transformed(RecordBatch(self._log, work, start, end)) if end > start else []
        except Rejected:
            return []

    def _transformed(self, batch: RecordBatch) -> list[Message]:
        messages = chain(self._sink.transforms)(batch.messages())
        return [message for message in messages if message is not None and deliverable(message) and message.op != Op.COMMAND]

"""Comparing a sink with the log: what the log's messages make of it, and what it holds."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from headwater.core.errors import Unsupported
from headwater.pipeline import values
from headwater.pipeline.adaptor import Part
from headwater.pipeline.definition import Pipeline, Sink
from headwater.pipeline.message import Message, Op
from headwater.pipeline.operating.operator import Operator
from headwater.pipeline.running.delivery_loop import needs_session
from headwater.pipeline.running.found import Found
from headwater.pipeline.running.work import Delivery
from headwater.pipeline.transform import chain

_CHUNK = 8192


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What a comparison found, up to the sink's position."""

    position: int
    expected: int
    found: int
    missing: int
    extra: int
    first: str = ""

    @property
    def equal(self) -> bool:
        return not self.missing and not self.extra


def verify(operator: Operator, pipeline: Pipeline, name: str) -> Compared:
    """Fold the log as the sink's transforms see it, and compare documents. Messages put aside or skipped by an operator are not expected.

    Errors: `Unsupported` where the sink cannot be read back, or where compaction has taken the messages that would be needed.
    """
    state = operator.state()
    sink = pipeline.sinks.get(name)
    position = operator.sink(name).position
    if sink is None:
        raise Unsupported(f"Pipeline {pipeline.name} no longer has a sink {name}.", hint="Name the file that has it with --file.")
    bounds = operator.bounds()
    if bounds.start > 0 or operator.holes(0, position):
        raise Unsupported(
            "Compaction has taken messages that say what the sink should hold.", hint="Compare it with its source by other means."
        )
    skipped = {int(one.details.get("offset", -1)) for one in operator.audit() if one.what == "ack" and one.details.get("sink") == name}
    skipped |= {offset for whose, offset in state.dead if whose == name}
    plan = state.reader.plan if state.reader is not None else {}
    work = Delivery(
        pipeline=pipeline.name,
        topic=operator.topic,
        sink=sink,
        epoch=state.run.epoch if state.run is not None else 0,
        claims=state.run.claims if state.run is not None else (),
        edits=state.edits_of(name),
        ids={one: tuple(fields) for one, fields in plan.get("ids", {}).items()},
    )
    if needs_session(sink):
        from headwater.spark import session

        session()
    expected = _Expected(sink)
    for start in range(0, position + 1, _CHUNK):
        end = min(position + 1, start + _CHUNK)
        part = Part(pipeline=pipeline.name, sink=name, start=start, end=end)
        records = Found(operator.log, work, start, end, part)
        expected.add(records.messages(leave_out=skipped))
    return expected.compared(position)


class _Expected:
    """What the sink should hold: the last state of each document, or every message where the sink only appends."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._apply = chain(sink.transforms)
        self._appends = sink.adaptor.kind == "file" or not type(sink.adaptor).upserts
        self._all: dict[str, Counter[bytes]] = {}
        self._last: dict[str, dict[bytes, bytes]] = {}  # by place
        self._namespaces: dict[str, str] = {}  # of each place one that leads there

    def add(self, messages: list[Message]) -> None:
        for message in self._apply(messages):
            if message is None or message.op in (Op.COMMAND, Op.NOOP, Op.SKIP):
                continue
            if self._appends:
                self._all.setdefault("", Counter())[self._text(message.data)] += 1
                continue
            place = self._sink.adaptor.place(message.namespace)
            self._namespaces.setdefault(place, message.namespace)
            table = self._last.setdefault(place, {})
            key = values.canonical(message.id)
            if message.op == Op.DELETE:
                table.pop(key, None)
            else:
                table[key] = self._text(message.data)

    def _text(self, data: dict[str, Any]) -> bytes:
        return values.canonical(values.extended(self._sink.adaptor.stored(data)))

    def compared(self, position: int) -> Compared:
        wanted = self._all if self._appends else {name: Counter(table.values()) for name, table in self._last.items()}
        missing: Counter[bytes] = Counter()
        extra: Counter[bytes] = Counter()
        expected = found = 0
        for name, documents in wanted.items():
            held = Counter(values.canonical(values.extended(row)) for row in self._sink.adaptor.rows(self._namespaces.get(name, name)))
            expected += documents.total()
            found += held.total()
            missing += documents - held
            extra += held - documents
        first = next(iter(missing or extra), b"")
        return Compared(
            position=position, expected=expected, found=found, missing=missing.total(), extra=extra.total(), first=first.decode()
        )

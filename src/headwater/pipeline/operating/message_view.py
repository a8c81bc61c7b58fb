"""A record of a pipeline's log as people see it: decoded, with its corrected copies and the sinks that stopped at it."""

from __future__ import annotations

from typing import Any

from headwater.core.errors import BadInput
from headwater.log.record import Mode, Record
from headwater.pipeline import values
from headwater.pipeline.message import Op
from headwater.pipeline.offsets.state import State
from headwater.pipeline.operating.answers import Copy, Refused, Seen, answer_of, moment
from headwater.pipeline.running.work import UNREADABLE

_OPS = {int(op): op.name.lower() for op in Op}


class MessageView:
    """Shows records with the corrected copies and the stopped sinks of a state."""

    def __init__(self, state: State) -> None:
        self._copies: dict[int, list[Copy]] = {}
        for (offset, sink), edit in sorted(state.edits.items()):
            self._copies.setdefault(offset, []).append(Copy(sink=sink or None, data=values.as_json(edit.data)))
        self._refused: dict[int, list[Refused]] = {}
        for name, sink_state in sorted(state.sinks.items()):
            failure = sink_state.failure
            if failure is not None and sink_state.stopped:
                self._refused.setdefault(failure.offset, []).append(answer_of(Refused, failure, sink=name))

    def see(self, record: Record) -> Seen:
        offset = record.offset or 0
        copies = self._copies.get(offset, [])
        data: Any
        try:
            data = values.as_json(values.decode(record.value or b""))
        except BadInput:  # no document: its text
            data = (record.value or b"").decode("utf-8", "replace")
        return Seen(
            offset=offset,
            timestamp=moment(record.timestamp or 0),
            namespace=(record.key or b"").decode(),
            op=_OPS.get(record.op, str(record.op)),
            mode=Mode(record.mode).name.lower(),
            data=data,
            unreadable=next((value.decode() for name, value in record.headers if name == UNREADABLE and value is not None), ""),
            edited=bool(copies),
            copies=copies,
            refused=self._refused.get(offset, []),
        )


def text_of(data: Any) -> str:
    """A document on one line, with the digits that were read."""
    return data if isinstance(data, str) else values.encode(data).decode()

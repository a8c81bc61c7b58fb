"""A record of a pipeline's log as people see it: decoded, with who stands at it and what is delivered in its place."""

from __future__ import annotations

from typing import Any

from headwater.core.errors import BadInput
from headwater.log.record import Mode, Record
from headwater.pipeline import values
from headwater.pipeline.message import Op
from headwater.pipeline.offsets.state import State
from headwater.pipeline.operating.answers import Copy, Refused, Seen, moment
from headwater.pipeline.running.work import UNREADABLE

_OPS = {int(op): op.name.lower() for op in Op}


class MessageView:
    """Sees records by what is known of the pipeline: its corrected copies, and where its sinks stand."""

    def __init__(self, state: State) -> None:
        self._copies: dict[int, list[Copy]] = {}
        for (offset, sink), edit in sorted(state.edits.items()):
            self._copies.setdefault(offset, []).append(Copy(sink=sink or None, data=edit.data))
        self._refused: dict[int, list[Refused]] = {}
        for name, one in sorted(state.sinks.items()):
            failure = one.failure
            if failure is not None and one.stopped:
                refused = Refused(
                    sink=name,
                    error=failure.error,
                    message=failure.message,
                    hint=failure.hint,
                    of_message=failure.of_message,
                    trace=failure.trace,
                )
                self._refused.setdefault(failure.offset, []).append(refused)

    def see(self, record: Record) -> Seen:
        offset = record.offset or 0
        copies = self._copies.get(offset, [])
        return Seen(
            offset=offset,
            timestamp=moment(record.timestamp or 0),
            namespace=(record.key or b"").decode(),
            op=_OPS.get(record.op, str(record.op)),
            mode=Mode(record.mode).name.lower(),
            data=_data(record),
            unreadable=next((value.decode() for name, value in record.headers if name == UNREADABLE and value is not None), ""),
            edited=bool(copies),
            copies=copies,
            refused=self._refused.get(offset, []),
        )


def _data(record: Record) -> Any:
    """The document; its text where it is none."""
    try:
        return values.decode(record.value or b"")
    except BadInput:
        return (record.value or b"").decode("utf-8", "replace")


def text_of(data: Any) -> str:
    """A document on one line, with the digits that were read."""
    return data if isinstance(data, str) else values.encode(data).decode()

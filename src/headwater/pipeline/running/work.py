"""What travels between a run and the tasks that deliver for it. Values only."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from headwater.core.errors import DiskFull, OutcomeUnknown, ReadOnly, Timeout, Unavailable, Unreachable, Untrusted
from headwater.core.ids import random_id
from headwater.pipeline.adaptor import Part
from headwater.pipeline.definition import Sink
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.state import Failure

Ids = dict[str, tuple[str, ...]]  # by namespace, the fields that tell documents apart; `_id` where it is missing

PROGRESS = "progress"  # the header of a piece's last record: (copy, slice, position)
UNREADABLE = "unreadable"  # the header of a record that the source could not read: why
IDS = "ids"  # the header of a change: the fields that tell documents apart, where the plan does not know them
HASH = "hash"  # the header of a change: a hash of the document's id


class CopyProgress(msgspec.Struct, frozen=True, array_like=True):
    """How far a slice of a copy, or the following of changes (slice -1), had come with this record."""

    copy: str
    slice: int
    position: Any = None  # None: the beginning
    amount: int = 0  # how much of the slice was read by then, in the unit of the plan's size


class SinkWork(msgspec.Struct, frozen=True, kw_only=True):
    """What a task needs to deliver ranges of a pipeline's log to one sink."""

    pipeline: str
    topic: str
    sink: Sink
    epoch: int
    claims: tuple[tuple[int, int], ...] = ()
    edits: dict[int, dict[str, Any]] = {}
    ids: Ids = {}
    seconds: float = math.inf  # after which a part ends at its next batch

    @classmethod
    def of(cls, control: Control, sink: Sink, epoch: int | None = None) -> SinkWork:
        """By what is known of the pipeline now; of the newest run where no `epoch` is given."""
        state, run = control.state, control.state.run
        return cls(
            pipeline=control.pipeline,
            topic=control.messages,
            sink=sink,
            epoch=epoch if epoch is not None else run.epoch if run is not None else 0,
            claims=run.claims if run is not None else (),
            edits=state.edits_of(sink.name),
            ids=state.ids,
        )

    def part(self, identity: str, start: int, end: int, **more: Any) -> Part:
        """A part of the log for this sink, which knows the pipeline by its `identity`; `more`: other fields of the part."""
        fields = {"epoch": self.epoch, "attempt": random_id(), "timeout": self.sink.options.timeout.seconds, **more}
        return Part(pipeline=identity, sink=self.sink.name, start=start, end=end, **fields)


class Detour(msgspec.Struct, frozen=True):
    """Why a part ends before its end although no message is at fault: it has to go another way."""

    reason: str
    columns: bytes = b""  # the types that its documents have, as Arrow stores a schema


class Away(msgspec.Struct, frozen=True):
    """Why the sink could not be used any more, by no message's fault."""

    kind: str
    message: str
    hint: str

    @classmethod
    def of(cls, error: Unavailable) -> Away:
        return cls(type(error).__name__, error.message, error.hint)

    def error(self) -> Unavailable:
        """The error again."""
        kinds = {one.__name__: one for one in (DiskFull, OutcomeUnknown, ReadOnly, Timeout, Unreachable, Untrusted)}
        return kinds.get(self.kind, Unavailable)(self.message, hint=self.hint)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a part: offsets below `acked` are durably taken once the receipt is published."""

    start: int
    end: int
    acked: int
    bucket: int = 0
    buckets: int = 1
    attempt: str = ""
    written: int = 0
    last: dict[str, int] = {}  # by namespace, the last message taken
    failure: Failure | None = None
    stop: Detour | None = None
    away: Away | None = None
    receipt: dict[str, Any] = {}

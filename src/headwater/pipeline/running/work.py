"""What travels between a run and the tasks that deliver for it. Values only."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from headwater.core.errors import DiskFull, OutcomeUnknown, ReadOnly, Timeout, Unavailable, Unreachable, Untrusted
from headwater.core.ids import random_id
from headwater.pipeline.columns import ColumnNeeds, Tables
from headwater.pipeline.definition import Sink
from headwater.pipeline.location import Location
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.state import Failure
from headwater.pipeline.sink_adaptor import Part

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
    lent: tuple[tuple[int, int], ...] = ()  # as `ReadingPosition.lent`
    edits: dict[int, dict[str, Any]] = {}
    ids: Ids = {}
    seconds: float = math.inf  # after which a part ends at its next batch
    forbidden: tuple[Location, ...] = ()  # where the source reads: no message may be written there
    mark: tuple[int, int] = (0, 0)  # as `Control.mark` returned it: newer runs are looked for behind it
    columns: Tables | None = None  # as `Part.columns`

    @classmethod
    def of(cls, control: Control, sink: Sink, epoch: int | None = None) -> SinkWork:
        """By what is known of the pipeline now; of the newest run where no `epoch` is given. Errors: `Fenced` for an older one."""
        state, run = control.state, control.state.run
        epoch = epoch if epoch is not None else run.epoch if run is not None else 0
        return cls(
            pipeline=control.pipeline,
            topic=control.messages,
            sink=sink,
            epoch=epoch,
            mark=control.mark(epoch),
            claims=run.claims if run is not None else (),
            lent=state.reader.lent if state.reader is not None else (),
            edits=state.edits_of(sink.name),
            ids=state.ids,
            columns=decided.tables if (decided := state.columns.get(sink.name)) is not None else None,
        )

    def corrects(self, start: int, end: int) -> bool:
        """Whether a message of [start, end) has a corrected copy. Costs no more than the fewer of both."""
        if end - start < len(self.edits):
            return any(offset in self.edits for offset in range(start, end))
        return any(start <= offset < end for offset in self.edits)

    def part(self, identity: str, start: int, end: int, **more: Any) -> Part:
        """A part of the log for this sink, which knows the pipeline by its `identity`; `more`: other fields of the part."""
        known = {"epoch": self.epoch, "attempt": random_id(), "timeout": self.sink.options.timeout.seconds, "columns": self.columns}
        fields = {**known, **more}
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
        kinds = {kind.__name__: kind for kind in (DiskFull, OutcomeUnknown, ReadOnly, Timeout, Unreachable, Untrusted)}
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
    needs: ColumnNeeds | None = None  # the part ends before a batch that needs these columns
    receipt: dict[str, Any] = {}

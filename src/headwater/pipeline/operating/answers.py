"""The answers to the operations on pipelines. `--json` on the command line, HTTP and the Python door give the same.

Times are texts, ISO 8601 in UTC with milliseconds; None where something has not happened. Positions and ranges include both ends.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from headwater.pipeline.offsets.column_decision import ColumnChange
from headwater.pipeline.offsets.state import Dead, Entry, Failure
from headwater.pipeline.source_progress import SourceProgress
from headwater.wire.times import show_time

T = TypeVar("T", bound=msgspec.Struct)


class PipelineAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The base of all of them."""


class Refusal(PipelineAnswer, frozen=True, kw_only=True):
    """Why a sink refused a message. `start` and `end` are the batch, where the message itself is not yet known; else -1."""

    offset: int
    error: str
    message: str
    hint: str = ""
    of_message: bool = True
    trace: str = ""
    at: str | None = None
    start: int = -1
    end: int = -1


class ColumnChanged(PipelineAnswer, frozen=True, kw_only=True):
    """A column that was made wider after its table was made (`before` its old type), or that came later (`before` is empty).

    `offset`: the first message that needed it. Types are named as the sink names them.
    """

    table: str
    column: str
    before: str
    after: str
    offset: int
    at: str | None = None


class SinkPosition(PipelineAnswer, frozen=True, kw_only=True):
    """Where a sink is: `position` is the last message that it took, -1 before the first; `end` is the log's, not included."""

    sink: str
    position: int
    end: int
    lag: int
    state: str
    error: Refusal | None = None
    columns: list[ColumnChanged] = []  # of a sink that makes tables


class SinkDetail(SinkPosition, frozen=True, kw_only=True):
    """Where a sink is, with what it took beyond its position (half-open ranges), and by namespace the last message that it took.

    `tables`: of a sink that makes tables, by table the kind of each column that was decided.
    """

    taken: list[tuple[int, int]] = []
    namespaces: dict[str, int] = {}
    tables: dict[str, dict[str, str]] = {}


class NamespacePhase(PipelineAnswer, frozen=True, kw_only=True):
    """How far a namespace of the source is read: in phase `copy`, `sync` or `complete`.

    `cursor`: in `copy` the positions in the slices that are begun, in `sync` where its changes go on, as the source writes it. `slices`:
    how many its copy has, of which `finished` are read to their end.
    """

    namespace: str
    phase: str
    cursor: Any = None
    slices: int = 0
    finished: int = 0


class Status(PipelineAnswer, frozen=True, kw_only=True):
    """A pipeline: its newest run, and where every sink is.

    `seen`: when a run that has not ended last gave a sign of life. `log_dir`: the directory of its own that it keeps its log in.
    `progress`: how much of the source is read, where it has told its size. `namespaces`: empty in a list of pipelines.
    `error`: why the run failed, with a `hint`; empty where it did not.
    """

    pipeline: str
    state: str
    end: int
    lag: int
    sinks: list[SinkPosition]
    began: str | None = None
    seen: str | None = None
    process: str = ""
    file: str = ""
    error: str = ""
    hint: str = ""
    phase: str | None = None
    progress: SourceProgress | None = None
    dead: int = 0
    edits: int = 0
    log_dir: str = ""
    namespaces: list[NamespacePhase] = []


class Refused(PipelineAnswer, frozen=True, kw_only=True):
    """A sink that stopped at a message, and why; `hint`: what to do about it."""

    sink: str
    error: str
    message: str
    hint: str = ""
    of_message: bool = True
    trace: str = ""


class Copy(PipelineAnswer, frozen=True, kw_only=True):
    """A corrected copy of a message; `sink` None: for every sink that has none of its own."""

    sink: str | None
    data: dict[str, Any]


class Seen(PipelineAnswer, frozen=True, kw_only=True):
    """A message as it is in the log. `edited`: `copies` are delivered in its place. `refused`: sinks that stopped at it."""

    offset: int
    timestamp: str | None
    namespace: str
    op: str
    mode: str
    data: Any
    unreadable: str = ""
    edited: bool = False
    copies: list[Copy] = []
    refused: list[Refused] = []


class Messages(PipelineAnswer, frozen=True, kw_only=True):
    """A page of messages. `next` is the offset to go on from; `oldest` and `current` are the first and the last offset of the log."""

    items: list[Seen]
    next: str | None
    oldest: int
    current: int


class Buried(PipelineAnswer, frozen=True, kw_only=True):
    """A message that was put aside."""

    sink: str
    offset: int
    error: str
    message: str
    trace: str = ""
    at: str | None = None
    tries: int = 1


class BuriedMessage(Buried, frozen=True, kw_only=True):
    """The same, with the message itself; None where compaction has taken it."""

    record: Seen | None = None


class Audited(PipelineAnswer, frozen=True, kw_only=True):
    """What an operator did."""

    at: str | None
    who: str
    what: str
    why: str = ""
    details: dict[str, Any] = {}


class Verified(PipelineAnswer, frozen=True, kw_only=True):
    """A sink beside the log, up to its position. `first` is the first document that differs.

    `surplus`: the first documents that should not be there. `passed`: so many of those that should not be there are what skipped messages
    say, which the sink may have taken before they were skipped. `since`: the message from which on the log says what the sink should hold;
    not 0 where all of the source was read anew.
    """

    sink: str
    position: int
    expected: int
    found: int
    missing: int
    extra: int
    equal: bool
    first: str = ""
    surplus: list[str] = []
    passed: int = 0
    since: int = 0


# -- what a change has done, or with `dry_run` would do ---------------------------------------------------------


class PipelineChange(PipelineAnswer, frozen=True, kw_only=True):
    """The base of these."""

    dry_run: bool = False


class SinkChange(PipelineChange, frozen=True, kw_only=True):
    """A change of one sink."""

    sink: str


class Marked(SinkChange, frozen=True, kw_only=True):
    """Where the sink was and is."""

    before: int
    position: int


class Forgotten(SinkChange, frozen=True, kw_only=True):
    """The sink is forgotten, with what it had put aside."""

    deleted: bool


class Acked(SinkChange, frozen=True, kw_only=True):
    """The message counts as taken; `position` is where that brings the sink."""

    offset: int
    position: int


class Stepped(SinkChange, frozen=True, kw_only=True):
    """How many messages the sink took and which, where it is, and the message that comes next; None where it has everything."""

    taken: int
    position: int
    next: int | None
    offsets: list[int] = []


class Replayed(SinkChange, frozen=True, kw_only=True):
    """Messages that were sent again, and how many the sink wrote. `newer`: one behind them of the same document, which they came over."""

    first: int
    last: int
    written: int
    newer: int | None = None


class Resolved(SinkChange, frozen=True, kw_only=True):
    """What became of a message that was put aside: `taken` or `let go`."""

    offset: int
    done: str


class Edited(PipelineChange, frozen=True, kw_only=True):
    """The corrected copy that is delivered from now on; `sink` None: to every sink.

    Of the sinks that it is for: `standing` stopped at the message and try it again, `dead` have put it aside, `taken` took it before.
    """

    offset: int
    data: dict[str, Any]
    sink: str | None = None
    standing: list[str] = []
    dead: list[str] = []
    taken: list[str] = []


class Undone(PipelineChange, frozen=True, kw_only=True):
    """The original is delivered again."""

    offset: int
    undone: bool
    sink: str | None = None


class Stopping(PipelineChange, frozen=True, kw_only=True):
    """The run was asked. `silent_since`: it has given no sign of life since then, and may not hear of it."""

    pipeline: str
    stopping: bool
    silent_since: str | None = None


class Removed(PipelineChange, frozen=True, kw_only=True):
    """The topics that were deleted, with all that they held: messages, positions, corrected copies, what was put aside, the audit."""

    pipeline: str
    topics: list[str]
    messages: int


class Compaction(PipelineChange, frozen=True, kw_only=True):
    """Below `before` the last message of each namespace was kept. `truncates`: the log was cut, because its engine compacts nothing."""

    before: int
    records_before: int = 0
    records_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    truncates: bool = False


# -- from what is stored ----------------------------------------------------------------------------------------


def moment(ms: int) -> str | None:
    """Milliseconds since 1970 as text; None for 0, which stands for never."""
    shown = show_time(ms) if ms else None
    return shown if isinstance(shown, str) else None


def answer_of(kind: type[T], stored: Failure | Dead | Entry | ColumnChange, **more: Any) -> T:
    """The stored fields that the answer has, with `more`."""
    fields = msgspec.structs.asdict(stored) | {"at": moment(stored.at)} | more
    return kind(**{name: fields[name] for name in kind.__struct_fields__ if name in fields})

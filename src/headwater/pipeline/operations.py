"""What users can do with pipelines that have run: the one table that routes, checks, OpenAPI, remote calls and references are made from.

Every operation is a method of `headwater.pipeline.operating.operations.PipelineOperations`, called with the fields of its request.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec

from headwater.core.errors import BadBounds, BadInput, Conflict, NotFound, Stopped, Timeout, Unavailable, UnknownPipeline, UnknownSink
from headwater.log.record import whole
from headwater.pipeline.offsets.ownership import PART, PREFIX
from headwater.pipeline.operating import answers
from headwater.wire.json import LARGEST
from headwater.wire.operation import A, DryRun, Operation, Paging, R, Reason, Request, Role, Runs, Why, described
from headwater.wire.part import PartDefinition

_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_PLAIN = re.compile(r"\^?(?:[\w .-]|\\[.-])*\$?|\.\*")  # expressions whose search takes no longer than the text is
PipelineName = Annotated[str, described("The pipeline's name.", pattern=f"^{_NAME}$")]
SinkName = Annotated[str, described("The sink's name.", pattern=f"^{_NAME}$")]
OneSink = Annotated[str | None, described("Of this sink only.")]
MessageOffset = Annotated[int, described("The message's offset; it counts from 0.", least=0, most=LARGEST)]


# -- what is asked ----------------------------------------------------------------------------------------------


class ListPipelines(Request, frozen=True, kw_only=True):
    """Nothing more."""


class PipelineRequest(Request, frozen=True, kw_only=True):
    """A pipeline. No file is ever named: a pipeline's file is the one that ran last on this machine."""

    pipeline: PipelineName = msgspec.field(name="name")

    def check(self) -> None:
        if not re.fullmatch(_NAME, self.pipeline):
            raise UnknownPipeline(f"No pipeline is named {self.pipeline!r}.", hint="List them with `headwater pipeline list`.")
        left_out = {field.name for field in msgspec.structs.fields(self) if field.default is None}
        sink = getattr(self, "sink", None)
        if hasattr(self, "sink") and not isinstance(sink, str) and not (sink is None and "sink" in left_out):
            raise BadInput(f"{sink!r:.60} is no name of a sink.", hint='Write its name, such as "archive".')
        for name in ("offset", "first", "last", "limit", "count", "position"):
            if hasattr(self, name) and not ((number := getattr(self, name)) is None and name in left_out):
                whole(number, "offset" if name in ("first", "last") else name)
        if sink is not None and not re.fullmatch(_NAME, sink):
            raise UnknownSink(f"No sink is named {sink!r}.", hint=f"See `headwater pipeline offset {self.pipeline} list`.")
        for name in ("offset", "first", "last"):
            number = getattr(self, name, None)
            if number is not None and number < 0:
                raise BadBounds(f"{number} is no offset.", hint="Offsets count from 0.")
        for name in ("limit", "count"):
            number = getattr(self, name, None)
            if number is not None and number < 1:
                raise BadInput(f"A {name} of {number} messages is none.", hint="Give 1 or more.")


class SinkRequest(PipelineRequest, frozen=True, kw_only=True):
    """A sink of a pipeline."""

    sink: SinkName


class ReadMessages(PipelineRequest, frozen=True, kw_only=True):
    """Which messages."""

    first: Annotated[int | None, described("The first offset. Left out: the oldest.")] = msgspec.field(default=None, name="from")
    last: Annotated[int | None, described("The last offset, included. Left out: the newest.")] = msgspec.field(default=None, name="to")
    namespace: Annotated[str, described("Only namespaces in which this regular expression of Python's is found.")] = ".*"
    limit: Annotated[int, described("The most messages.", least=1, most=10_000)] = 100


class MarkPosition(SinkRequest, frozen=True, kw_only=True):
    """The last message to count as taken, -1 for none."""

    position: Annotated[int, msgspec.Meta(ge=-1, le=LARGEST)]
    why: Reason
    dry_run: DryRun = False


class ForgetSink(SinkRequest, frozen=True, kw_only=True):
    """The sink to forget."""

    why: Reason
    dry_run: DryRun = False


class StepSink(SinkRequest, frozen=True, kw_only=True):
    """How many messages to deliver."""

    count: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1
    why: Why = ""
    dry_run: DryRun = False


class AckMessage(SinkRequest, frozen=True, kw_only=True):
    """The message to count as taken."""

    offset: MessageOffset
    why: Reason
    dry_run: DryRun = False


class ReplayMessages(SinkRequest, frozen=True, kw_only=True):
    """The messages to send again, both ends included."""

    first: MessageOffset
    last: MessageOffset
    why: Why = ""
    dry_run: DryRun = False


class MessageRequest(PipelineRequest, frozen=True, kw_only=True):
    """A message; `sink`: for this one only."""

    offset: MessageOffset
    sink: OneSink = None


class EditMessage(MessageRequest, frozen=True, kw_only=True):
    """The whole document as `data`, or fields to `set` by their path and others to `unset`; `sink`: for this one only."""

    data: dict[str, Any] | None = None
    set: dict[str, Any] | None = None
    unset: list[str] = msgspec.field(default_factory=list)
    why: Reason
    dry_run: DryRun = False


class UndoEdit(MessageRequest, frozen=True, kw_only=True):
    """The message whose original is delivered again."""

    why: Reason
    dry_run: DryRun = False


class ListDead(PipelineRequest, frozen=True, kw_only=True):
    """Whose messages."""

    sink: OneSink = None


class RetryDead(MessageRequest, frozen=True, kw_only=True):
    """Whose message it is, where several sinks have put it aside; `force`: also where the sink has a newer one of the same document."""

    why: Why = ""
    force: bool = False
    dry_run: DryRun = False


class StopRun(PipelineRequest, frozen=True, kw_only=True):
    """Why."""

    why: Why = ""
    dry_run: DryRun = False


class CompactLog(PipelineRequest, frozen=True, kw_only=True):
    """Nothing more."""

    dry_run: DryRun = False


def where_to_search(request: ReadMessages) -> Runs:
    """A search by an expression that may take for ever is done in a process: it can be ended, a thread cannot."""
    return "thread" if _PLAIN.fullmatch(request.namespace) else "process"


# -- the table --------------------------------------------------------------------------------------------------

_KNOWN = (UnknownPipeline, BadBounds, Unavailable)
_SINK = (UnknownPipeline, UnknownSink, BadBounds, Unavailable)
_CHANGE = (*_SINK, Conflict)
_SEND: dict[str, Any] = {"runs": "process", "patience": None, "errors": (*_CHANGE, Stopped, Timeout)}


def _reads(name: str, path: str, request: type[R], answer: type[A], says: str, **more: Any) -> Operation[R, A]:
    fields: dict[str, Any] = {"method": "GET", "role": Role.READER, "errors": _KNOWN, **more}
    return Operation(part="pipeline", name=name, path=f"/pipelines{path}", request=request, answer=answer, says=says, **fields)


def _changes(name: str, address: str, request: type[R], answer: type[A], says: str, **more: Any) -> Operation[R, A]:
    method, _, path = address.partition(" ")
    fields: dict[str, Any] = {"method": method, "role": Role.OPERATOR, "changes": True, "errors": _CHANGE, **more}
    return _reads(name, f"/{{name}}{path}", request, answer, says, **fields)


LIST = _reads("list", "", ListPipelines, list[answers.Status], "Every pipeline that has run on this log, sorted by name.", errors=())
STATUS = _reads("status", "/{name}", PipelineRequest, answers.Status, "A pipeline: its newest run, and where every sink is.")
MESSAGES = _reads(
    "messages",
    "/{name}/log",
    ReadMessages,
    answers.Messages,
    "Messages of a pipeline's log, and which offsets it holds.",
    runs=where_to_search,
    continues="from",
    errors=(*_KNOWN, Timeout),
    commands={"xlog {name} current": "", "xlog {name} show {from}": "from={from}&to={from}"},
)
OFFSETS = _reads(
    "offsets",
    "/{name}/offsets",
    PipelineRequest,
    list[answers.SinkPosition],
    "Where every sink is, and what has stopped it.",
    commands={"offset {name} list": ""},
)
OFFSET = _reads(
    "offset",
    "/{name}/offsets/{sink}",
    SinkRequest,
    answers.SinkDetail,
    "Where a sink is, and by namespace the last message that it took.",
    errors=_SINK,
    commands={"offset {name} show {sink}": ""},
)
MARK = _changes(
    "mark",
    "PUT /offsets/{sink}",
    MarkPosition,
    answers.Marked,
    "Make a message the last one that a sink has taken, forward or back.",
    commands={"offset {name} mark {sink}": ""},
)
DELETE = _changes(
    "delete",
    "DELETE /offsets/{sink}",
    ForgetSink,
    answers.Forgotten,
    "Forget a sink that the pipeline no longer has.",
    commands={"offset {name} delete {sink}": ""},
)
STEP = _changes(
    "step", "POST /sinks/{sink}/step", StepSink, answers.Stepped, "Deliver the next messages to a sink, one at a time.", **_SEND
)
ACK = _changes("ack", "POST /sinks/{sink}/ack", AckMessage, answers.Acked, "Count a message as taken by a sink without sending it.")
REPLAY = _changes(
    "replay",
    "POST /sinks/{sink}/replay",
    ReplayMessages,
    answers.Replayed,
    "Send messages to a sink again; its position does not move.",
    **_SEND,
)
EDIT = _changes(
    "edit", "PUT /edits/{offset}", EditMessage, answers.Edited, "Deliver a corrected copy of a message; the original stays in the log."
)
UNDO = _changes("undo", "DELETE /edits/{offset}", UndoEdit, answers.Undone, "Deliver the original of a message again.")
DEAD = _reads(
    "dead",
    "/{name}/dead",
    ListDead,
    list[answers.Buried],
    "The messages that were put aside.",
    paging=Paging(by=("sink", "offset")),
    errors=_SINK,
)
DEAD_ONE = _reads(
    "dead_one",
    "/{name}/dead/{offset}",
    MessageRequest,
    answers.BuriedMessage,
    "A message that was put aside, with its error.",
    errors=(*_SINK, NotFound),
    commands={"dead {name} show {offset}": ""},
)
RETRY = _changes(
    "retry",
    "POST /dead/{offset}/retry",
    RetryDead,
    answers.Resolved,
    "Send a message that was put aside.",
    **_SEND,
    commands={"dead {name} retry {offset}": ""},
)
DROP = _changes(
    "drop",
    "DELETE /dead/{offset}",
    UndoEdit,
    answers.Resolved,
    "Let a message that was put aside go for good.",
    commands={"dead {name} drop {offset}": ""},
)
COMPACT = _changes(
    "compact",
    "POST /compact",
    CompactLog,
    answers.Compaction,
    "Keep, below what every sink has taken, the last message of each namespace.",
    patience=None,
    errors=_KNOWN,
)
REMOVE = _changes(
    "remove",
    "DELETE ",
    CompactLog,
    answers.Removed,
    "Delete a pipeline that does not run, with its messages, positions and audit, for good.",
)
STOP = _changes("stop", "POST /stop", StopRun, answers.Stopping, "Ask a live run to finish what it has begun, and stop.")
AUDIT = _reads(
    "audit", "/{name}/audit", PipelineRequest, list[answers.Audited], "What operators have done: when, who, what, and why.", paging=Paging()
)
VERIFY = _reads(
    "verify",
    "/{name}/verify/{sink}",
    SinkRequest,
    answers.Verified,
    "Compare what a sink holds with what the log says.",
    runs="process",
    patience=None,
    errors=(*_SINK, Timeout),
)

PIPELINES = PartDefinition(
    name=PART,
    door="pipelines",
    operations=(
        LIST, STATUS, MESSAGES, OFFSETS, OFFSET, MARK, DELETE, STEP, ACK, REPLAY, EDIT, UNDO, DEAD, DEAD_ONE, RETRY, DROP, COMPACT, REMOVE,
        STOP, AUDIT, VERIFY,
    ),
    performs="headwater.pipeline.operating.performer:PipelinePerformer",
    offers="headwater.client.pipelines:Pipelines",
    measures="headwater.pipeline.operating.performer:measure",
    commands="headwater.cli.pipeline:group",
    owns=(PREFIX,),
    instead="headwater.pipeline.offsets.ownership:instead",
    tables={"pipeline": "headwater.pipeline.spark_tables:pipeline_table"},
    chapter="headwater.server.tour.pipeline_chapter:pipeline_chapter",
)  # fmt: skip

"""What can be done with pipelines over HTTP, as data. Each operation is a question that `headwater.client.pipelines` asks."""

from __future__ import annotations

from typing import Annotated, Any, cast

import msgspec

from headwater.client.pipeline_addresses import ADDRESSES
from headwater.pipeline.operating import answers
from headwater.server.operation import LARGEST, Answer, Operation, Param, Role
from headwater.server.schemas import COMPONENTS, described, listed, ref

Offset = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class Sent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base of what is sent. No file is ever named: a pipeline's file is the one that ran last on this machine."""


class NewPosition(Sent, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The last message to count as taken, -1 for none."""

    position: Annotated[int, msgspec.Meta(ge=-1, le=LARGEST)]
    why: str = ""


class Steps(Sent, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How many messages to deliver."""

    count: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1
    why: str = ""


class Skipped(Sent, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The message to count as taken."""

    offset: Offset
    why: str = ""


class Again(Sent, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The messages to send again, both ends included."""

    first: Offset
    last: Offset
    why: str = ""


class Correction(Sent, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole document as `data`, or fields to `set` by their path and others to `unset`; `sink`: for this one only."""

    data: dict[str, Any] | None = None
    set: dict[str, Any] | None = None
    unset: list[str] = []
    sink: str | None = None
    why: str = ""


class Retried(Sent, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whose message it is, where several sinks have put it aside; `force`: also where the sink has a newer one of the same document."""

    sink: str | None = None
    why: str = ""
    force: bool = False


class Reason(Sent, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Why."""

    why: str = ""


BODIES: dict[str, type[Sent]] = {
    "mark": NewPosition,
    "step": Steps,
    "ack": Skipped,
    "replay": Again,
    "edit": Correction,
    "retry": Retried,
    "stop": Reason,
}
ANSWERS: dict[str, Any] = {
    "status": answers.Status,
    "messages": answers.Messages,
    "offsets": list[answers.Place],
    "offset": answers.Taken,
    "mark": answers.Marked,
    "delete": answers.Forgotten,
    "step": answers.Stepped,
    "ack": answers.Acked,
    "replay": answers.Replayed,
    "edit": answers.Edited,
    "undo": answers.Undone,
    "dead": list[answers.Buried],
    "dead_one": answers.BuriedMessage,
    "retry": answers.Resolved,
    "drop": answers.Resolved,
    "compact": answers.Compaction,
    "stop": answers.Stopping,
    "audit": list[answers.Audited],
    "verify": answers.Verified,
}
REASONED = frozenset({"mark", "ack", "edit"})  # changes whose body must say why: a change without a reason helps nobody later
_SAID = r"[^\s\u001c-\u001f\u0085\ufeff]"  # of what is white space, Python, JavaScript and Rust each leave out some
described(*BODIES.values(), *ANSWERS.values())
for _verb in REASONED:
    _shape = cast(dict[str, Any], COMPONENTS[BODIES[_verb].__name__])
    _shape["properties"]["why"] = {"type": "string", "pattern": _SAID}
    _shape["required"] = [*_shape.get("required", []), "why"]

_DRY = Param("dry_run", "true: say what would be done, and do nothing.", kind="text", default="false", choices=("true", "false"))
_WHY = Param("why", "The reason, for the audit.", kind="text", required=True, pattern=_SAID)
_SINK = Param("sink", "Of this sink only.", kind="text")
PAGED = frozenset({"dead", "audit"})  # lists that may grow long
_LIMIT = Param("limit", "The most to answer with.", default=1000, least=1, most=10_000)


def _cursor(pattern: str) -> Param:
    return Param("cursor", "Go on where the page before ended: its `next`.", kind="text", pattern=pattern)


_REFUSED = (422, 503, 504)


def _operation(verb: str, text: str, said: str, *, query: tuple[Param, ...] = (), problems: tuple[int, ...] = ()) -> Operation:
    method, path = ADDRESSES[verb]
    looks = method == "GET"
    kind = ANSWERS[verb]
    content = listed(kind.__args__[0].__name__, paged=verb in PAGED) if hasattr(kind, "__args__") else ref(kind.__name__)
    return Operation(
        method=method,
        path=path,
        name=f"pipeline_{verb}",
        text=text,
        role=Role.READER if looks else Role.OPERATOR,
        query=query if looks else (*query, _DRY),
        body=ref(BODIES[verb].__name__) if verb in BODIES else {},
        body_required=verb in BODIES and bool(COMPONENTS[BODIES[verb].__name__].get("required")),
        answers={200: Answer(said, content)},
        problems=problems,
    )


TABLE = (
    Operation(
        method="GET",
        path="/pipelines",
        name="list_pipelines",
        text="Every pipeline that has run on this log, sorted by name.",
        role=Role.READER,
        answers={200: Answer("Their status.", listed("Status"))},
    ),
    _operation("status", "A pipeline: its newest run, and where every sink is.", "The status."),
    _operation(
        "messages",
        "Messages of a pipeline's log, and which offsets it holds.",
        "A page of messages; the Link header leads to the next.",
        query=(
            Param("from", "The first offset. Left out: the oldest."),
            Param("to", "The last offset, included. Left out: the newest."),
            Param("namespace", "Only namespaces in which this regular expression of Python's is found.", kind="text", default=".*"),
            Param("limit", "The most messages.", default=100, least=1, most=10_000),
        ),
        problems=(504,),
    ),
    _operation("offsets", "Where every sink is, and what has stopped it.", "The sinks."),
    _operation("offset", "Where a sink is, and by namespace the last message that it took.", "The sink."),
    _operation("mark", "Make a message the last one that a sink has taken, forward or back.", "Where it was and is.", problems=(409,)),
    _operation("delete", "Forget a sink that the pipeline no longer has.", "Forgotten.", query=(_WHY,), problems=(409,)),
    _operation("step", "Deliver the next messages to a sink, one at a time.", "How many it took.", problems=(409, *_REFUSED)),
    _operation("ack", "Count a message as taken by a sink without sending it.", "Where the sink is.", problems=(409,)),
    _operation("replay", "Send messages to a sink again; its position does not move.", "How many were written.", problems=(409, *_REFUSED)),
    _operation("edit", "Deliver a corrected copy of a message; the original stays in the log.", "The corrected copy.", problems=(409,)),
    _operation("undo", "Deliver the original of a message again.", "Undone.", query=(_SINK, _WHY), problems=(409,)),
    _operation(
        "dead",
        "The messages that were put aside.",
        "A page of them; the Link header leads to the next.",
        query=(_SINK, _LIMIT, _cursor("^[A-Za-z0-9][A-Za-z0-9._-]{0,99}/[0-9]{1,18}$")),
    ),
    _operation("dead_one", "A message that was put aside, with its error.", "The message.", query=(_SINK,)),
    _operation("retry", "Send a message that was put aside.", "It was taken.", problems=(409, *_REFUSED)),
    _operation("drop", "Let a message that was put aside go for good.", "It is gone.", query=(_SINK, _WHY), problems=(409,)),
    _operation("compact", "Keep, below what every sink has taken, the last message of each namespace.", "What it did."),
    _operation("stop", "Ask a live run to finish what it has begun, and stop.", "It was asked.", problems=(409,)),
    _operation(
        "audit",
        "What operators have done: when, who, what, and why.",
        "A page of it, in order; the Link header leads to the next.",
        query=(_LIMIT, _cursor("^[0-9]{1,18}$")),
    ),
    _operation(
        "verify", "Compare what a sink holds with what the log says.", "What was found; `equal` says it in a word.", problems=(504,)
    ),
)

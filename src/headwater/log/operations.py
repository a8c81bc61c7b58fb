"""What users can do with the log: the one table that routes, checks, OpenAPI, remote calls and references are made from."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from headwater.core.errors import (
    BadBounds,
    BadInput,
    Conflict,
    DiskFull,
    Fenced,
    OffsetGone,
    OwnedTopic,
    Unavailable,
    UnknownPartition,
    UnknownTopic,
)
from headwater.log.json_form import Decoder, ShownSettings, ShownTopic
from headwater.log.record import Compacted, check_topic_name
from headwater.wire.json import LARGEST
from headwater.wire.operation import Operation, Paging, Request, Role, Schema, described, placed
from headwater.wire.part import PartDefinition

EVENT_ID = "^[0-9]{1,18}$"
_BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
TopicName = Annotated[str, described("The topic's name.", pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,248}$")]
PartitionNumber = Annotated[int, described("Partitions count from 0: /log/{topic}/0")]
Offset = Annotated[int, msgspec.Meta(ge=0)]


# -- what is asked ----------------------------------------------------------------------------------------------


class ListTopics(Request, frozen=True, kw_only=True):
    """Nothing more."""


class TopicRequest(Request, frozen=True, kw_only=True):
    """A topic."""

    topic: TopicName

    def check(self) -> None:
        check_topic_name(self.topic)


class NewTopic(TopicRequest, frozen=True, kw_only=True):
    """How a topic is made; left out, it gets one partition and the usual settings."""

    partitions: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 1
    settings: ShownSettings = msgspec.field(default_factory=dict)


class PartitionRequest(TopicRequest, frozen=True, kw_only=True):
    """A partition of a topic."""

    partition: PartitionNumber

    def check(self) -> None:
        check_place(self.topic, self.partition)


class FindOffset(PartitionRequest, frozen=True, kw_only=True):
    """A moment."""

    at: Annotated[int, described("ISO 8601 with its zone, or milliseconds since 1970.", time=True)]


class CompactPartition(PartitionRequest, frozen=True, kw_only=True):
    """What to compact."""

    before: Annotated[int | None, placed("query", "Only below this offset.")] = None


class DeleteRecords(PartitionRequest, frozen=True, kw_only=True):
    """What to keep."""

    before: Annotated[int, described("The first offset to keep.")]


class ReadRecords(PartitionRequest, frozen=True, kw_only=True):
    """Which records, and how they are shown."""

    start: Annotated[int | None, described("The first offset. Left out: the start, or for a stream the end.")] = msgspec.field(
        default=None, name="from"
    )
    stop: Annotated[int | None, described("The offset to stop before.")] = msgspec.field(default=None, name="to")
    limit: Annotated[int | None, described("The most records: 100 unless said for a page, all for lines.", least=1, most=10_000)] = None
    decode: Annotated[Decoder, described("How keys and values are shown. What does not fit is shown as $binary.")] = "text"
    after: Annotated[
        int | None, described("The last offset that was seen: go on behind it. Outranks `from`, and for a stream Last-Event-ID.")
    ] = None
    last_event: Annotated[
        str | None, placed("header", "For a stream: the id of the last event that was seen.", pattern=EVENT_ID, name="Last-Event-ID")
    ] = None


class AppendRecords(PartitionRequest, frozen=True, kw_only=True):
    """Where the records of the body go."""


# -- what is answered -------------------------------------------------------------------------------------------


class Binary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes, where text or JSON cannot hold them."""

    data: Annotated[str, msgspec.Meta(pattern=_BASE64, extra_json_schema={"contentEncoding": "base64"})] = msgspec.field(name="$binary")


_Bytes = str | Binary | None
_BYTES = {"anyOf": [{"type": "string"}, {"$ref": "#/components/schemas/Binary"}, {"type": "null"}]}
_Mode = Literal["copy", "sync", "complete"] | Annotated[int, msgspec.Meta(ge=0, le=3)]
_Op = Annotated[int, msgspec.Meta(ge=0, le=7)]
_Time = Annotated[
    Any,
    msgspec.Meta(
        description="ISO 8601 in UTC with milliseconds, or milliseconds since 1970.",
        extra_json_schema={"anyOf": [{"type": "string", "format": "date-time"}, {"type": "integer"}]},
    ),
]
_NewTime = Annotated[
    Any,
    msgspec.Meta(
        description="ISO 8601 from 1970 on, or milliseconds since then. Left out or null: the time of the append.",
        extra_json_schema={
            "anyOf": [
                {"type": "string", "format": "date-time", "pattern": "^(?:19[7-9][0-9]|[2-9][0-9]{3})-"},
                {"type": "integer", "minimum": 0, "maximum": LARGEST},
                {"type": "null"},
            ]
        },
    ),
]


class ShownRecord(msgspec.Struct, frozen=True):
    """A record as it is shown. With decode=json the value is the JSON that was stored."""

    offset: Offset
    timestamp: _Time
    key: _Bytes
    value: Annotated[Any, msgspec.Meta(description="Text, JSON, hex or $binary, as `decode` says; null for no value.")]
    headers: list[tuple[str, _Bytes]]
    mode: _Mode
    op: _Op


class NewRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record to append, with a key or a value. Text is stored as its UTF-8, any other JSON as it is written."""

    key: _Bytes = None
    value: Annotated[Any, msgspec.Meta(description="Text, any JSON, $binary, or null.")] = None
    headers: Annotated[
        Any,
        msgspec.Meta(
            extra_json_schema={
                "anyOf": [
                    {
                        "type": "array",
                        "items": {"type": "array", "prefixItems": [{"type": "string"}, _BYTES], "items": False, "minItems": 2},
                    },
                    {"type": "object", "additionalProperties": _BYTES},
                ]
            }
        ),
    ] = None
    timestamp: _NewTime = None
    mode: _Mode = "copy"
    op: _Op = 0


class Records(msgspec.Struct, frozen=True):
    """A page of records; the Link header leads to the next."""

    items: list[ShownRecord]
    next: str | None


class Offsets(msgspec.Struct, frozen=True):
    """The offsets, in order."""

    offsets: list[Offset]


class FoundOffset(msgspec.Struct, frozen=True):
    """The offset."""

    offset: Offset


class NewStart(msgspec.Struct, frozen=True):
    """The new start."""

    start: Offset


class ShownBounds(msgspec.Struct, frozen=True):
    """The offsets that a partition keeps: from `start` up to, not including, `end`."""

    partition: Offset
    start: Offset
    end: Offset


class TopicWithBounds(ShownTopic, frozen=True):
    """A topic with the bounds of each partition."""

    bounds: list[ShownBounds] = msgspec.field(default_factory=list)


# -- the table --------------------------------------------------------------------------------------------------

_TOPIC = "/log/{topic}"
_PARTITION = "/log/{topic}/{partition}"
_RECORDS = f"{_PARTITION}/records"
_KNOWN = (UnknownTopic, UnknownPartition, BadBounds, Unavailable)
_WRITES = (*_KNOWN, Conflict, Fenced, OwnedTopic, DiskFull)
_ONE: Schema = {"$struct": NewRecord, "anyOf": [{"required": ["key"]}, {"required": ["value"]}]}
_NEW: dict[str, Schema] = {
    "application/json": {"anyOf": [_ONE, {"type": "array", "items": _ONE, "minItems": 1}]},
    "application/x-ndjson": {"type": "string", "description": "One NewRecord a line."},
}

TOPICS = Operation(
    part="log",
    name="topics",
    method="GET",
    path="/log",
    request=ListTopics,
    answer=list[ShownTopic],
    role=Role.READER,
    says="Every topic, sorted by name.",
    paging=Paging(by=("name",), usual=100, most=1000),
)
CREATE_TOPIC = Operation(
    part="log",
    name="create_topic",
    method="PUT",
    path=_TOPIC,
    request=NewTopic,
    answer=ShownTopic,
    role=Role.OPERATOR,
    changes=True,
    says="Create a topic. One that is there with the same partitions and settings stays as it is.",
    statuses={201: "Created.", 200: "It was there."},
    errors=_WRITES,
)
TOPIC = Operation(
    part="log",
    name="topic",
    method="GET",
    path=_TOPIC,
    request=TopicRequest,
    answer=TopicWithBounds,
    role=Role.READER,
    says="A topic with its settings and the bounds of each partition.",
    errors=_KNOWN,
)
DELETE_TOPIC: Operation[TopicRequest, None] = Operation(
    part="log",
    name="delete_topic",
    method="DELETE",
    path=_TOPIC,
    request=TopicRequest,
    answer=None,
    role=Role.OPERATOR,
    changes=True,
    says="Remove a topic and all of its records, for good.",
    errors=(*_KNOWN, OwnedTopic),
)
BOUNDS = Operation(
    part="log",
    name="bounds",
    method="GET",
    path=_PARTITION,
    request=PartitionRequest,
    answer=ShownBounds,
    role=Role.READER,
    says="The first offset still kept, and the offset after the last durable record.",
    errors=_KNOWN,
)
OFFSET_AT = Operation(
    part="log",
    name="offset_at",
    method="GET",
    path=f"{_PARTITION}/offset",
    request=FindOffset,
    answer=FoundOffset,
    role=Role.READER,
    says="The first offset whose record's time is at or after a moment; the end when there is none.",
    errors=_KNOWN,
)
COMPACT = Operation(
    part="log",
    name="compact",
    method="POST",
    path=f"{_PARTITION}/compact",
    request=CompactPartition,
    answer=Compacted,
    role=Role.OPERATOR,
    changes=True,
    patience=None,
    says="Keep, among the closed segments, the last record of each key.",
    errors=_WRITES,
)
READ = Operation(
    part="log",
    name="read",
    method="GET",
    path=_RECORDS,
    request=ReadRecords,
    answer=Records,
    role=Role.READER,
    says="Durable records: a page; all as lines (Accept: application/x-ndjson); or as they come (Accept: text/event-stream).",
    continues="from",
    errors=(*_KNOWN, OffsetGone),
)
SCAN = Operation(
    part="log",
    name="scan",
    method="GET",
    path=_RECORDS,
    request=ReadRecords,
    answer=ShownRecord,
    kind="stream",
    role=Role.READER,
    says="Every record of a range, one a line.",
    media="application/x-ndjson",
    errors=(*_KNOWN, OffsetGone),
)
TAIL = Operation(
    part="log",
    name="tail",
    method="GET",
    path=_RECORDS,
    request=ReadRecords,
    answer=ShownRecord,
    kind="stream",
    role=Role.READER,
    says="Records as they become durable: events whose id is the offset.",
    media="text/event-stream",
    errors=(*_KNOWN, OffsetGone),
)
APPEND = Operation(
    part="log",
    name="append",
    method="POST",
    path=_RECORDS,
    request=AppendRecords,
    answer=Offsets,
    role=Role.WRITER,
    changes=True,
    says="Append one record, a list, or lines of them, as one batch. The answer comes when they are durable.",
    statuses={201: "The offsets, in order."},
    content=_NEW,
    errors=_WRITES,
)
DELETE_BEFORE = Operation(
    part="log",
    name="delete_before",
    method="DELETE",
    path=_RECORDS,
    request=DeleteRecords,
    answer=NewStart,
    role=Role.OPERATOR,
    changes=True,
    says="Let go of every record before an offset, for good.",
    errors=_WRITES,
)

LOG = PartDefinition(
    name="log",
    door="log",
    operations=(TOPICS, CREATE_TOPIC, TOPIC, DELETE_TOPIC, BOUNDS, OFFSET_AT, COMPACT, READ, SCAN, TAIL, APPEND, DELETE_BEFORE),
    performs="headwater.client.log_performer:LogPerformer",
    offers="headwater.client.log:AsyncLog",
    handlers="headwater.server.log_handlers:LogHandlers",
    commands="headwater.cli.log:group",
    owned=False,
)


# -- what cannot be ---------------------------------------------------------------------------------------------


def check_place(topic: str, partition: int) -> None:
    """Errors: `BadInput` for what is no name, `UnknownPartition` below 0: the same wherever the log is."""
    check_topic_name(topic)
    if type(partition) is not int:
        raise BadInput(f"A partition is a number, not {partition!r}.", hint="Partitions count from 0: write 0, not '0'.")
    if partition < 0:
        raise UnknownPartition(f"Topic {topic} has no partition {partition}.", hint="Partitions count from 0.")


def check_read(start: int | None, limit: int = 1) -> None:
    """Errors: `BadBounds` for an offset below 0, `BadInput` for a limit below 1."""
    if start is not None and start < 0:
        raise BadBounds(f"{start} is no offset.", hint="Offsets count from 0.")
    if limit < 1:
        raise BadInput(f"A limit of {limit} records reads nothing.", hint="Give 1 or more.")

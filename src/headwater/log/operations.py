"""The operations of the log: the table from which routes, checks, OpenAPI, remote calls and references are made."""

from __future__ import annotations

from typing import Annotated

import msgspec

from headwater.core.errors import (
    BadBounds,
    BadInput,
    Conflict,
    DiskFull,
    Fenced,
    MissingKey,
    OffsetGone,
    OwnedTopic,
    Unavailable,
    UnknownPartition,
    UnknownTopic,
)
from headwater.log.answers import (
    FoundOffset,
    NewRecord,
    NewStart,
    Offsets,
    PartitionContent,
    Places,
    Records,
    ShownBounds,
    ShownRecord,
    TopicWithBounds,
)
from headwater.log.json_form import Decoder, ShownSettings, ShownTopic, read_key
from headwater.log.record import Compacted, check_topic_name, whole
from headwater.wire.operation import Operation, Paging, Request, Role, Schema, described, placed
from headwater.wire.part import PartDefinition

EVENT_ID = "^[0-9]{1,18}$"
TopicName = Annotated[str, described("The topic's name.", pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,248}$")]
PartitionNumber = Annotated[int, described("Partitions count from 0: /log/{topic}/0")]


# -- what is asked ----------------------------------------------------------------------------------------------


class ListTopics(Request, frozen=True, kw_only=True):
    """Nothing more."""


class TopicRequest(Request, frozen=True, kw_only=True):
    """A topic."""

    topic: TopicName

    def check(self) -> None:
        check_topic_name(self.topic)


class NewTopic(TopicRequest, frozen=True, kw_only=True):
    """Partitions and settings of a new topic: one partition by default, and each missing setting as configured."""

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

    def check(self) -> None:
        super().check()
        whole(self.at, "timestamp")


class CompactPartition(PartitionRequest, frozen=True, kw_only=True):
    """What to compact."""

    before: Annotated[int | None, placed("query", "Only below this offset.")] = None

    def check(self) -> None:
        super().check()
        if self.before is not None:
            whole(self.before)


class DeleteRecords(PartitionRequest, frozen=True, kw_only=True):
    """What to keep."""

    before: Annotated[int, described("The first offset to keep.")]

    def check(self) -> None:
        super().check()
        whole(self.before)


class ReadRecords(PartitionRequest, frozen=True, kw_only=True):
    """Which records, and how they are shown."""

    start: Annotated[int | None, described("The first offset. Left out: the start, or for a stream the end.")] = msgspec.field(
        default=None, name="from"
    )
    stop: Annotated[int | None, described("The offset to stop before.")] = msgspec.field(default=None, name="to")
    limit: Annotated[int | None, described("The most records: 100 unless said for a page, all for lines.", least=1, most=10_000)] = None
    decode: Annotated[Decoder, described("How keys and values are shown. What does not fit is shown as $binary.")] = "text"
    after: Annotated[
        int | None, described("The last offset that was seen: go on behind it. Outranks `from`; for a stream, Last-Event-ID outranks it.")
    ] = None
    key: Annotated[str | None, described('Only records with this key: its text, or {"$binary": base64}.')] = None
    last_event: Annotated[
        str | None,
        placed("header", "For a stream: the id of the last event that was seen.", pattern=EVENT_ID, name="Last-Event-ID"),
    ] = None

    @property
    def wanted(self) -> bytes | None:
        """The requested key. Errors: `BadInput`."""
        return None if self.key is None else read_key(self.key)


class AppendRecords(PartitionRequest, frozen=True, kw_only=True):
    """Where the records of the body go."""


class AppendByKey(TopicRequest, frozen=True, kw_only=True):
    """The topic that the records of the body go to, each to the partition of its key."""


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
_NEW_OR_NONE = {**_NEW, "application/json": {"anyOf": [_ONE, {"type": "array", "items": _ONE}]}}  # no record is at no place

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
    commands={"create {topic}": ""},
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
STATS = Operation(
    part="log",
    name="stats",
    method="GET",
    path=f"{_TOPIC}/stats",
    request=TopicRequest,
    answer=list[PartitionContent],
    role=Role.READER,
    says="Statistics of each partition of a topic: offsets, segments, bytes, cut torn tails, drained and spare files, damage.",
    errors=_KNOWN,
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
    commands={"show {topic} {from}": "from={from}"},
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
APPEND_BY_KEY = Operation(
    part="log",
    name="append_by_key",
    method="POST",
    path=f"{_TOPIC}/records",
    request=AppendByKey,
    answer=Places,
    role=Role.WRITER,
    changes=True,
    says="Append records, each to the partition of its key, as Kafka's clients do. One batch for each partition.",
    statuses={201: "Where the records are, in their order."},
    content=_NEW_OR_NONE,
    errors=(*_WRITES, MissingKey),
    commands={"append {topic}": ""},
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
    says="Delete every record before an offset, for good.",
    errors=_WRITES,
    commands={"delete-before {topic} {before}": "before={before}"},
)

LOG = PartDefinition(
    name="log",
    door="log",
    operations=(
        TOPICS, CREATE_TOPIC, TOPIC, DELETE_TOPIC, STATS, APPEND_BY_KEY, BOUNDS, OFFSET_AT, COMPACT, READ, SCAN, TAIL, APPEND,
        DELETE_BEFORE,
    ),
    performs="headwater.client.log_performer:LogPerformer",
    offers="headwater.client.log:AsyncLog",
    handlers="headwater.server.log_handlers:LogHandlers",
    commands="headwater.cli.log:group",
    owned=False,
)  # fmt: skip


# -- what cannot be ---------------------------------------------------------------------------------------------


def check_place(topic: str, partition: int) -> None:
    """Errors: `BadInput` for an invalid name, `UnknownPartition` below 0; the same over a directory and over HTTP."""
    check_topic_name(topic)
    if type(partition) is not int:
        raise BadInput(f"A partition is a number, not {partition!r}.", hint="Partitions count from 0: write 0, not '0'.")
    if partition < 0:
        raise UnknownPartition(f"Topic {topic} has no partition {partition}.", hint="Partitions count from 0.")


def check_read(start: int | None, limit: int = 1, stop: int | None = None) -> None:
    """Errors: `BadBounds` for an offset below 0 and a range in the wrong order, `BadInput` for a limit below 1 or no number."""
    for offset in (start, stop):
        if offset is not None:
            whole(offset)
    whole(limit, "limit")
    if start is not None and start < 0:
        raise BadBounds(f"{start} is no offset.", hint="Offsets count from 0.")
    if start is not None and stop is not None and stop < start:
        raise BadBounds(f"`to` {stop} lies before `from` {start}.", hint="Give the lower one as from.")
    if limit < 1:
        raise BadInput(f"A limit of {limit} records reads nothing.", hint="Give 1 or more.")

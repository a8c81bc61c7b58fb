"""The log's answers over HTTP: their JSON, and its description for OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from headwater.log.json_form import ShownTopic
from headwater.wire.json import LARGEST

_BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
Offset = Annotated[int, msgspec.Meta(ge=0)]


class Binary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes that text or JSON cannot hold."""

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


class Placed(msgspec.Struct, frozen=True):
    """Where a record is."""

    partition: Offset
    offset: Offset


class Places(msgspec.Struct, frozen=True):
    """Where the records are, in their order."""

    records: list[Placed]


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


class PartitionContent(msgspec.Struct, frozen=True, kw_only=True):
    """What a partition consists of. What only files have is null on Kafka.

    `cuts`: side files that recovery and repair have made. `damage`: what keeps it from being written; empty when nothing does.
    `drained`: files of deleted segments that wait for their disposal. `spares`: files of zeros that become segments again.
    """

    topic: str
    partition: Offset
    start: Offset
    end: Offset
    segments: Offset | None = None
    bytes: Offset | None = None
    epoch: Offset | None = None
    cuts: Offset | None = None
    damage: str = ""
    drained: Offset | None = None
    spares: Offset | None = None

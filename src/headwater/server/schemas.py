"""The shapes of what is sent and answered, as JSON Schema: the components of `/openapi.json`."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.server.operation import LARGEST, Schema

_BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_SIZE = {"type": "string", "pattern": "^[0-9]+(?:\\.[0-9]+)?(?:B|KiB|MiB|GiB|TiB|kB|MB|GB|TB)$"}
_DURATION = {"type": "string", "pattern": "^[0-9]+(?:\\.[0-9]+)?(?:ms|s|m|h|d)$"}
_BINARY: dict[str, Any] = {
    "type": "object",
    "properties": {"$binary": {"type": "string", "contentEncoding": "base64", "pattern": _BASE64}},
    "required": ["$binary"],
    "additionalProperties": False,
}
_OFFSET: dict[str, Any] = {"type": "integer", "minimum": 0}
_BYTES: dict[str, Any] = {"anyOf": [{"type": "string"}, {"$ref": "#/components/schemas/Binary"}, {"type": "null"}]}
_HEADERS: dict[str, Any] = {
    "type": "array",
    "items": {"type": "array", "prefixItems": [{"type": "string"}, _BYTES], "items": False, "minItems": 2},
}
_TIME: dict[str, Any] = {
    "description": "ISO 8601 in UTC with milliseconds, or milliseconds since 1970.",
    "anyOf": [{"type": "string", "format": "date-time"}, {"type": "integer"}],
}
_MODE: dict[str, Any] = {"anyOf": [{"enum": ["copy", "sync", "complete"]}, {"type": "integer", "minimum": 0, "maximum": 3}]}
_OP: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": 7}


def _object(required: list[str], /, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _list(item: str, cursor: str) -> dict[str, Any]:
    return _object(
        ["items", "next"],
        items={"type": "array", "items": {"$ref": f"#/components/schemas/{item}"}},
        next={"type": ["string", "null"], "description": f"Null at the end; otherwise what to give as `{cursor}` to go on."},
    )


COMPONENTS: dict[str, Schema] = {
    "Binary": {"description": "Bytes, where text or JSON cannot hold them.", **_BINARY},
    "Problem": {
        "description": "What went wrong (RFC 9457). `code` is stable, `hint` says what to do next, `errorId` finds it in the server's log.",
        **_object(
            ["title", "status", "code", "detail", "errorId", "type"],
            type={"type": "string"},
            title={"type": "string"},
            status={"type": "integer"},
            code={"type": "string"},
            detail={"type": "string"},
            hint={"type": "string"},
            errorId={"type": "string"},
        ),
    },
    "Record": {
        "description": "A record as it is shown. With decode=json the value is the JSON that was stored.",
        **_object(
            ["offset", "timestamp", "key", "value", "headers", "mode", "op"],
            offset=_OFFSET,
            timestamp=_TIME,
            key=_BYTES,
            value={"description": "Text, JSON, hex or $binary, as `decode` says; null for no value."},
            headers=_HEADERS,
            mode=_MODE,
            op=_OP,
        ),
    },
    "NewRecord": {
        "description": "A record to append, with a key or a value. Text is stored as its UTF-8, any other JSON as it is written.",
        **_object(
            [],
            key=_BYTES,
            value={"description": "Text, any JSON, $binary, or null."},
            headers={"anyOf": [_HEADERS, {"type": "object", "additionalProperties": _BYTES}]},
            timestamp={
                "description": "ISO 8601 from 1970 on, or milliseconds since then. Left out or null: the time of the append.",
                "anyOf": [
                    {"type": "string", "format": "date-time", "pattern": "^(?:19[7-9][0-9]|[2-9][0-9]{3})-"},
                    {"type": "integer", "minimum": 0, "maximum": LARGEST},
                    {"type": "null"},
                ],
            },
            mode=_MODE,
            op=_OP,
        ),
        "anyOf": [{"required": ["key"]}, {"required": ["value"]}],
    },
    "Records": _list("Record", "from"),
    "Offsets": _object(["offsets"], offsets={"type": "array", "items": _OFFSET}),
    "Offset": _object(["offset"], offset=_OFFSET),
    "Start": _object(["start"], start=_OFFSET),
    "Bounds": {
        "description": "The offsets that a partition keeps: from `start` up to, not including, `end`.",
        **_object(["partition", "start", "end"], partition=_OFFSET, start=_OFFSET, end=_OFFSET),
    },
    "TopicSettings": {
        "description": "What is fixed when a topic is created: sizes such as 256MiB, durations such as 1h (0ms: never).",
        **_object([], segment=_SIZE, period=_DURATION, max_record=_SIZE),
    },
    "NewTopic": _object(
        [],
        partitions={"type": "integer", "minimum": 1, "maximum": 4096, "default": 1},
        settings={"$ref": "#/components/schemas/TopicSettings"},
    ),
    "Topic": _object(
        ["name", "partitions", "settings", "generation"],
        name={"type": "string"},
        partitions={"type": "integer", "minimum": 1},
        settings={"$ref": "#/components/schemas/TopicSettings"},
        generation={"type": "string", "description": "Differs when a deleted topic was created again."},
    ),
    "TopicWithBounds": _object(
        ["name", "partitions", "settings", "generation", "bounds"],
        name={"type": "string"},
        partitions={"type": "integer", "minimum": 1},
        settings={"$ref": "#/components/schemas/TopicSettings"},
        generation={"type": "string"},
        bounds={"type": "array", "items": {"$ref": "#/components/schemas/Bounds"}},
    ),
    "Topics": _list("Topic", "cursor"),
    "Compacted": _object(
        ["records_before", "records_after", "bytes_before", "bytes_after"],
        records_before=_OFFSET,
        records_after=_OFFSET,
        bytes_before=_OFFSET,
        bytes_after=_OFFSET,
    ),
    "Health": _object(["status"], status={"const": "ok"}),
    "Ready": _object(["status", "log"], status={"const": "ready"}, log={"enum": ["embedded", "kafka"]}),
}


def described(*types: Any) -> None:
    """Add the shapes of these structs, and of what is inside them, to the components, under their own names."""
    _, found = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    for name, shape in found.items():
        shape.pop("title", None)
        COMPONENTS[name] = shape


def listed(name: str, *, paged: bool = False) -> dict[str, Schema]:
    """JSON content of a list of a component's shape: in pages, or whole, its `next` always null."""
    schema(name)
    pages = _list(name, "cursor")
    return {"application/json": pages if paged else {**pages, "properties": {**pages["properties"], "next": {"type": "null"}}}}


def ref(name: str) -> dict[str, Schema]:
    """JSON content of a component's shape."""
    return {"application/json": schema(name)}


def schema(name: str) -> Schema:
    if name not in COMPONENTS:
        raise KeyError(name)
    return {"$ref": f"#/components/schemas/{name}"}

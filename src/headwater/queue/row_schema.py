"""The JSON of rows that are put, for OpenAPI."""

from __future__ import annotations

from headwater.wire.operation import Schema

_DATE: Schema = {"type": ["string", "integer"], "description": "ISO 8601, or milliseconds since 1970."}
_DURATION: Schema = {"type": "string", "description": "Such as 10s."}
_ROW_SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "key": {"description": 'Text, or {"$binary": base64}.'},
        "data": {"description": 'Any JSON, or {"$binary": base64}.'},
        "priority": {"type": "integer", "minimum": 0, "maximum": 255},
        "delay": _DURATION,
        "process_date": _DATE,
        "expiration_date": _DATE,
        "insertion_date": _DATE,
        "lane": {"type": "string"},
        "every": {"type": "string", "description": "Comes again after so long, such as 1h; never: no longer."},
        "cron": {"type": "string", "description": "Comes again by a cron expression of five fields."},
        "zone": {"type": "string", "description": "The time zone of cron, such as Europe/Berlin; UTC unless given."},
        "unique_for": {"type": "string", "description": "Ignored where its key was done within this, such as 10m; 0ms: never."},
        "after": {"type": "array", "items": {"type": "integer"}, "description": "Ids of the rows that it waits for, until they are gone."},
        "after_dead": {"enum": ["hold", "cancel"], "description": "What a dead one of these does; hold unless given."},
    },
    "required": ["key"],
    "additionalProperties": False,
}
ROWS_CONTENT: dict[str, Schema] = {
    "application/json": {"anyOf": [_ROW_SCHEMA, {"type": "array", "minItems": 1, "items": _ROW_SCHEMA}]},
    "application/x-ndjson": {"type": "string", "description": "One row a line."},
}

"""What can be done with the log over HTTP, as data. The handlers of these names are in `log`."""

from __future__ import annotations

from headwater.client.wire import DECODERS
from headwater.server.operation import Answer, Operation, Param, Role, Schema
from headwater.server.schemas import ref, schema

EVENT_ID = "^[0-9]{1,18}$"
_PARTITION = "/log/{topic}/{partition}"
_RECORDS = f"{_PARTITION}/records"
_STREAM = {"type": "string", "description": "Events whose id is the offset and whose data is a Record; `: ping` each 15 seconds."}
_NEW: dict[str, Schema] = {
    "application/json": {"anyOf": [schema("NewRecord"), {"type": "array", "items": schema("NewRecord"), "minItems": 1}]},
    "application/x-ndjson": {"type": "string", "description": "One NewRecord a line."},
}


TABLE = (
    Operation(
        method="GET",
        path="/log",
        name="list_topics",
        text="Every topic, sorted by name.",
        role=Role.READER,
        query=(
            Param("limit", "The most topics to answer with.", default=100, least=1, most=1000),
            Param("cursor", "Go on where the page before ended: its `next`.", kind="text"),
        ),
        answers={200: Answer("A page of topics; the Link header leads to the next.", ref("Topics"))},
    ),
    Operation(
        method="PUT",
        path="/log/{topic}",
        name="create_topic",
        text="Create a topic. One that is there with the same partitions and settings stays as it is.",
        role=Role.OPERATOR,
        body=ref("NewTopic"),
        answers={201: Answer("Created.", ref("Topic")), 200: Answer("It was there.", ref("Topic"))},
        problems=(409, 507),
    ),
    Operation(
        method="GET",
        path="/log/{topic}",
        name="describe_topic",
        text="A topic with its settings and the bounds of each partition.",
        role=Role.READER,
        answers={200: Answer("The topic.", ref("TopicWithBounds"))},
    ),
    Operation(
        method="DELETE",
        path="/log/{topic}",
        name="delete_topic",
        text="Remove a topic and all of its records, for good.",
        role=Role.OPERATOR,
        answers={204: Answer("Removed.")},
    ),
    Operation(
        method="GET",
        path=_PARTITION,
        name="show_bounds",
        text="The first offset still kept, and the offset after the last durable record.",
        role=Role.READER,
        answers={200: Answer("The bounds.", ref("Bounds"))},
    ),
    Operation(
        method="GET",
        path=f"{_PARTITION}/offset",
        name="find_offset",
        text="The first offset whose record's time is at or after a moment; the end when there is none.",
        role=Role.READER,
        query=(Param("at", "ISO 8601 with its zone, or milliseconds since 1970.", kind="time", required=True),),
        answers={200: Answer("The offset.", ref("Offset"))},
    ),
    Operation(
        method="POST",
        path=f"{_PARTITION}/compact",
        name="compact",
        text="Keep, among the closed segments, the last record of each key.",
        role=Role.OPERATOR,
        query=(Param("before", "Only below this offset."),),
        answers={200: Answer("What it did.", ref("Compacted"))},
        problems=(409, 507),
    ),
    Operation(
        method="GET",
        path=_RECORDS,
        name="read_records",
        text="Durable records: a page; all as lines (Accept: application/x-ndjson); or as they come (Accept: text/event-stream).",
        role=Role.READER,
        query=(
            Param("from", "The first offset. Left out: the start, or for a stream the end."),
            Param("to", "The offset to stop before."),
            Param("limit", "The most records: 100 unless said for a page, all for lines.", least=1, most=10_000),
            Param(
                "decode",
                "How keys and values are shown. What does not fit is shown as $binary.",
                kind="text",
                default="text",
                choices=DECODERS,
            ),
            Param("after", "The last offset that was seen: go on behind it. Outranks `from`, and for a stream Last-Event-ID."),
        ),
        headers={"Last-Event-ID": Param("last-event-id", "For a stream: the last offset that was seen.", kind="text", pattern=EVENT_ID)},
        answers={
            200: Answer(
                "Records; the Link header leads to the next page.",
                {
                    **ref("Records"),
                    "application/x-ndjson": {"type": "string", "description": "One Record a line."},
                    "text/event-stream": _STREAM,
                },
            )
        },
        problems=(410,),
    ),
    Operation(
        method="POST",
        path=_RECORDS,
        name="append",
        text="Append one record, a list, or lines of them, as one batch. The answer comes when they are durable.",
        role=Role.OPERATOR,
        body=_NEW,
        body_required=True,
        answers={201: Answer("The offsets, in order.", ref("Offsets"))},
        problems=(409, 507),
    ),
    Operation(
        method="DELETE",
        path=_RECORDS,
        name="delete_records",
        text="Let go of every record before an offset, for good.",
        role=Role.OPERATOR,
        query=(Param("before", "The first offset to keep.", required=True),),
        answers={200: Answer("The new start.", ref("Start"))},
        problems=(409, 507),
    ),
)

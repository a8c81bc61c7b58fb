"""Events, heads and records as the JSON of answers, and events as Python sees them."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.core.errors import UnreadableRecord
from headwater.core.units import Duration
from headwater.journal.action import Append, Delete, Mark
from headwater.journal.answers import ShownFollowedEvent, ShownHead, ShownJournalEvent, TrailRecord
from headwater.journal.change import EventRow
from headwater.journal.event import KIND_NAMES, EventRecord, Payload, PayloadKind
from headwater.journal.head import Head
from headwater.journal.metadata import EMPTY_COLUMN, read_metadata_column
from headwater.journal.wire import read_record
from headwater.log.json_form import binary_of, show_bytes
from headwater.log.record import Record
from headwater.wire import json
from headwater.wire.times import read_time, show_time


class FollowedEvent(EventRecord, frozen=True, kw_only=True):
    """An event of a topic. `id`: its journal. `position`: where `follow` goes on behind it."""

    id: str
    position: str


def events_of(rows: list[EventRow]) -> list[EventRecord]:
    """The events of a read. Errors: `BadInput` for a payload that is no JSON."""
    return [
        EventRecord(  # most events, without the steps that they do not need
            row.seq_nr, None if (payload := row.payload) is None else payload.value(), row.tags, row.timestamp, row.partition, row.offset,
            row.origin, row.version,
        )
        if row.metadata == EMPTY_COLUMN and not row.headers
        else EventRecord(*_fields(row))
        for row in rows
    ]  # fmt: skip


def followed_event(row: EventRow, id: str, position: str) -> FollowedEvent:
    """An event of a followed topic."""
    return FollowedEvent(*_fields(row), id=id, position=position)


def _fields(row: EventRow) -> tuple[Any, ...]:
    metadata = header = None
    if row.metadata != EMPTY_COLUMN:
        both = read_metadata_column(row.metadata)
        metadata = None if both.payload.data is None else msgspec.json.decode(both.payload.data)
        header = None if both.header is None else msgspec.json.decode(both.header)
    payload = None if row.payload is None else row.payload.value()
    return (
        row.seq_nr, payload, row.tags, row.timestamp, row.partition, row.offset, row.origin, row.version, metadata, header,
        dict(row.headers),
    )  # fmt: skip


def show_event(row: EventRow) -> ShownJournalEvent:
    """An event as JSON. Stored JSON goes out as it was given."""
    return ShownJournalEvent(**_shown(row))


def show_followed(row: EventRow, id: str, position: str) -> ShownFollowedEvent:
    """An event of a followed topic as JSON."""
    return ShownFollowedEvent(**_shown(row), id=id, position=position)


def _shown(row: EventRow) -> dict[str, Any]:
    metadata = header = None
    if row.metadata != EMPTY_COLUMN:
        both = read_metadata_column(row.metadata)
        metadata = None if both.payload.data is None else msgspec.Raw(one_line(both.payload.data))
        header = None if both.header is None else msgspec.Raw(one_line(both.header))
    return {
        "seq_nr": row.seq_nr,
        "payload": None if row.payload is None else show_payload(row.payload),
        "payload_type": None if row.payload is None else KIND_NAMES[row.payload.kind],
        "tags": list(row.tags),
        "timestamp": show_time(row.timestamp),
        "partition": row.partition,
        "offset": row.offset,
        "origin": row.origin,
        "version": row.version,
        "metadata": metadata,
        "header_metadata": header,
        "headers": dict(row.headers),
    }


def show_payload(payload: Payload) -> object:
    """A payload as JSON. Stored JSON goes out as it was given."""
    if payload.kind is PayloadKind.JSON:
        return msgspec.Raw(one_line(payload.data))
    return show_bytes(payload.data, "text" if payload.kind is PayloadKind.TEXT else "binary")


def one_line(text: bytes) -> bytes:
    """JSON without line ends, which it has between its parts alone: an event is one line."""
    return text.translate(None, b"\r\n") if b"\n" in text or b"\r" in text else text


def read_shown(shown: ShownJournalEvent) -> EventRecord:
    """The event that `show_event` has shown."""
    fields = _read(shown)
    if isinstance(shown, ShownFollowedEvent):
        return FollowedEvent(*fields, id=shown.id, position=shown.position)
    return EventRecord(*fields)


def _read(shown: ShownJournalEvent) -> tuple[Any, ...]:
    payload = binary_of(shown.payload) if shown.payload_type == "binary" else shown.payload
    return (
        shown.seq_nr, payload, tuple(shown.tags), read_time(shown.timestamp or 0), shown.partition, shown.offset, shown.origin,
        shown.version, shown.metadata, shown.header_metadata, shown.headers,
    )  # fmt: skip


def show_head(id: str, head: Head) -> ShownHead:
    """A head as JSON."""
    return ShownHead(
        id=id,
        seq_nr=head.last,
        delete_to=head.deleted,
        partition=head.partition,
        offset=head.offset,
        created=show_time(head.created),
        updated=show_time(head.updated),
        expire_after=None if head.expire_after is None else str(Duration(head.expire_after)),
        expire_on=None if head.expire_on is None else head.expire_on.isoformat(),
        record_id=None if head.record_id is None else str(head.record_id),
        origin=head.origin,
    )


def show_trail_record(record: Record, pointer: int, partition: int) -> TrailRecord | None:
    """A record of a journal as its trail shows it; None for what readers pass over."""
    offset = record.offset or 0
    time, copied = show_time(record.timestamp), offset <= pointer
    try:
        action_record = read_record(record)
    except UnreadableRecord as error:
        return TrailRecord(partition=partition, offset=offset, timestamp=time, action="unreadable", copied=copied, problem=error.message)
    if action_record is None:
        return None
    action = action_record.action
    return TrailRecord(
        partition=partition,
        offset=offset,
        timestamp=time,
        action=type(action).__name__.lower(),
        copied=copied,
        first=action.first if isinstance(action, Append) else None,
        last=action.last if isinstance(action, Append) else None,
        to=action.to if isinstance(action, Delete) else None,
        mark=action.id if isinstance(action, Mark) else None,
        origin=action.origin,
        version=action.version,
    )


def encode_event(row: EventRow) -> bytes:
    """The JSON of an event."""
    return json.encode(show_event(row))

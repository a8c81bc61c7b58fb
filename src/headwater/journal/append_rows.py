"""The rows of an Append's events, for readers of the log's tail and for those who copy it: both show the same."""

from __future__ import annotations

import msgspec

from headwater.core.errors import UnreadableRecord
from headwater.journal.action import ActionRecord, Append
from headwater.journal.binary_body import binary_events
from headwater.journal.change import EventRow
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.json_body import decode_json_body, payload_of
from headwater.journal.metadata import EMPTY_COLUMN, metadata_column, payload_metadata_of
from headwater.journal.unreadable import at_offset, unreadable
from headwater.journal.wire import read_record
from headwater.log.record import Record

_JSON, _UNSET = PayloadKind.JSON, msgspec.UNSET  # looked up once: for every event


def append_rows(
    action: Append, body: bytes, partition: int, offset: int, timestamp: int, users: tuple[tuple[str, str], ...]
) -> tuple[list[EventRow], int | None]:
    """The rows of an Append, and the duration after which it lets its journal expire. Errors: `UnreadableRecord`."""
    origin, version = action.origin, action.version
    if action.payload_type == "binary":
        events = binary_events(body)
        column = metadata_column(action.metadata, events.metadata)
        return [
            EventRow(event.seq_nr, timestamp, partition, offset, origin, version, None, event.tags, column, event.payload, users)
            for event in events.events
        ], events.metadata.expire_after
    if action.payload_type != "json":
        raise unreadable(f"{action.payload_type[:40]!r} is no type of bodies.")
    form = decode_json_body(body)
    form_metadata = form.metadata
    if action.metadata is None and (form_metadata is None or (form_metadata.expire_after is None and form_metadata.data is msgspec.UNSET)):
        column, expire_after = EMPTY_COLUMN, None
    else:
        metadata = payload_metadata_of(form_metadata)
        column, expire_after = metadata_column(action.metadata, metadata), metadata.expire_after
    return [
        EventRow(
            event.seq_nr, timestamp, partition, offset, origin, version, None, event.tags, column,
            Payload(_JSON, bytes(raw)) if event.payload_type == "json" and (raw := event.payload) is not _UNSET else payload_of(event),
            users,
        )
        for event in form.events
    ], expire_after  # fmt: skip


def event_rows(record: Record, partition: int) -> list[EventRow]:
    """The events of an Append's record, by number. Errors: `UnreadableRecord`."""
    return rows_of(read_record(record), partition)


def rows_of(append: ActionRecord | None, partition: int) -> list[EventRow]:
    """The events of an Append, by number. Errors: `UnreadableRecord`."""
    if append is None or append.value is None:
        return []
    assert isinstance(append.action, Append)
    try:
        rows, _ = append_rows(append.action, append.value, partition, append.offset, append.timestamp, append.headers)
    except UnreadableRecord as error:
        raise at_offset(error, append.offset) from error
    if len(rows) > 1:
        rows.sort(key=lambda row: row.seq_nr)
    return rows

"""The events of a short journal from the columns of a store's rows, without the steps that long reads and tails need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headwater.core.errors import UnreadableRecord
from headwater.journal.action import ActionRecord, Append
from headwater.journal.append_rows import append_rows
from headwater.journal.change import EventRow
from headwater.journal.envelope import is_sealed
from headwater.journal.event import EventRecord, Payload, PayloadKind
from headwater.journal.json_body import decode_json_body, payload_of
from headwater.journal.metadata import EMPTY_COLUMN
from headwater.journal.shown import events_of
from headwater.store import Row

SHORT = 100
"""Events: reading so few takes less time than a thread's wake-up."""
_JSON, _UNSET = int(PayloadKind.JSON), msgspec.UNSET
_decode = msgspec.json.Decoder().decode
_tags = msgspec.json.Decoder(tuple[str, ...]).decode
_headers = msgspec.json.Decoder(tuple[tuple[str, str], ...]).decode
_ROTTEN = (LookupError, TypeError, ValueError, RecursionError, msgspec.MsgspecError, UnreadableRecord)


class _Sealed(ValueError):
    """A payload is encrypted."""


def short_events(rows: Sequence[Row], partition: int) -> list[EventRecord] | None:
    """The events of rows (seq_nr, timestamp, offset, origin, version, tags, metadata, payload_type, payload, headers), by number.

    None where the long way has more to do: for two events of one number, encrypted payloads, and values that cannot be decoded.
    """
    if len({row[0] for row in rows}) != len(rows):
        return None
    try:
        return [
            EventRecord(
                seq_nr, _decode(payload) if kind == _JSON else _value(kind, payload), _tags(tags) if tags else (), timestamp, partition,
                offset, origin, version,
            )
            if metadata == EMPTY_COLUMN and not headers
            else _whole(partition, seq_nr, timestamp, offset, origin, version, tags, metadata, kind, payload, headers)
            for seq_nr, timestamp, offset, origin, version, tags, metadata, kind, payload, headers in rows
        ]  # fmt: skip
    except _ROTTEN:
        return None


def highest(appends: Sequence[ActionRecord]) -> int:
    """The highest number that Appends name; 0: none does."""
    return max((append.action.last for append in appends if isinstance(append.action, Append)), default=0)


def add_tail(events: list[EventRecord], appends: Sequence[ActionRecord], stop: int, partition: int) -> bool:
    """Put the events of Appends, up to the number `stop`, behind those of the store. False where the long way has more to do: for numbers
    that do not ascend, and as `short_events`."""
    last = events[-1].seq_nr
    try:
        for append in appends:
            for event in _tail_events(append, partition):
                if event.seq_nr <= last or not append.action.first <= event.seq_nr <= append.action.last:  # type: ignore[union-attr]
                    return False
                last = event.seq_nr
                if last <= stop:
                    events.append(event)
    except _ROTTEN:
        return False
    return True


def _tail_events(append: ActionRecord, partition: int) -> list[EventRecord]:
    """The events of an Append. Errors: `UnreadableRecord`, and those of `_ROTTEN`."""
    action, body, offset, timestamp = append.action, append.value, append.offset, append.timestamp
    assert isinstance(action, Append)
    assert body is not None
    if action.payload_type == "json" and action.metadata is None and not append.headers:
        form = decode_json_body(body)
        form_metadata, origin, version = form.metadata, action.origin, action.version
        if form_metadata is None or (form_metadata.expire_after is None and form_metadata.data is _UNSET):
            return [
                EventRecord(
                    event.seq_nr,
                    _decode(raw) if event.payload_type == "json" and (raw := event.payload) is not _UNSET else _shown(payload_of(event)),
                    event.tags, timestamp, partition, offset, origin, version,
                )
                for event in form.events
            ]  # fmt: skip
    rows, _ = append_rows(action, body, partition, offset, timestamp, append.headers)
    if any(is_sealed(row.payload) for row in rows):
        raise _Sealed
    return events_of(rows)


def _shown(payload: Payload | None) -> Any:
    return None if payload is None else payload.value()


def _whole(partition: int, *columns: Any) -> EventRecord:
    seq_nr, timestamp, offset, origin, version, tags, metadata, kind, payload, headers = columns
    stored_payload = None if kind is None else Payload(PayloadKind(kind), payload)
    if is_sealed(stored_payload):
        raise _Sealed
    row = EventRow(
        seq_nr, timestamp, partition, offset, origin, version, None, _tags(tags) if tags else (), metadata, stored_payload,
        _headers(headers) if headers else (),
    )  # fmt: skip
    return events_of([row])[0]


def _value(kind: int | None, data: bytes) -> Any:
    if kind is None:
        return None
    payload = Payload(PayloadKind(kind), data)
    if is_sealed(payload):
        raise _Sealed
    return payload.value()

"""Exported journals: lines of JSON that hold everything that a journal is, and what they become again.

The first line names the format. Then come the journals, by id: a line for each Append with the events that are left of it, and a line with
the head behind the last. The last line counts them, so that a file which was cut is noticed. An Append says which number lies before it in
its journal (`previous`): whoever imports lines notices those that are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Annotated, Any

import msgspec

from headwater.core.errors import BadInput
from headwater.core.units import Duration
from headwater.journal.action import Append, PayloadMetadata
from headwater.journal.append_draft import AppendDraft, payload_of
from headwater.journal.binary_body import encode_binary_body
from headwater.journal.change import EventRow
from headwater.journal.envelope import EntityCipher
from headwater.journal.event import KIND_NAMES, NumberedEvent, Payload, PayloadKind, SeqNr, check_seq_nr
from headwater.journal.event_bodies import encode_events
from headwater.journal.head import Head
from headwater.journal.json_text import check_json
from headwater.journal.metadata import EMPTY_COLUMN, read_metadata_column
from headwater.journal.names import key_of
from headwater.journal.shown import one_line, show_payload
from headwater.journal.wire import write_record
from headwater.log.json_form import binary_of
from headwater.log.record import Header, Record
from headwater.wire import json
from headwater.wire.times import read_time, show_time

FORMAT = "headwater-journals/1"
Count = Annotated[int, msgspec.Meta(ge=0)]
_KINDS = {name: kind for kind, name in KIND_NAMES.items()}


class ExportEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An event. `payload`: JSON as it was given, text, or {"$binary": base64}, as `payload_type` says; without a type it has none."""

    seq_nr: SeqNr
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    payload_type: str | None = None
    tags: list[str] = []


class ExportHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A head behind the last Append of its journal. `events`: how many of them there are."""

    seq_nr: SeqNr
    delete_to: Count = 0
    events: Count = 0
    updated: str | int | None = None
    expire_after: str | None = None


class ExportEnd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much was exported."""

    journals: Count
    events: Count


class ExportLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A line of an export: `format` and `topic`; or the journal `id` with the `events` of an Append, or with its `head`; or the `end`.

    `previous`: the number before these events in the export. `deleted`: in the first Append of a journal, the number up to which its events
    were deleted, and when the journal was created: a target that was imported before, and has some of them, goes on behind.
    """

    format: str | None = None
    topic: str | None = None
    id: str | None = None
    previous: Count = 0
    deleted: Count = 0
    created: str | int | None = None
    timestamp: str | int | None = None
    origin: str | None = None
    version: str | None = None
    expire_after: str | None = None
    metadata: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    header_metadata: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    headers: dict[str, str] = {}
    events: list[ExportEvent] = []
    head: ExportHead | None = None
    end: ExportEnd | None = None


_decode = msgspec.json.Decoder(ExportLine).decode


def read_export_line(text: bytes, number: int) -> ExportLine:
    """A line. Errors: `BadInput` with its number."""
    try:
        line = _decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        bad = json.unreadable(error, ExportLine.__struct_fields__, forms="Import what `headwater journal export` has written.")
        raise BadInput(f"Line {number}: {bad.message}", hint=bad.hint) from None
    if line.format not in (None, FORMAT):
        raise BadInput(
            f"Line {number}: the format {line.format!r:.40} is not known here.", hint="Import it with the headwater that wrote it."
        )
    if line.id is None and (line.events or line.head):
        raise BadInput(f"Line {number} names no journal.", hint='It needs "id".')
    if line.id is not None and bool(line.events) == (line.head is not None):
        raise BadInput(f"Line {number} has neither events nor a head, or both.", hint="Import what `headwater journal export` has written.")
    return line


def append_lines(id: str, rows: Sequence[EventRow], previous: int) -> Iterator[ExportLine]:
    """The lines of consecutive events of a journal, one for each Append. `previous`: the number before them."""
    for _, group in groupby(rows, key=lambda row: (row.partition, row.offset)):
        together = list(group)
        first = together[0]
        metadata = None if first.metadata == EMPTY_COLUMN else read_metadata_column(first.metadata)
        yield ExportLine(
            id=id,
            previous=previous,
            timestamp=show_time(first.timestamp),
            origin=first.origin,
            version=first.version,
            expire_after=None if metadata is None else _duration(metadata.payload.expire_after),
            metadata=_raw(None if metadata is None else metadata.payload.data),
            header_metadata=_raw(None if metadata is None else metadata.header),
            headers=dict(first.headers),
            events=[_event(row) for row in together],
        )
        previous = together[-1].seq_nr


def head_line(id: str, head: Head, events: int) -> ExportLine:
    """The line of a journal's head."""
    shown = ExportHead(
        seq_nr=head.last,
        delete_to=head.deleted,
        events=events,
        updated=show_time(head.updated),
        expire_after=_duration(head.expire_after),
    )
    return ExportLine(id=id, head=shown)


class ImportedAppend(AppendDraft):
    """An Append as it was in another topic: with its numbers, its time, its origin."""

    def __init__(self, id: str, line: ExportLine, events: Sequence[NumberedEvent]) -> None:
        self.id, self.key, self.count = id, key_of(id), len(events)
        self.first, self.last = events[0].seq_nr, events[-1].seq_nr
        self.events = events
        self._numbers = [event.seq_nr for event in events]
        about = PayloadMetadata(
            None if line.expire_after is None else int(Duration.parse(line.expire_after)), _given(line.metadata, "metadata")
        )
        self._about = about
        kind, self._body = encode_events(list(events), about)
        self._action = Append(self.first, self.last, kind, line.origin, line.version, _given(line.header_metadata, "header_metadata"))
        self._users = tuple(line.headers.items())
        self.timestamp = 0 if line.timestamp is None else read_time(line.timestamp)
        self.size = len(self._body) + len(self.key) + 400 + sum(2 * len(name) + 4 * len(value) for name, value in self._users)
        self.record(self.first, b"")  # its errors, before anything is written

    def record(self, first: int, ending: bytes, own: tuple[Header, ...] = ()) -> Record:
        timestamp = self.timestamp or None
        return write_record(self.id, self._action, value=self._body, headers=self._users, own=own, timestamp=timestamp)

    def sealed(self, entity: EntityCipher, own: tuple[Header, ...] = ()) -> Record:
        """The record for an encrypted topic: each payload in an envelope, everything else as it was."""
        events = [
            event if event.payload is None else msgspec.structs.replace(event, payload=entity.seal(event.payload, event.seq_nr))
            for event in self.events
        ]
        action = msgspec.structs.replace(self._action, payload_type="binary")
        body = encode_binary_body(events, self._about)
        return write_record(self.id, action, value=body, headers=self._users, own=own, timestamp=self.timestamp or None)

    def digest(self, expected: int | None) -> str:
        raise NotImplementedError("An imported Append has no idempotency key: its numbers are one.")


def imported_append(line: ExportLine, number: int) -> ImportedAppend:
    """The Append of a line. Errors: `BadInput` with the line's number."""
    assert line.id is not None
    try:
        events = [NumberedEvent(check_seq_nr(event.seq_nr), _payload(event), tuple(event.tags)) for event in line.events]
        if any(event.seq_nr >= following.seq_nr for event, following in pairwise(events)) or line.previous >= events[0].seq_nr:
            raise BadInput("The numbers of its events do not ascend.", hint="Import what `headwater journal export` has written.")
        for time in (line.timestamp, line.created):
            if time is not None and read_time(time) < 0:
                raise BadInput(f"{time} is no time of an Append.", hint="Give ISO 8601, or milliseconds since 1970.")
        return ImportedAppend(line.id, line, events)
    except BadInput as error:
        raise BadInput(f"Line {number}: {error.message}", hint=error.hint) from None


def deleted_append(line: ExportLine, number: int) -> ImportedAppend:
    """The Append that gives a journal without events its last number: one event without a payload, which is to be deleted then."""
    assert line.head is not None
    head = line.head
    filled = msgspec.structs.replace(line, timestamp=head.updated, expire_after=head.expire_after, events=[ExportEvent(seq_nr=head.seq_nr)])
    return imported_append(filled, number)


def same_events(line: ExportLine, draft: ImportedAppend, rows: Sequence[EventRow]) -> bool:
    """Whether stored events are those of a line."""
    lines = list(append_lines(line.id or "", rows, line.previous))
    return [_content(stored_line) for stored_line in lines] == [_content(line)] and len(rows) == draft.count


def _content(line: ExportLine) -> tuple[Any, ...]:
    return (
        None if line.timestamp is None else read_time(line.timestamp),
        line.origin,
        line.version,
        _milliseconds(line.expire_after),
        _given(line.metadata, "metadata"),
        _given(line.header_metadata, "header_metadata"),
        sorted(line.headers.items()),
        [(event.seq_nr, _payload(event), sorted(event.tags)) for event in line.events],
    )


def _event(row: EventRow) -> ExportEvent:
    payload = row.payload
    if payload is None:
        return ExportEvent(seq_nr=row.seq_nr, tags=list(row.tags))
    return ExportEvent(
        seq_nr=row.seq_nr,
        payload=msgspec.Raw(json.encode(show_payload(payload))),
        payload_type=KIND_NAMES[payload.kind],
        tags=list(row.tags),
    )


def _payload(event: ExportEvent) -> Payload | None:
    """Errors: `BadInput`."""
    if event.payload_type is None:
        if event.payload is not msgspec.UNSET:
            raise BadInput(f"Event {event.seq_nr} has a payload without a type.", hint=f'Add "payload_type": one of {", ".join(_KINDS)}.')
        return None
    kind = _KINDS.get(event.payload_type)
    if kind is None or event.payload is msgspec.UNSET:
        raise BadInput(
            f"Event {event.seq_nr} has no payload of the type {event.payload_type!r:.40}.", hint=f"Types are {', '.join(_KINDS)}."
        )
    text = bytes(event.payload)
    if kind is PayloadKind.JSON:
        return Payload(kind, check_json(text, f"payload of event {event.seq_nr}"))
    value = msgspec.json.decode(text)
    if kind is PayloadKind.BINARY:
        return payload_of(binary_of(value))
    if not isinstance(value, str):
        raise BadInput(f"The payload of event {event.seq_nr} is no text.", hint="Give a text, or another payload_type.")
    return Payload(kind, value.encode())


def _given(raw: msgspec.Raw | msgspec.UnsetType, name: str) -> bytes | None:
    return None if raw is msgspec.UNSET else check_json(bytes(raw), name)


def _raw(data: bytes | None) -> msgspec.Raw | msgspec.UnsetType:
    return msgspec.UNSET if data is None else msgspec.Raw(one_line(data))


def _duration(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else str(Duration(milliseconds))


def _milliseconds(duration: str | None) -> int | None:
    return None if duration is None else int(Duration.parse(duration))

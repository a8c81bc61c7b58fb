"""The binary body of an Append, for events of which one or more have a binary payload. Big-endian:

    version 1 | count 4 | per event: size 4 | sequence number 8 | size of the tags 4 | tags | kind 1 | size of the payload 4 | payload
    a tag: length 4 | UTF-8

Behind the events of version 1 stands the metadata, as JSON. Every other version is read as version 0, which has none.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from headwater.core.errors import BadInput, TooLarge
from headwater.journal.action import Events, PayloadMetadata
from headwater.journal.event import MAX_SEQ_NR, NumberedEvent, Payload, PayloadKind
from headwater.journal.json_text import check_json, json_problem
from headwater.journal.metadata import NO_METADATA, payload_metadata_json, read_payload_metadata
from headwater.journal.unreadable import unreadable

_BEGINNING = struct.Struct(">Bi")  # version, count
_I32 = struct.Struct(">i")
_EVENT = struct.Struct(">iqi")  # size, sequence number, size of the tags
_PAYLOAD = struct.Struct(">Bi")  # kind, size
_SMALLEST = _EVENT.size + _PAYLOAD.size
_KINDS = {int(kind): kind for kind in PayloadKind}


def encode_binary_body(events: Sequence[NumberedEvent], metadata: PayloadMetadata) -> bytes:
    """The body, of version 1. Errors: `BadInput` for payloads that are not what they say, `TooLarge` above 2 GiB."""
    parts = [_BEGINNING.pack(1, len(events))]
    try:
        for event in events:
            tags = b"".join([_I32.pack(len(tag)) + tag for tag in map(str.encode, event.tags)]) if event.tags else b""
            kind, data = _payload(event)
            parts += (_EVENT.pack(17 + len(tags) + len(data), event.seq_nr, len(tags)), tags, _PAYLOAD.pack(kind, len(data)), data)
    except UnicodeError as error:
        raise BadInput(f"Event {event.seq_nr} holds text that is no UTF-8: {error}.", hint="Give bytes for what is no text.") from None
    except struct.error:
        raise TooLarge(f"Event {event.seq_nr} is larger than 2 GiB.", hint="Store it elsewhere and append its address.") from None
    parts.append(payload_metadata_json(metadata))
    return b"".join(parts)


def _payload(event: NumberedEvent) -> tuple[int, bytes]:
    payload = event.payload
    if payload is None:
        return 0, b""
    if payload.kind is PayloadKind.JSON:
        return 2, check_json(payload.data, "payload")
    if payload.kind is PayloadKind.TEXT:
        payload.data.decode()
    return int(payload.kind), payload.data


def binary_events(body: bytes) -> Events:
    """The events of a body. Errors: `UnreadableRecord`. Allocates in proportion to the body, whatever count and sizes it claims."""
    version, count = _beginning(body)
    events, at = [], _BEGINNING.size
    for _ in range(count):
        event, at = _decoded(body, at)
        events.append(event)
    return Events(tuple(events), read_payload_metadata(body[at:]) if version == 1 else NO_METADATA)


def _beginning(body: bytes) -> tuple[int, int]:
    """Version and count."""
    if len(body) < _BEGINNING.size:
        raise unreadable(f"The binary body of {len(body)} bytes is cut off.")
    version, count = _BEGINNING.unpack_from(body)
    if count < 1:
        raise unreadable(f"The binary body holds {count} events.")
    if count > (len(body) - _BEGINNING.size) // _SMALLEST:
        raise unreadable(f"The binary body of {len(body)} bytes is too short for the {count} events that it claims to hold.")
    return version, count


def _decoded(body: bytes, at: int) -> tuple[NumberedEvent, int]:
    """The event at a place of the body, and the place behind it."""
    if at + _EVENT.size > len(body):
        raise unreadable(f"The binary body ends at byte {len(body)}, inside of an event.")
    size, seq_nr, tags_size = _EVENT.unpack_from(body, at)
    end, at = at + 4 + size, at + _EVENT.size
    if not 1 <= seq_nr <= MAX_SEQ_NR:
        raise unreadable(f"{seq_nr} is no sequence number.")
    if tags_size < 0 or end > len(body) or at + tags_size + _PAYLOAD.size > end:
        raise unreadable(f"Event {seq_nr} of a binary body has sizes that do not fit: {size} for it, {tags_size} for its tags.")
    tags = _tags(body, at, at + tags_size, seq_nr) if tags_size else ()
    at += tags_size
    kind, length = _PAYLOAD.unpack_from(body, at)
    at += _PAYLOAD.size
    if length < 0 or at + length > end:
        raise unreadable(f"Event {seq_nr} of a binary body has a payload whose size {length} does not fit.")
    return NumberedEvent(seq_nr, _payload_of(kind, body[at : at + length], seq_nr) if kind else None, tags), end


def _payload_of(kind: int, data: bytes, seq_nr: int) -> Payload:
    payload_kind = _KINDS.get(kind)
    if payload_kind is None:
        raise unreadable(f"Event {seq_nr} has a payload of the unknown kind {kind}.")
    if payload_kind is PayloadKind.JSON:
        problem = json_problem(data)
        if problem:
            raise unreadable(f"Event {seq_nr} has a payload that is no JSON: {problem}.")
    elif payload_kind is PayloadKind.TEXT and not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise unreadable(f"Event {seq_nr} has a payload of the type text that is no UTF-8: {error}.") from error
    return Payload(payload_kind, data)


def _tags(body: bytes, at: int, end: int, seq_nr: int) -> tuple[str, ...]:
    tags = []
    while at < end:
        length = _I32.unpack_from(body, at)[0] if at + 4 <= end else -1
        at += 4
        if length < 0 or at + length > end:
            raise unreadable(f"Event {seq_nr} of a binary body has tags whose sizes do not fit.")
        try:
            tags.append(body[at : at + length].decode())
        except UnicodeDecodeError as error:
            raise unreadable(f"Event {seq_nr} has a tag that is no UTF-8: {error}.") from error
        at += length
    return tuple(tags)


def binary_expire_after(body: bytes) -> int | None:
    """The duration in a body's metadata, in milliseconds; the events are stepped over. Errors: `UnreadableRecord`."""
    version, count = _beginning(body)
    if version != 1 or body.endswith(b"{}"):
        return None
    at = _BEGINNING.size
    for _ in range(count):
        size = _I32.unpack_from(body, at)[0] if at + 4 <= len(body) else -1
        at += 4 + size
        if size < 0 or at > len(body):
            raise unreadable(f"The binary body of {len(body)} bytes ends inside of an event.")
    return read_payload_metadata(body[at:]).expire_after

"""The JSON body of an Append: `{"events":[{"seqNr":1,"tags":[],"payloadType":"json","payload":…}],"metadata":{}}`.

A payload's JSON is written and read as it is, byte for byte. A payload of JSON null is written as null; an event without a payload has
neither field.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from headwater.core.errors import BadInput
from headwater.journal.action import Events, PayloadMetadata
from headwater.journal.event import NumberedEvent, Payload, PayloadKind, SeqNr
from headwater.journal.json_text import check_json
from headwater.journal.metadata import PayloadMetadataJson, payload_metadata_json, payload_metadata_of
from headwater.journal.unreadable import unreadable


class EventJson(msgspec.Struct, gc=False, rename={"seq_nr": "seqNr", "payload_type": "payloadType"}):
    """The JSON of an event."""

    seq_nr: SeqNr
    tags: tuple[str, ...] = ()
    payload_type: str | None = None
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class BodyJson(msgspec.Struct, gc=False):
    """The JSON of a body."""

    events: Annotated[list[EventJson], msgspec.Meta(min_length=1)]
    metadata: PayloadMetadataJson | None = None


class _MetadataAlone(msgspec.Struct, gc=False):
    metadata: PayloadMetadataJson | None = None


_BODY = msgspec.json.Decoder(BodyJson)
_METADATA = msgspec.json.Decoder(_MetadataAlone)
_TEXT = msgspec.json.Decoder(str | None)
_encode = msgspec.json.Encoder().encode
_JSON, _PLAIN_TEXT = PayloadKind.JSON, PayloadKind.TEXT  # looked up once: members of an enum are slow to find


def encode_json_body(events: Sequence[NumberedEvent], metadata: PayloadMetadata) -> bytes:
    """The body. Errors: `BadInput` for payloads that are no JSON or no text, and for tags that are no text."""
    return b'{"events":[%b],"metadata":%b}' % (b",".join(map(_event, events)), payload_metadata_json(metadata))


def _event(event: NumberedEvent) -> bytes:
    try:
        tags = _encode(event.tags) if event.tags else b"[]"
        payload = event.payload
        if payload is None:
            return b'{"seqNr":%d,"tags":%b}' % (event.seq_nr, tags)
        if payload.kind is _JSON:
            return b'{"seqNr":%d,"tags":%b,"payloadType":"json","payload":%b}' % (event.seq_nr, tags, check_json(payload.data, "payload"))
        return b'{"seqNr":%d,"tags":%b,"payloadType":"text","payload":%b}' % (event.seq_nr, tags, _encode(payload.data.decode()))
    except UnicodeError as error:
        raise BadInput(f"Event {event.seq_nr} holds text that is no UTF-8: {error}.", hint="Give bytes for what is no text.") from None


def decode_json_body(body: bytes) -> BodyJson:
    """The events and the metadata as their JSON says. Errors: `UnreadableRecord`."""
    try:
        if not body.isascii():
            body.decode()  # the parser lets wrong bytes inside of payloads pass
        return _BODY.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(f"The body is no JSON of events: {error}.") from error


def json_events(body: bytes) -> Events:
    """The events of a body. Errors: `UnreadableRecord`."""
    form = decode_json_body(body)
    return Events(
        tuple([NumberedEvent(event.seq_nr, payload_of(event), event.tags) for event in form.events]), payload_metadata_of(form.metadata)
    )


def payload_of(event: EventJson) -> Payload | None:
    """The payload of an event; None: it has none. Errors: `UnreadableRecord`."""
    raw = event.payload
    if raw is msgspec.UNSET:
        return None
    if event.payload_type == "json" or event.payload_type is None:
        return Payload(_JSON, bytes(raw))
    if event.payload_type != "text":
        raise unreadable(f"Event {event.seq_nr} has a payload of the unknown type {event.payload_type[:40]!r}.")
    try:
        text = _TEXT.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(f"Event {event.seq_nr} has a payload of the type text that is none: {error}.") from error
    return None if text is None else Payload(_PLAIN_TEXT, text.encode())


def json_expire_after(body: bytes) -> int | None:
    """The duration in a body's metadata, in milliseconds; the events are not decoded. Errors: `UnreadableRecord`."""
    if body.endswith(b',"metadata":{}}'):  # as writers without metadata end it; a comma stands before no quote that ends a text
        return None
    try:
        form = _METADATA.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(f"The body is no JSON of events: {error}.") from error
    return payload_metadata_of(form.metadata).expire_after

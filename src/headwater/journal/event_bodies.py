"""The bodies of Appends: events and metadata as bytes, JSON or binary."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.core.errors import BadInput
from headwater.journal.action import Events, PayloadMetadata
from headwater.journal.binary_body import binary_events, binary_expire_after, encode_binary_body
from headwater.journal.event import MAX_SEQ_NR, NumberedEvent, PayloadKind, check_seq_nr
from headwater.journal.json_body import encode_json_body, json_events, json_expire_after
from headwater.journal.metadata import NO_METADATA
from headwater.journal.unreadable import unreadable

_BINARY = PayloadKind.BINARY


def encode_events(events: Sequence[NumberedEvent], metadata: PayloadMetadata = NO_METADATA) -> tuple[str, bytes]:
    """The payload type, "json" or "binary", and the body. Binary where one payload or more is.

    What this returns, `decode_events` gives back. Errors: `BadInput` for no events, for numbers out of range, for payloads, tags and
    metadata that are not what they say.
    """
    if not events:
        raise BadInput("An append needs one event or more.", hint="Give the events, such as append({'type': 'opened'}).")
    binary = False
    for event in events:
        if type(event.seq_nr) is not int or not 1 <= event.seq_nr <= MAX_SEQ_NR:
            check_seq_nr(event.seq_nr)
        if event.payload is not None and event.payload.kind is _BINARY:
            binary = True
    return ("binary", encode_binary_body(events, metadata)) if binary else ("json", encode_json_body(events, metadata))


def decode_events(payload_type: str, body: bytes) -> Events:
    """The events and the metadata of a body. Errors: `UnreadableRecord`."""
    if payload_type == "json":
        return json_events(body)
    if payload_type == "binary":
        return binary_events(body)
    raise unreadable(f"{payload_type[:40]!r} is no type of bodies.")


def expire_after_of(payload_type: str, body: bytes) -> int | None:
    """Milliseconds after which the Append lets its journal expire; None: it says nothing.

    Events are not decoded, so that a body whose events are damaged may pass. Errors: `UnreadableRecord` for what it does look at.
    """
    if payload_type == "json":
        return json_expire_after(body)
    if payload_type == "binary":
        return binary_expire_after(body)
    raise unreadable(f"{payload_type[:40]!r} is no type of bodies.")

"""Actions: what the records of a journal's topic do. One record is one action on one journal."""

from __future__ import annotations

import msgspec

from headwater.journal.event import NumberedEvent


class Append(msgspec.Struct, frozen=True, gc=False):
    """Adds the events `first` to `last`. The record's value holds them, as `payload_type` says: "json" or "binary"."""

    first: int
    last: int
    payload_type: str = "json"
    origin: str | None = None
    version: str | None = None
    metadata: bytes | None = None
    """JSON that the user gave for the header; None: nothing."""


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Removes the events up to `to`."""

    to: int
    origin: str | None = None
    version: str | None = None


class Purge(msgspec.Struct, frozen=True, gc=False):
    """Removes the journal. One that is appended to later begins anew."""

    origin: str | None = None
    version: str | None = None


class Mark(msgspec.Struct, frozen=True, gc=False):
    """Changes nothing. Whoever has read it has read everything before it."""

    id: str
    origin: str | None = None
    version: str | None = None


Action = Append | Delete | Purge | Mark


class ActionRecord(msgspec.Struct, frozen=True, gc=False):
    """A record of the log as an action. `headers`: the user's. `value`: the events of an Append, encoded; None for the others."""

    id: str
    action: Action
    offset: int
    timestamp: int  # milliseconds since 1970, UTC
    headers: tuple[tuple[str, str], ...] = ()
    value: bytes | None = None


class PayloadMetadata(msgspec.Struct, frozen=True, gc=False):
    """What the body of an Append says beside its events. `data`: JSON that the user gave; None: nothing."""

    expire_after: int | None = None  # milliseconds
    data: bytes | None = None


class Events(msgspec.Struct, frozen=True, gc=False):
    """The body of an Append: one event or more."""

    events: tuple[NumberedEvent, ...]
    metadata: PayloadMetadata = PayloadMetadata()

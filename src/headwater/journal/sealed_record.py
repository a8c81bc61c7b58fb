"""The record of an Append whose payloads are encrypted: a binary body with an envelope for each payload. Everything else stays clear."""

from __future__ import annotations

import struct

import msgspec

from headwater.journal.action import Append
from headwater.journal.append_draft import AppendDraft, PlainDraft
from headwater.journal.binary_body import encode_binary_body
from headwater.journal.envelope import EntityCipher
from headwater.journal.event import RESERVED, NumberedEvent, PayloadKind
from headwater.journal.exported import ImportedAppend
from headwater.journal.wire import write_record
from headwater.log.record import Header, Record

_ONE = struct.Struct(">BiiqiBi")  # version, count, size of the event, number, size of its tags, kind of its payload, size of it
_JSON = int(PayloadKind.JSON)
_text = msgspec.json.Encoder().encode


def sealed_ending(origin: str | None, version: str | None) -> bytes:
    """What follows the range in the header of an Append with a binary body and without metadata."""
    by = b"" if origin is None else b',"origin":' + _text(origin)
    by += b"" if version is None else b',"version":' + _text(version)
    return by + b',"payloadType":"binary","metadata":{}}}'


def sealed_record(
    draft: PlainDraft | AppendDraft,
    entity: EntityCipher,
    first: int,
    *,
    by: tuple[str | None, str | None],
    ending: bytes,
    own: tuple[Header, ...] = (),
) -> Record:
    """The record with the events numbered from `first` on, or as they were given, each payload sealed for its number.

    Made anew whenever the numbers change: a payload that was sealed for another number is not opened. `ending`: `sealed_ending(*by)`.
    Errors: as `AppendDraft.record`.
    """
    if type(draft) is PlainDraft:
        data = entity.sealed(_JSON, draft.payload(), first)
        action = b'{"append":{"range":{"from":%d,"to":%d}%b' % (first, first, ending)
        size = len(data)
        body = b"%b%b{}" % (_ONE.pack(1, 1, 17 + size, first, 0, 1, size), data)
        return Record(draft.key, body, ((RESERVED, action), *own))
    if isinstance(draft, ImportedAppend):
        return draft.sealed(entity, own)
    assert isinstance(draft, AppendDraft)
    numbers = draft.numbers(first)
    metadata, header, users = draft.about()
    events = [
        NumberedEvent(number, entity.seal(payload, number), tags) for number, (payload, tags) in zip(numbers, draft.payloads(), strict=True)
    ]
    append = Append(numbers[0], numbers[-1], "binary", *by, header)
    return write_record(draft.id, append, value=encode_binary_body(events, metadata), headers=users, own=own)

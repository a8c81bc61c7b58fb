"""Actions as records of the log, byte for byte as kafka-journal writes and reads them.

The key is the journal's id. The header `journal.action` says what the record does, as JSON; the value of an Append holds its events
(`event_bodies`); all other headers are the user's, as UTF-8. Headers whose names begin with `headwater.` are the log's or ours: users
can neither set nor see them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from headwater.core.errors import BadInput, UnreadableRecord
from headwater.journal.action import Action, ActionRecord, Append, Delete, Mark, Purge
from headwater.journal.event import MAX_SEQ_NR, OWN_HEADERS, RESERVED, SeqNr, check_seq_nr
from headwater.journal.metadata import HeaderMetadataJson, given_data, header_metadata_json
from headwater.journal.names import key_of
from headwater.journal.unreadable import at_offset, unreadable
from headwater.log.record import Header, Record


class _Range(msgspec.Struct, gc=False, rename={"first": "from", "last": "to"}):
    first: SeqNr
    last: SeqNr


class _Append(msgspec.Struct, gc=False, rename={"payload_type": "payloadType"}):
    range: _Range
    payload_type: Literal["json", "binary"]
    origin: str | None = None
    version: str | None = None
    metadata: HeaderMetadataJson | None = None


class _LooseAppend(msgspec.Struct, gc=False, rename={"payload_type": "payloadType"}):
    """An Append whose `metadata` is no object: older writers left it out or wrote something else."""

    range: _Range
    payload_type: Literal["json", "binary"]
    origin: str | None = None
    version: str | None = None
    metadata: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Delete(msgspec.Struct, gc=False):
    to: SeqNr
    origin: str | None = None
    version: str | None = None


class _Purge(msgspec.Struct, gc=False):
    origin: str | None = None
    version: str | None = None


class _Mark(msgspec.Struct, gc=False):
    id: str
    origin: str | None = None
    version: str | None = None


class _Header(msgspec.Struct, gc=False):
    append: _Append | msgspec.UnsetType = msgspec.UNSET
    mark: _Mark | msgspec.UnsetType = msgspec.UNSET
    delete: _Delete | msgspec.UnsetType = msgspec.UNSET
    purge: _Purge | msgspec.UnsetType = msgspec.UNSET


_HEADER = msgspec.json.Decoder(_Header)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_APPEND = msgspec.json.Decoder(_Append)
_LOOSE_APPEND = msgspec.json.Decoder(_LooseAppend)
_OTHERS: tuple[tuple[str, msgspec.json.Decoder[_Mark] | msgspec.json.Decoder[_Delete] | msgspec.json.Decoder[_Purge]], ...] = (
    ("mark", msgspec.json.Decoder(_Mark)),
    ("delete", msgspec.json.Decoder(_Delete)),
    ("purge", msgspec.json.Decoder(_Purge)),
)
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_encode = msgspec.json.Encoder().encode


def read_record(record: Record) -> ActionRecord | None:
    """The action of a record; None: it is none of ours, and readers pass over it.

    Passed over are records without key or timestamp, without the header `journal.action`, with an action of an unknown name, and
    Appends without a value. Of headers with one name the last one counts, of `journal.action` the first. The value is not decoded.
    Errors: `UnreadableRecord`, with the offset, for a header of an action or a key that cannot be decoded.
    """
    key, timestamp, offset = record.key, record.timestamp, -1 if record.offset is None else record.offset
    if key is None or timestamp is None or timestamp < 0:
        return None
    header, users = split_headers(record.headers)
    if header is None:
        return None
    try:
        action = read_action(header)
        if action is None:
            return None
        id = read_id(key)
    except UnreadableRecord as error:
        raise at_offset(error, offset) from error
    if type(action) is Append:
        return None if record.value is None else ActionRecord(id, action, offset, timestamp, users, record.value)
    return ActionRecord(id, action, offset, timestamp, users)


def split_headers(headers: Sequence[Header]) -> tuple[bytes | None, tuple[tuple[str, str], ...]]:
    """The header of the action, None where there is none, and the user's headers."""
    if len(headers) == 1 and headers[0][0] == RESERVED:
        return headers[0][1] or b"", ()
    action: bytes | None = None
    users: dict[str, str] = {}
    for name, value in headers:
        if name == RESERVED:
            action = (value or b"") if action is None else action
        elif not name.startswith(OWN_HEADERS):
            users.pop(name, None)
            users[name] = "" if value is None else value.decode(errors="replace")
    return action, tuple(users.items())


def read_id(key: bytes) -> str:
    """The id of a journal from the key of its records. Errors: `UnreadableRecord`."""
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise unreadable(f"Its key {key[:40]!r} is no UTF-8.") from error


def read_action(header: bytes) -> Action | None:
    """The action that a header `journal.action` says; None: one of an unknown name. Errors: `UnreadableRecord`."""
    try:
        if not header.isascii():
            header.decode()
        form = _HEADER.decode(header)
    except msgspec.ValidationError:
        return _loosely_read(header)
    except _UNREADABLE as error:
        raise unreadable(f"Its header journal.action is no JSON: {error}.") from error
    append = form.append
    if append is not msgspec.UNSET:
        bounds, metadata = append.range, append.metadata
        if bounds.first > bounds.last:
            raise unreadable(f"Its header journal.action has the range {bounds.first} to {bounds.last}.")
        data = None if metadata is None else given_data(metadata.data)
        return Append(bounds.first, bounds.last, append.payload_type, append.origin, append.version, data)
    for other in (form.mark, form.delete, form.purge):
        if other is not msgspec.UNSET:
            return _action(other)
    return None


def _action(form: _Mark | _Delete | _Purge) -> Action:
    if type(form) is _Mark:
        return Mark(form.id, form.origin, form.version)
    if type(form) is _Delete:
        return Delete(form.to, form.origin, form.version)
    return Purge(form.origin, form.version)


def _loosely_read(header: bytes) -> Action | None:
    """What kafka-journal makes of a header whose JSON has other fields or types than ours."""
    try:
        fields = _FIELDS.decode(header)
    except msgspec.ValidationError:
        return None  # no object, so it has no name that we know
    except _UNREADABLE as error:
        raise unreadable(f"Its header journal.action is no JSON: {error}.") from error
    try:
        if _is_object(fields.get("append")):
            return _loose_append(fields["append"])
        for name, decoder in _OTHERS:
            if _is_object(fields.get(name)):
                return _action(decoder.decode(fields[name]))
    except _UNREADABLE as error:
        raise unreadable(f"Its header journal.action has fields that do not fit: {error}.") from error
    return None


def _is_object(raw: msgspec.Raw | msgspec.UnsetType | None) -> bool:
    return isinstance(raw, msgspec.Raw) and bytes(raw).lstrip()[:1] == b"{"


def _loose_append(raw: msgspec.Raw) -> Append:
    append = _LOOSE_APPEND.decode(raw)
    if _is_object(append.metadata):
        _APPEND.decode(raw)  # tells what is wrong with it
    first, last = append.range.first, append.range.last
    if first > last:
        raise unreadable(f"Its header journal.action has the range {first} to {last}.")
    return Append(first, last, append.payload_type, append.origin, append.version)


def write_record(
    id: str,
    action: Action,
    *,
    value: bytes | None = None,
    headers: Iterable[tuple[str, str]] = (),
    own: Sequence[Header] = (),
    timestamp: int | None = None,
) -> Record:
    """The record of an action. `value`: the events of an Append. `headers`: the user's. `own`: headers of ours, named `headwater.…`.

    Errors: `BadInput` for an id, a number, a range or a header that cannot be kept, for an Append without a value, and for a value of
    another action.
    """
    if (value is not None) is not (type(action) is Append):
        raise BadInput(f"The value of {type(action).__name__} is wrong: an Append has one, others have none.", hint="Use `encode_events`.")
    written: tuple[Header, ...] = ((RESERVED, write_action(action)),)
    users = tuple(headers)
    if users:
        written += _user_headers(users)
    if own:
        written += tuple(own)
    return Record(key_of(id), value, written, timestamp)


def _user_headers(headers: tuple[tuple[str, str], ...]) -> tuple[Header, ...]:
    written: dict[str, bytes] = {}
    for name, value in headers:
        if not isinstance(name, str) or not isinstance(value, str):
            raise BadInput(f"The header {name!r:.40} with {value!r:.40} is no text.", hint="Give names and values as text.")
        if name == RESERVED or name.startswith(OWN_HEADERS):
            raise BadInput(f"The header {name[:60]} is reserved.", hint=f"Use another name than {RESERVED} and {OWN_HEADERS}….")
        if name in written:
            raise BadInput(f"The header {name[:60]} is given twice; readers would see the last one alone.", hint="Give each name once.")
        try:
            written[name] = value.encode()
            name.encode()
        except UnicodeEncodeError:
            raise BadInput(f"The header {name!r:.60} holds half of a character.", hint="Give whole characters.") from None
    return tuple(written.items())


def write_action(action: Action) -> bytes:
    """The header `journal.action`. Errors: `BadInput` for numbers out of range and for text or metadata that cannot be kept."""
    try:
        if type(action) is Append:
            first, last = action.first, action.last
            if not 1 <= first <= last <= MAX_SEQ_NR:
                raise BadInput(f"{first!r:.40} to {last!r:.40} is no range of events.", hint="Give from 1 to 2^63 - 1, the lower first.")
            ending = _append_ending(action.payload_type, action.origin, action.version)
            return b'{"append":{"range":{"from":%d,"to":%d}%b%b}}' % (first, last, ending, header_metadata_json(action.metadata))
        by = _by(action.origin, action.version)
        if type(action) is Delete:
            return b'{"delete":{"to":%d%b}}' % (check_seq_nr(action.to), by)
        if type(action) is Mark:
            return b'{"mark":{"id":%b%b}}' % (_encode(action.id), by)
        return b'{"purge":{%b}}' % by[1:]
    except UnicodeEncodeError:
        raise BadInput(f"{action!r:.80} holds half of a character.", hint="Give whole characters.") from None


@lru_cache(maxsize=64)  # a process writes with one origin and one version
def _append_ending(payload_type: str, origin: str | None, version: str | None) -> bytes:
    if payload_type not in ("json", "binary"):
        raise BadInput(f"{payload_type!r:.40} is no type of bodies.", hint="Take the one that `encode_events` gives.")
    return b'%b,"payloadType":"%b","metadata":' % (_by(origin, version), payload_type.encode())


def _by(origin: str | None, version: str | None) -> bytes:
    """The fields for who wrote it, each behind a comma."""
    by = b"" if origin is None else b',"origin":' + _encode(origin)
    return by if version is None else by + b',"version":' + _encode(version)

"""An Append before its events are numbered: checked and encoded as far as that goes without the numbers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from headwater.core.errors import BadInput
from headwater.core.units import Duration
from headwater.journal.action import Append, PayloadMetadata
from headwater.journal.envelope import MARK
from headwater.journal.event import MAX_SEQ_NR, RESERVED, Event, NumberedEvent, Payload, PayloadKind, check_seq_nr
from headwater.journal.event_bodies import encode_events
from headwater.journal.expire_after import check_expire_after
from headwater.journal.json_body import EventJson
from headwater.journal.json_body import payload_of as written_payload
from headwater.journal.json_text import check_json
from headwater.journal.names import key_of
from headwater.journal.wire import write_record
from headwater.log.record import Header, Record
from headwater.wire import json

_TEXT = msgspec.json.Encoder().encode
_EVENT = msgspec.json.Decoder(EventJson)
_OTHERS = (str, bytes, bytearray, memoryview, Event)  # payloads that are no JSON, and events of their own
_MOST_EVENTS = 100_000  # of one Append
_DEEP = 512  # bytes of JSON below which nothing is nested too deep to be read again


class AppendDraft:
    """The events of one Append. `first`: the number of the first event; 0 lets the writer number them, from the last one on.

    `record` makes the record; it may be called again with another number.
    """

    __slots__ = ("_events", "_headers", "_json", "_metadata", "_numbers", "count", "first", "id", "key", "last", "size")

    def __init__(self, id: str, events: Sequence[Event], *, headers: Mapping[str, str] | None, metadata: _Metadata) -> None:
        self.id, self.key, self.count, self._metadata = id, key_of(id), len(events), metadata
        self._headers = () if not headers else _checked_headers(id, headers)
        self._numbers = _numbers(events)
        self.first, self.last = (self._numbers[0], self._numbers[-1]) if self._numbers else (0, 0)
        self._json: list[bytes] | None = None
        self._events: list[tuple[Payload, tuple[str, ...]]] = []
        if metadata is _NOTHING and not any(isinstance(event.payload, bytes | bytearray | memoryview) for event in events):
            self._json = [_ending(event) for event in events]
            self.size = len(self.key) + sum(map(len, self._json)) + 30 * self.count + 200
        else:
            self._events = [(payload_of(event.payload), _tags(event.tags)) for event in events]
            self.size = len(self.key) + sum(len(payload.data) + 60 + sum(map(len, tags)) for payload, tags in self._events) + 200
        if self._headers:
            self.size += sum(2 * len(name) + 4 * len(value) for name, value in self._headers)

    def record(self, first: int, ending: bytes, own: tuple[Header, ...] = ()) -> Record:
        """The record with the events numbered from `first` on, or as they were given. `ending`: of the header, as `header_ending` makes it.

        `own`: headers of ours.
        """
        endings = self._json
        if endings is None:
            return self._other_record(first, own)
        if self.count == 1:
            action = b'{"append":{"range":{"from":%d,"to":%d}%b' % (first, first, ending)
            return Record(self.key, b'{"events":[{"seqNr":%d%b],"metadata":{}}' % (first, endings[0]), ((RESERVED, action), *own))
        numbers = self._numbers or range(first, first + self.count)
        action = b'{"append":{"range":{"from":%d,"to":%d}%b' % (numbers[0], numbers[-1], ending)
        body = b",".join([b'{"seqNr":%d%b' % pair for pair in zip(numbers, endings, strict=True)])
        return Record(self.key, b'{"events":[%b],"metadata":{}}' % body, ((RESERVED, action), *own))

    def _other_record(self, first: int, own: tuple[Header, ...]) -> Record:
        numbers = self._numbers or range(first, first + self.count)
        metadata = self._metadata
        events = [NumberedEvent(number, payload, tags) for number, (payload, tags) in zip(numbers, self._events, strict=True)]
        kind, body = encode_events(events, metadata.payload)
        action = Append(numbers[0], numbers[-1], kind, metadata.origin, metadata.version, metadata.header)
        return write_record(self.id, action, value=body, headers=self._headers, own=own)

    def numbers(self, first: int) -> Sequence[int]:
        """The numbers of the events: those that they brought, or from `first` on."""
        return self._numbers or range(first, first + self.count)

    def payloads(self) -> list[tuple[Payload, tuple[str, ...]]]:
        """The payloads with their tags, for those who encrypt them."""
        if self._json is None:
            return self._events
        return [_read_ending(ending) for ending in self._json]

    def about(self) -> tuple[PayloadMetadata, bytes | None, tuple[tuple[str, str], ...]]:
        """The metadata of the body, that of the header, and the user's headers."""
        return self._metadata.payload, self._metadata.header, self._headers

    def digest(self, expected: int | None) -> str:
        """A hash of what is asked, for idempotency keys: two requests with one hash ask the same."""
        parts = self._json if self._json is not None else [b"%d" % p.kind + p.data + _TEXT(t) for p, t in self._events]
        hashed = blake2b(digest_size=16)
        metadata = self._metadata
        for part in (
            self.key,
            repr((expected, self._numbers, self._headers, metadata.payload, metadata.header)).encode(),
            *(b"%d:%b" % (len(part), part) for part in parts),
        ):
            hashed.update(part)
        return hashed.hexdigest()


class PlainDraft:
    """An Append of one event with a JSON payload and nothing else, which most are. As `AppendDraft`, in a fraction of its time."""

    __slots__ = ("_ending", "id", "key", "size")
    first = last = 0
    count = 1

    def __init__(self, id: str, payload: Any) -> None:
        self.id, self.key = id, key_of(id)
        self._ending = ending = b',"tags":[],"payloadType":"json","payload":%b}' % _json(payload, "payload")
        self.size = len(ending) + 400 + len(self.key)

    def record(self, first: int, ending: bytes, own: tuple[Header, ...] = ()) -> Record:
        action = b'{"append":{"range":{"from":%d,"to":%d}%b' % (first, first, ending)
        headers = ((RESERVED, action), *own) if own else ((RESERVED, action),)
        return Record(self.key, b'{"events":[{"seqNr":%d%b],"metadata":{}}' % (first, self._ending), headers)

    def payload(self) -> bytes:
        """The JSON of the payload, for those who encrypt it."""
        return self._ending[len(_PLAIN) : -1]

    def digest(self, expected: int | None) -> str:
        return AppendDraft(self.id, [Event(msgspec.Raw(self.payload()))], headers=None, metadata=_NOTHING).digest(expected)


_PLAIN = b',"tags":[],"payloadType":"json","payload":'


class _Metadata(msgspec.Struct, frozen=True):
    payload: PayloadMetadata = PayloadMetadata()
    header: bytes | None = None
    origin: str | None = None
    version: str | None = None


_NOTHING = _Metadata()


def header_ending(origin: str | None, version: str | None) -> bytes:
    """What follows the range in the header of an Append with a JSON body and without metadata."""
    by = b"" if origin is None else b',"origin":' + _TEXT(origin)
    by += b"" if version is None else b',"version":' + _TEXT(version)
    return by + b',"payloadType":"json","metadata":{}}}'


def plain_draft(id: str, payload: Any, by: tuple[str | None, str | None] = (None, None)) -> PlainDraft | AppendDraft:
    """The draft of an Append of one payload, or `Event`, and nothing else. Errors: as `draft`."""
    if type(payload) is not dict and isinstance(payload, _OTHERS):
        return draft(id, (payload,), by=by)
    return PlainDraft(id, payload)


def draft(
    id: str,
    given: Sequence[Any],
    *,
    tags: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    metadata: Any = None,
    header_metadata: Any = None,
    expire_after: str | int | None = None,
    by: tuple[str | None, str | None] = (None, None),
) -> AppendDraft:
    """The draft of an Append of payloads or `Event`s. `tags`: of every event, beside its own. `by`: origin and version.

    Errors: `BadInput` for no events, unordered or partly given numbers, what is no JSON, reserved headers, bad durations.
    """
    if not given:
        raise BadInput("An Append without events changes nothing.", hint="Give one payload or more.")
    if len(given) > _MOST_EVENTS:
        raise BadInput(f"{len(given)} events are too many for one Append.", hint=f"Append up to {_MOST_EVENTS} at once.")
    shared = _tags(tags) if tags else ()
    events = [_event(event, shared) for event in given]
    about = _NOTHING
    if metadata is not None or header_metadata is not None or expire_after is not None:
        payload = PayloadMetadata(duration_of(expire_after), None if metadata is None else _json(metadata, "metadata"))
        about = _Metadata(payload, None if header_metadata is None else _json(header_metadata, "metadata of the header"))
    if about is not _NOTHING or headers or any(isinstance(event.payload, bytes | bytearray | memoryview) for event in events):
        about = msgspec.structs.replace(about, origin=by[0], version=by[1])
    return AppendDraft(id, events, headers=headers, metadata=about)


def duration_of(duration: str | int | None) -> int | None:
    """Milliseconds of a duration such as "30d". Errors: `BadInput`."""
    if duration is None:
        return None
    if isinstance(duration, Duration):
        return check_expire_after(int(duration))
    if not isinstance(duration, str):
        raise BadInput(f"expire_after={duration!r:.40} is no duration.", hint='Write it with its unit, such as expire_after="30d".')
    return check_expire_after(int(Duration.parse(duration)))


def payload_of(value: object) -> Payload:
    """The payload that users give: bytes, text, or a value of JSON. Errors: `BadInput`."""
    if isinstance(value, str):
        try:
            return Payload(PayloadKind.TEXT, value.encode())
        except UnicodeEncodeError:
            raise BadInput("A payload holds half of a character.", hint="Give whole characters, or bytes.") from None
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        if data.startswith(MARK):
            raise BadInput("A payload begins with the bytes that mark encrypted ones.", hint="Put a byte of your own before it.")
        return Payload(PayloadKind.BINARY, data)
    return Payload(PayloadKind.JSON, _json(value, "payload"))


def _ending(event: Event) -> bytes:
    """The JSON of an event behind its number."""
    payload = event.payload
    tags = _TEXT(_tags(event.tags)) if event.tags else b"[]"
    if type(payload) is str:
        return b',"tags":%b,"payloadType":"text","payload":%b}' % (tags, _TEXT(payload_of(payload).data.decode()))
    return b',"tags":%b,"payloadType":"json","payload":%b}' % (tags, _json(payload, "payload"))


def _read_ending(ending: bytes) -> tuple[Payload, tuple[str, ...]]:
    """The payload and the tags of the JSON that `_ending` made."""
    event = _EVENT.decode(b'{"seqNr":1' + ending)
    payload = written_payload(event)
    assert payload is not None
    return payload, event.tags


def _json(value: object, what: str) -> bytes:
    try:
        encoded = json.encode_given(value, what)
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError) as error:
        raise BadInput(
            f"The {what} is no JSON: {error}.", hint="Give bytes, text, numbers, lists and objects with texts as names."
        ) from None
    return encoded if len(encoded) < _DEEP and not isinstance(value, msgspec.Raw) else check_json(encoded, what)


def _event(value: Any, tags: tuple[str, ...]) -> Event:
    if not isinstance(value, Event):
        return Event(value, None, tags)
    if not tags:
        return value
    return Event(value.payload, value.seq_nr, (*value.tags, *(tag for tag in tags if tag not in value.tags)))


def _tags(tags: Sequence[str]) -> tuple[str, ...]:
    if isinstance(tags, str) or any(not isinstance(tag, str) for tag in tags):
        raise BadInput(f"{tags!r:.60} are no tags.", hint='Give texts, such as tags=("deposit",).')
    try:
        for tag in tags:
            tag.encode()
    except UnicodeEncodeError:
        raise BadInput("A tag holds half of a character.", hint="Give whole characters.") from None
    return tuple(dict.fromkeys(tags))


def _numbers(events: Sequence[Event]) -> list[int] | None:
    """The numbers that the events bring; None where they bring none."""
    seq_nrs = [event.seq_nr for event in events]
    if seq_nrs.count(None) == len(seq_nrs):
        return None
    if None in seq_nrs:
        raise BadInput("Some events have a number and others have none.", hint="Give seq_nr to all of them, or to none.")
    numbers = [check_seq_nr(number) for number in seq_nrs]
    if any(number >= next_number for number, next_number in itertools.pairwise(numbers)):
        raise BadInput("The events are not in the order of their numbers.", hint="Sort them by seq_nr; each number once.")
    return numbers


def _checked_headers(id: str, headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Errors: `BadInput` for reserved names and for what is no text, as `write_record` says."""
    if not isinstance(headers, Mapping):
        raise BadInput(f"{headers!r:.60} are no headers.", hint='Give them such as headers={"trace": "7"}.')
    pairs = tuple(headers.items())
    write_record(id, Append(1, MAX_SEQ_NR), value=b"", headers=pairs)
    return pairs

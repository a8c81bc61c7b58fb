"""The bodies of Appends over HTTP, as clients send them and as servers read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from headwater.core.errors import BadInput, HeadwaterError
from headwater.journal.append_draft import AppendDraft, PlainDraft, draft
from headwater.journal.event import Event
from headwater.journal.write import Appended
from headwater.log.json_form import binary_of, show_bytes
from headwater.wire import json
from headwater.wire.operation import Schema, described
from headwater.wire.problems import error_in, problem_in

JSON, LINES = "application/json", "application/x-ndjson"
_FORMS = 'An Append is such as {"events": [{"payload": {"type": "opened"}}]}.'


class EventBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event. `payload`: JSON; text; or {"$binary": base64}. `seq_nr`: left out, the journal numbers it."""

    payload: msgspec.Raw
    seq_nr: int | None = None
    tags: list[str] = []


class AppendBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One Append. `tags`: of every event. `expected`: the journal's last number, 0 for a new one. `expire_after`: such as 30d."""

    events: Annotated[list[EventBody], msgspec.Meta(min_length=1)]
    tags: list[str] = []
    headers: dict[str, str] = {}
    metadata: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    header_metadata: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    expire_after: str | None = None
    expected: Annotated[int, msgspec.Meta(ge=0)] | None = None


class BulkLine(AppendBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of many Appends: the journal, and what `AppendBody` holds."""

    id: Annotated[str, described("The id of the journal.")]
    idempotency_key: str | None = None


_body = msgspec.json.Decoder(AppendBody)
_line = msgspec.json.Decoder(BulkLine)
_appended = msgspec.json.Decoder(Appended)
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)


def content() -> dict[str, Schema]:
    """The media types of an Append's body."""
    return {JSON: {"$struct": AppendBody}}


def read_append(body: bytes) -> AppendBody:
    """Errors: `BadInput`."""
    try:
        return _body.decode(body)
    except _UNREADABLE as error:
        raise _unfit(error, AppendBody) from None


def read_line(line: bytes) -> BulkLine:
    """Errors: `BadInput`."""
    try:
        return _line.decode(line)
    except _UNREADABLE as error:
        raise _unfit(error, BulkLine) from None


def read_outcome(line: bytes) -> Appended | HeadwaterError:
    """What became of an Append of many: where it lies, or its error."""
    problem = problem_in(line)
    return error_in(problem) if problem is not None else _appended.decode(line)


def _unfit(error: Exception, kind: type[msgspec.Struct]) -> BadInput:
    if "of length >= 1" in str(error):
        return BadInput("An Append without events changes nothing.", hint=_FORMS)
    return json.unreadable(error, kind.__struct_fields__, forms=_FORMS)


def body_of(
    given: Sequence[Any],
    *,
    tags: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    metadata: Any = None,
    header_metadata: Any = None,
    expire_after: str | None = None,
    expected: int | None = None,
) -> AppendBody:
    """The body of an Append, for a client that has checked it with `draft`."""
    return AppendBody(
        events=[_sent(event) for event in given],
        tags=list(tags),
        headers=dict(headers or {}),
        metadata=_raw(metadata),
        header_metadata=_raw(header_metadata),
        expire_after=None if expire_after is None else str(expire_after),
        expected=expected,
    )


def send_append(body: AppendBody) -> bytes:
    """The JSON of a body, without what is left out."""
    fields = {name: value for name in AppendBody.__struct_fields__ if (value := getattr(body, name)) not in (None, [], {}, msgspec.UNSET)}
    fields["events"] = [
        {name: value for name in EventBody.__struct_fields__ if (value := getattr(event, name)) is not None and value != []}
        for event in body.events
    ]
    return json.encode(fields)


def draft_of(id: str, body: AppendBody, by: tuple[str | None, str | None] = (None, None)) -> PlainDraft | AppendDraft:
    """The draft of a body. Errors: `BadInput`."""
    events = [Event(payload_in(event.payload), event.seq_nr, event.tags) for event in body.events]
    return draft(
        id, events, tags=body.tags, headers=body.headers, metadata=_given(body.metadata), header_metadata=_given(body.header_metadata),
        expire_after=body.expire_after, by=by,
    )  # fmt: skip


def payload_in(raw: msgspec.Raw) -> Any:
    """The payload that JSON means: text for a text, bytes for {"$binary": base64}, else the JSON as it is written. Errors: `BadInput`."""
    text = bytes(raw).strip()
    try:
        if text[:1] == b'"':
            return msgspec.json.decode(text)
        if text[:1] == b"{" and b"$binary" in text:
            decoded = msgspec.json.decode(text)
            if list(decoded) == ["$binary"]:
                return binary_of(decoded)
    except _UNREADABLE as error:
        raise BadInput(f"A payload is no JSON: {error}.", hint=_FORMS) from None
    return msgspec.Raw(text)


def _sent(value: Any) -> EventBody:
    event = value if isinstance(value, Event) else Event(value)
    return EventBody(payload=raw_payload(event.payload), seq_nr=event.seq_nr, tags=list(event.tags))


def raw_payload(payload: Any) -> msgspec.Raw:
    """A payload as the JSON that `payload_in` reads."""
    shown = show_bytes(bytes(payload), "binary") if isinstance(payload, bytes | bytearray | memoryview) else payload
    return msgspec.Raw(json.encode_given(shown, "payload"))


def _raw(value: Any) -> msgspec.Raw | msgspec.UnsetType:
    return msgspec.UNSET if value is None else msgspec.Raw(json.encode_given(value, "metadata"))


def _given(raw: msgspec.Raw | msgspec.UnsetType) -> Any:
    text = b"" if raw is msgspec.UNSET else bytes(raw).strip()
    return None if text in (b"", b"null") else msgspec.Raw(text)

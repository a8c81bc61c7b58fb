"""The bodies of requests to queues, as clients send them and as servers read them."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.core.errors import BadInput
from headwater.queue.json_form import send_rows
from headwater.queue.requests import ClaimBody, ClaimRows, CreateQueue, DoneBody, DoneClaim, PutRows
from headwater.queue.result_form import read_result, sent_result
from headwater.queue.values import RowResult
from headwater.wire.json import unreadable

JSON = "application/json"
_claim = msgspec.json.Decoder(ClaimBody)
_done = msgspec.json.Decoder(DoneBody)
_object = msgspec.json.Decoder(dict[str, Any])
_encode = msgspec.json.Encoder().encode
_NOTHING = ClaimBody()


def send_rows_of(request: PutRows) -> tuple[str, bytes]:
    """The type and the body that put the rows of a request."""
    return JSON, send_rows(request.rows)


def send_claim(request: ClaimRows) -> tuple[str, bytes]:
    """The type and the body of a claim."""
    return JSON, _encode(request.body)


def read_claim(body: bytes) -> ClaimBody:
    """Errors: `BadInput`."""
    if not body.strip():
        return _NOTHING
    try:
        return _claim.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        hint = 'A claim is such as {"n": 10, "lease": "60s", "done": ["…"]}.'
        raise unreadable(error, ClaimBody.__struct_fields__, forms=hint) from None


def send_done(request: DoneClaim) -> tuple[str, bytes]:
    """The type and the body of a done row."""
    return JSON, b"" if request.result is None else _encode(DoneBody(result=sent_result(request.result)))


def read_done(body: bytes) -> RowResult | None:
    """The result of a done row; None: it has none. Errors: `BadInput`."""
    if not body.strip():
        return None
    try:
        sent = _done.decode(body).result
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise unreadable(error, DoneBody.__struct_fields__, forms='A result is such as {"result": {"pages": 3}}.') from None
    return read_result(sent) if bytes(sent) else None


def send_settings(request: CreateQueue) -> tuple[str, bytes]:
    """The type and the body that create a queue."""
    declared = {} if request.declaration is None else {"declaration": request.declaration}
    return JSON, _encode({**request.settings, **declared})


def read_settings_body(body: bytes) -> tuple[dict[str, Any], str | None]:
    """The settings by name, and the declaration. Errors: `BadInput`."""
    try:
        sent = _object.decode(body.strip() or b"{}")
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise unreadable(error, (), forms='Settings are such as {"lease": "60s", "max_timeouts": 5}.') from None
    declaration = sent.pop("declaration", None)
    if declaration is not None and not isinstance(declaration, str):
        raise BadInput("The declaration is no text.", hint="Send the XML or TOML of it as one string.")
    return sent, declaration

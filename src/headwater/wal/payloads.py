"""Payloads as bodies of HTTP requests: several as JSON or as lines, or one as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from headwater.core.errors import BadInput
from headwater.log.json_form import read_bytes
from headwater.wire.json import unreadable

if TYPE_CHECKING:
    from headwater.wal.requests import WriteEntries

RAW = "application/octet-stream"
LINES = "application/x-ndjson"
PayloadForm = Literal["json", "lines", "raw"]
_HINT = 'Send text, {"$binary": base64}, or any other JSON.'


class _Sent(msgspec.Struct, forbid_unknown_fields=True):
    payloads: list[msgspec.Raw]


class _Bytes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    data: bytes = msgspec.field(name="$binary")


_sent = msgspec.json.Decoder(_Sent)
_lines = msgspec.json.Decoder(_Bytes)
_raw = msgspec.json.Decoder(msgspec.Raw)


def check_payloads(payloads: object) -> None:
    """Errors: `BadInput` for no payloads, and for what is no bytes."""
    hint = 'Give a list of bytes, such as [b"first", b"second"].'
    if isinstance(payloads, bytes | bytearray | memoryview | str) or not isinstance(payloads, Sequence):
        raise BadInput(f"A write takes a list of payloads, not {type(payloads).__name__}.", hint=hint)
    if not payloads:
        raise BadInput("A write without payloads cannot be numbered.", hint="Give at least one payload; an empty one, b'', is one.")
    for place, payload in enumerate(payloads):
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise BadInput(f"Payload {place} is of type {type(payload).__name__}.", hint=hint)


def send_payloads(request: WriteEntries) -> tuple[str, bytes]:
    """The type and the body that send the payloads of a request: one as it is, several as lines."""
    if len(request.payloads) == 1:
        return RAW, bytes(request.payloads[0])
    return LINES, msgspec.json.Encoder().encode_lines([{"$binary": payload} for payload in request.payloads])


def read_payloads(body: bytes, form: PayloadForm) -> list[bytes]:
    """The payloads of a body. Errors: `BadInput`, which says where and what; then none of them is to be written."""
    if form == "raw":
        return [body]
    try:
        body.decode()  # the raw parts below are kept as they are, and would otherwise keep bytes that are no text
        if form == "json":
            return [_payload(raw, f"payload {place}") for place, raw in enumerate(_sent.decode(body).payloads)]
    except UnicodeDecodeError as error:
        raise BadInput(f"The body is not UTF-8 at byte {error.start}.", hint='Send bytes as {"$binary": base64}.') from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise unreadable(error, _Sent.__struct_fields__) from None
    return [_line(number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip()]


def _line(number: int, line: bytes) -> bytes:
    try:
        return _lines.decode(line).data
    except (msgspec.MsgspecError, RecursionError):
        pass  # another form, or an error that is reported below
    try:
        return _payload(_raw.decode(line), f"payload of line {number}")
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadInput(f"Line {number} is no JSON that can be read: {error}.", hint=_HINT) from None


def _payload(raw: msgspec.Raw, what: str) -> bytes:
    payload = read_bytes(raw, what, free=True)
    if payload is None:
        raise BadInput(f"The {what} is null, which is no payload.", hint=f'{_HINT} An empty payload is "".')
    return payload

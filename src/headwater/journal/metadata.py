"""Metadata: what users add to an Append, as JSON in its header and its body, and both halves in the column `metadata` of a store.

The column is `{"header":{"data":…},"payload":{"expireAfter":"1 day","data":…}}`, and `{}` where there is nothing. Older rows of
kafka-journal hold the header's half alone: `{"data":…}`.
"""

from __future__ import annotations

import msgspec

from headwater.journal.action import PayloadMetadata
from headwater.journal.expire_after import check_expire_after, expire_after_text, read_expire_after
from headwater.journal.json_text import check_json
from headwater.journal.unreadable import unreadable

EMPTY_COLUMN = "{}"
NO_METADATA = PayloadMetadata()


class PayloadMetadataJson(msgspec.Struct, gc=False, rename={"expire_after": "expireAfter"}):
    """The JSON of the payload's half."""

    expire_after: int | float | str | None = None
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class HeaderMetadataJson(msgspec.Struct, gc=False):
    """The JSON of the header's half."""

    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class RecordMetadata(msgspec.Struct, frozen=True, gc=False):
    """Both halves. `header`: JSON that the user gave for the header; None: nothing."""

    header: bytes | None = None
    payload: PayloadMetadata = NO_METADATA


class _ColumnJson(msgspec.Struct, gc=False):
    header: HeaderMetadataJson | None = None
    payload: PayloadMetadataJson | None = None
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_PAYLOAD = msgspec.json.Decoder(PayloadMetadataJson)
_COLUMN = msgspec.json.Decoder(_ColumnJson)


def header_metadata_json(data: bytes | None) -> bytes:
    """The header's half. JSON null is nothing, because readers cannot tell the two apart. Errors: `BadInput` for what is no JSON."""
    return b"{}" if data is None else _header(check_json(data, "metadata of the header"))


def payload_metadata_json(metadata: PayloadMetadata) -> bytes:
    """The payload's half. Errors: `BadInput` for data that is no JSON and for what is no duration."""
    after, data = metadata.expire_after, metadata.data
    if after is None and data is None:
        return b"{}"
    return _payload(
        None if after is None else check_expire_after(after),
        None if data is None else check_json(data, "metadata"),
    )


def _header(data: bytes | None) -> bytes:
    return b"{}" if data is None or data == b"null" else b'{"data":%b}' % data


def _payload(after: int | None, data: bytes | None) -> bytes:
    fields = [] if after is None else [b'"expireAfter":"%b"' % expire_after_text(after).encode()]
    if data is not None and data != b"null":
        fields.append(b'"data":%b' % data)
    return b"{%b}" % b",".join(fields)


def payload_metadata_of(form: PayloadMetadataJson | None) -> PayloadMetadata:
    """The payload's half from its JSON. Errors: `UnreadableRecord`."""
    if form is None or (form.expire_after is None and form.data is msgspec.UNSET):
        return NO_METADATA
    return PayloadMetadata(None if form.expire_after is None else read_expire_after(form.expire_after), given_data(form.data))


def given_data(raw: msgspec.Raw | msgspec.UnsetType) -> bytes | None:
    """The JSON that a user gave; None for none, and for null."""
    data = None if raw is msgspec.UNSET else bytes(raw)
    return None if data == b"null" else data


def read_payload_metadata(text: bytes) -> PayloadMetadata:
    """The payload's half from its text. Errors: `UnreadableRecord`."""
    if text == b"{}":
        return NO_METADATA
    try:
        if not text.isascii():
            text.decode()
        return payload_metadata_of(_PAYLOAD.decode(text))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(f"The metadata behind the events is no JSON of metadata: {error}.") from error


def metadata_column(header: bytes | None, payload: PayloadMetadata) -> str:
    """The column of an event's row. Both halves are of a record that was read: their JSON is not checked again."""
    after, data = payload.expire_after, payload.data
    if header is None and after is None and data is None:
        return EMPTY_COLUMN
    return (b'{"header":%b,"payload":%b}' % (_header(header), _payload(after, data))).decode()


def read_metadata_column(text: str | None) -> RecordMetadata:
    """Both halves from the column of a row; a row without one has none. Errors: `UnreadableRecord`."""
    if not text or text == EMPTY_COLUMN:
        return RecordMetadata()
    try:
        form = _COLUMN.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise unreadable(f"The column metadata holds no JSON of metadata: {error}.") from error
    data = form.data if form.header is None else form.header.data
    return RecordMetadata(given_data(data), payload_metadata_of(form.payload))

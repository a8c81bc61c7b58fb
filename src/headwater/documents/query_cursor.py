"""Cursors of queries: opaque, for one collection, filter and order, and good for ever: they name a place in the order, not a row."""

from __future__ import annotations

import base64
import binascii
from hashlib import blake2b

from headwater.core.errors import BadInput

_FORMAT = b"\x01"
_DIGEST = 8
_HINT = "Use a cursor with the path, filter and sort that it was given for, or begin without one."


def encode_cursor(uri: str, filter_text: str, sort: str, key: bytes) -> str:
    """The cursor of the place behind a key of the query's order."""
    return base64.urlsafe_b64encode(_FORMAT + _digest(uri, filter_text, sort) + key).decode().rstrip("=")


def decode_cursor(uri: str, filter_text: str, sort: str, cursor: str) -> bytes:
    """The key of a cursor. Errors: `BadInput` where it is none, or belongs to another query."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadInput(f"{cursor!r:.60} is no cursor.", hint=_HINT) from error
    if raw[:1] != _FORMAT or len(raw) <= 1 + _DIGEST:
        raise BadInput(f"{cursor!r:.60} is no cursor.", hint=_HINT)
    if raw[1 : 1 + _DIGEST] != _digest(uri, filter_text, sort):
        raise BadInput("The cursor belongs to another query.", hint=_HINT)
    return raw[1 + _DIGEST :]


def _digest(uri: str, filter_text: str, sort: str) -> bytes:
    return blake2b("\0".join((uri, filter_text.strip(), sort.strip())).encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()

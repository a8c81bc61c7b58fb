"""JSON that keeps every digit of a decimal."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any, TypeVar, cast

import msgspec

from headwater.core.errors import BadInput
from headwater.core.spelling import nearest
from headwater.wire.finite import finite

T = TypeVar("T")
LARGEST = (1 << 63) - 1
_encoder = msgspec.json.Encoder(decimal_format="number")
_encode, _check = _encoder.encode, msgspec.json.Decoder(msgspec.Raw).decode
# The exceptions of the decoder: no JSON, no UTF-8, 1e99999999999999999999, a thousand nested brackets.
UNREADABLE = (msgspec.MsgspecError, ArithmeticError, UnicodeDecodeError, RecursionError)


@lru_cache(maxsize=8192)  # prices and quantities repeat, and comparing the texts is most of the cost of decoding
def exact(text: str) -> float | Decimal:
    """A decimal of JSON: a float where it prints as the same text, else a `Decimal`."""
    number = float(text)
    # Python prints 1e+16 and the encoder 1e16: neither may turn a float that we wrote into a decimal.
    return number if repr(number) == text or _encoder.encode(number).decode() == text else Decimal(text)


def encode(value: Any) -> bytes:
    """The value as JSON; a `Decimal` is a number with its own digits."""
    return _encoder.encode(value)


def encode_given(value: Any, what: str) -> bytes:
    """The value that a caller gives, as JSON. Errors: `BadInput` for NaN and infinite numbers, in whose place the encoder writes null, or
    what is no JSON, and for parts that were given as JSON and are none; those of the encoder for a value that is no JSON at all."""
    encoded = _encode(value)
    try:
        _check(encoded)
        if b"null" not in encoded:
            return encoded
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        _refuse_unbounded(value, what)
        raise BadInput(f"The {what} is no JSON: {error}.", hint="Give what JSON can hold.") from None
    _refuse_unbounded(value, what)
    return encoded


def _refuse_unbounded(value: Any, what: str) -> None:
    if not isinstance(value, msgspec.Raw) and not finite(value, as_float=False):
        raise BadInput(f"The {what} holds a number that JSON has not: NaN or infinite.", hint="Give null, or text, in its place.")


def decoder(kind: type[T]) -> Callable[[bytes | str], T]:
    """Reads JSON of one type, decimals exactly. Errors of what it returns: `UNREADABLE`."""
    decode: Callable[[bytes | str], T] = _decoder(cast(Hashable, kind))
    return decode


@cache
def _decoder(kind: Any) -> Any:
    return msgspec.json.Decoder(kind, float_hook=exact).decode


def whole(name: str, number: int | float) -> int:
    """The number as one of Python's: 3.0 is whole, to JSON Schema as to people. Errors: `BadInput`."""
    if number != int(number):
        raise BadInput(f"The {name} is a whole number, not {number}.", hint="Send it without a fraction.")
    return int(number)


def unreadable(error: Exception, known: Sequence[str], *, forms: str = "The forms are in /openapi.json.") -> BadInput:
    """The error for a JSON body that cannot be read; for an unknown field it names the nearest known one. `forms`: the hint otherwise."""
    text = str(error).rstrip(".")
    if isinstance(error, RecursionError):
        return BadInput("The body is nested too deeply.", hint='Send such a value as text or as {"$binary": base64}.')
    if "unknown field" in text:
        return BadInput(f"The body cannot be read: {text}.", hint=nearest(text.split("`")[1], known))
    if "truncated" in text:  # msgspec says it of both
        text += ", or a text holds half of a surrogate pair, such as \\ud800"
    return BadInput(f"The body cannot be read: {text}.", hint=forms)

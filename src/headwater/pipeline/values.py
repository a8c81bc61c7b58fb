"""Documents as JSON text and back, without changing a value.

Integers of any length stay integers. A decimal stays a float where the float prints the same text, and is a `Decimal` where it would not
(1.10, thirty digits, 1e400). Types that JSON lacks are objects of extended JSON; `native` gives Python's own type for one,
`extended` the reverse.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec

from headwater.core.errors import BadInput
from headwater.wire.json import exact

_encoder = msgspec.json.Encoder(decimal_format="number")
_decoder = msgspec.json.Decoder(float_hook=exact)
_object = msgspec.json.Decoder(dict[str, Any], float_hook=exact)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_sorted = msgspec.json.Encoder(decimal_format="number", order="sorted")

# What reading JSON can raise: text that is none, bytes that are no UTF-8, 1e99999999999999999999, a thousand brackets inside each other.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, InvalidOperation, RecursionError)
_NUMERIC = re.compile(r"\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
_PLAIN = frozenset({type(None), bool, int, str})
_NEVER = _PLAIN | {float, Decimal, list}  # types that are no extended JSON: a quicker test than for a Mapping

decode_plain = _object.decode  # `decode` without a step of ours, which raises UNREADABLE


def decode(data: bytes) -> dict[str, Any]:
    """A document. Errors: `BadInput` for what is no JSON object in UTF-8."""
    try:
        return _object.decode(data)
    except UNREADABLE as error:
        raise BadInput(f"This is no JSON object: {error}.") from error


def decode_any(data: bytes | str) -> Any:
    """Any JSON value, exact as documents are. Errors: `BadInput`."""
    try:
        return _decoder.decode(data)
    except UNREADABLE as error:
        raise BadInput(f"This is no JSON: {error}.") from error


def encode(value: Any) -> bytes:
    """JSON text. Numbers as they were; Python's own dates, bytes and ids as extended JSON where `extended` was called on them before."""
    return _encoder.encode(value)


def encode_lines(documents: Sequence[Any]) -> bytes:
    """Each as `encode`, and a line end behind it."""
    return _encoder.encode_lines(documents)


def field_by_field(texts: Sequence[bytes], change: Callable[[dict[str, Any]], dict[str, Any]]) -> list[bytes] | None:
    """Documents whose fields were moved about, their values untouched and unread; None where one of the texts is no document."""
    decode, encode = _fields.decode, _encoder.encode
    try:
        return [encode(change(decode(one))) for one in texts]
    except UNREADABLE:
        return None


def canonical(value: Any) -> bytes:
    """The same bytes for equal values, however their keys are ordered: what ids are compared and hashed by."""
    return _sorted.encode(value)


def extended(value: Any) -> Any:
    """Python's types that JSON lacks, as extended JSON; everything else as it is. Errors: `BadInput` for a type that has no such form."""
    return value if _is_json(value) else _converted(value)


def _is_json(value: Any) -> bool:
    """Whether there is nothing to convert, which is the rule: looking is quicker than making all of it anew."""
    kind = type(value)
    if kind is dict:
        for key, one in value.items():  # a generator costs three times as much
            kind = type(one)
            if type(key) is not str or (kind not in _PLAIN and not (math.isfinite(one) if kind is float else _is_json(one))):
                return False
        return True
    if kind is list:
        for one in value:  # noqa: SIM110
            if type(one) not in _PLAIN and not _is_json(one):
                return False
        return True
    return kind in _PLAIN or (kind is float and math.isfinite(value)) or (kind is Decimal and value.is_finite())


def _converted(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    match value:
        case float():
            return float(value) if math.isfinite(value) else {"$numberDouble": _special(math.isnan(value), value > 0)}
        case Decimal():
            return value if value.is_finite() else {"$numberDecimal": _special(value.is_nan(), not value.is_signed())}
        case Enum():
            return _converted(value.value)
        case int():  # a subclass, which the encoder would refuse
            return int(value)
        case str():
            return str(value)
        case Mapping():
            return {_name(key): _converted(one) for key, one in value.items()}
        case list() | tuple():
            return [_converted(one) for one in value]
        case set() | frozenset():  # in an order that does not change from process to process
            return sorted((_converted(one) for one in value), key=canonical)
        case datetime():
            if value != value:  # pandas' NaT, which calls itself a datetime
                return None
            stamp = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
            precision = "milliseconds" if stamp.microsecond % 1000 == 0 else "microseconds"
            return {"$date": stamp.isoformat(timespec=precision).replace("+00:00", "Z")}
        case date():
            return {"$date": f"{value.isoformat()}T00:00:00.000Z"}
        case time():
            return value.isoformat()
        case UUID():
            return {"$uuid": str(value)}
        case timedelta():
            return value.total_seconds()
        case bytes() | bytearray() | memoryview():
            return {"$binary": {"base64": base64.b64encode(bytes(value)).decode(), "subType": "00"}}
    if hasattr(value, "item") and hasattr(value, "dtype") and not getattr(value, "shape", ()):  # numpy's scalars
        return _converted(value.item())
    if hasattr(value, "tolist"):
        return _converted(value.tolist())
    raise BadInput(
        f"A value of type {type(value).__name__} cannot be written as JSON.", hint="Turn it into text, a number, a list or an object."
    )


def native(value: Any) -> Any:
    """Python's own type for an object of extended JSON: datetime, bytes, int, Decimal, float, text; anything else as it is."""
    if type(value) in _NEVER or not isinstance(value, Mapping) or not 1 <= len(value) <= 2:
        return value
    if len(value) == 2:  # {"$date": ..., "note": ...} is an object of somebody's; the older form of binary has two keys
        return _binary(value["$binary"], value) if value.keys() == {"$binary", "$type"} else value
    [(key, inner)] = value.items()
    if not isinstance(key, str) or not key.startswith("$"):
        return value
    try:
        match key:
            case "$date":
                return _date(inner)
            case "$binary":
                return _binary(inner, value)
            case "$numberLong" | "$numberInt":
                return int(_text(inner))
            case "$numberDecimal":
                return Decimal(_text(inner))
            case "$numberDouble":
                return float(inner)
            case "$oid" | "$symbol":
                return inner if isinstance(inner, str) else value
            case "$uuid":
                return UUID(_text(inner))
    except (ValueError, TypeError, KeyError, OverflowError, InvalidOperation):
        pass
    return value


def natives(value: Any) -> Any:
    """`native` all the way down."""
    found = native(value)
    if found is not value:
        return found
    if isinstance(value, dict):
        return {key: natives(one) for key, one in value.items()}
    if isinstance(value, list):
        return [natives(one) for one in value]
    return value


def number(value: Any) -> int | float | Decimal | None:
    """The number that a value is, extended JSON's and numeric text included; None where it is none. A truth value is no number."""
    value = native(value)
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float | Decimal):
        return value
    if isinstance(value, str) and _NUMERIC.fullmatch(value):
        try:
            return int(value)
        except ValueError:  # a fraction, an exponent, or more digits than int takes
            with suppress(InvalidOperation):
                return Decimal(value.strip())
    return None


def _special(nan: bool, positive: bool) -> str:
    return "NaN" if nan else "Infinity" if positive else "-Infinity"


def _text(inner: Any) -> str:
    """The inner text of an exact number: a float in its place has lost digits already, and stays what it is."""
    if isinstance(inner, str) or (isinstance(inner, int) and not isinstance(inner, bool)):
        return str(inner)
    raise ValueError


def _binary(inner: Any, value: Any) -> Any:
    text: Any = inner.get("base64") if isinstance(inner, Mapping) else inner
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, TypeError):
        return value


def _name(key: Any) -> str:
    if not isinstance(key, str):
        raise BadInput(f"The key {key!r} of an object is no text.", hint="Use text as keys.")
    return key


def _date(inner: Any) -> datetime:
    if isinstance(inner, Mapping):
        inner = int(inner["$numberLong"])
    if isinstance(inner, int):
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=inner)
    read = datetime.fromisoformat(inner)
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read

"""Documents as JSON text and back, without changing a value.

Integers of any length stay integers. A decimal stays a float where the float prints the same text, and is a `Decimal` where it would not
(1.10, thirty digits, 1e400). Types that JSON lacks are objects of extended JSON; `native` gives Python's own type for one,
`extended` the reverse.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

import msgspec

from headwater.core.errors import BadInput


def _decimal(text: str) -> float | Decimal:
    number = float(text)
    return number if repr(number) == text else Decimal(text)


_decoder = msgspec.json.Decoder(float_hook=_decimal)
_object = msgspec.json.Decoder(dict[str, Any], float_hook=_decimal)
_encoder = msgspec.json.Encoder(decimal_format="number")
_sorted = msgspec.json.Encoder(decimal_format="number", order="sorted")


def decode(data: bytes) -> dict[str, Any]:
    """A document. Errors: `BadInput` for what is no JSON object in UTF-8."""
    try:
        return _object.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"This is no JSON object: {error}.") from error


def decode_any(data: bytes | str) -> Any:
    """Any JSON value, exact as documents are. Errors: `BadInput`."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"This is no JSON: {error}.") from error


def encode(value: Any) -> bytes:
    """JSON text. Numbers as they were; Python's own dates, bytes and ids as extended JSON where `extended` was called on them before."""
    return _encoder.encode(value)


def canonical(value: Any) -> bytes:
    """The same bytes for equal values, however their keys are ordered: what ids are compared and hashed by."""
    return _sorted.encode(value)


def extended(value: Any) -> Any:
    """Python's types that JSON lacks, as extended JSON; everything else as it is. Errors: `BadInput` for a type that has no such form."""
    match value:
        case None | bool() | int() | str() | Decimal():
            return value
        case float():
            return value if math.isfinite(value) else {"$numberDouble": _special(value)}
        case dict():
            return {_name(key): extended(one) for key, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [extended(one) for one in value]
        case datetime():
            stamp = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
            precision = "milliseconds" if stamp.microsecond % 1000 == 0 else "microseconds"
            return {"$date": stamp.isoformat(timespec=precision).replace("+00:00", "Z")}
        case date():
            return {"$date": f"{value.isoformat()}T00:00:00.000Z"}
        case time() | UUID():
            return {"$uuid": str(value)} if isinstance(value, UUID) else value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes() | bytearray() | memoryview():
            return {"$binary": {"base64": base64.b64encode(bytes(value)).decode(), "subType": "00"}}
    if hasattr(value, "item") and hasattr(value, "dtype"):  # numpy's scalars
        return extended(value.item())
    if hasattr(value, "tolist"):
        return extended(value.tolist())
    raise BadInput(
        f"A value of type {type(value).__name__} cannot be written as JSON.", hint="Turn it into text, a number, a list or an object."
    )


def native(value: Any) -> Any:
    """Python's own type for an object of extended JSON: datetime, bytes, int, Decimal, float, text; anything else as it is."""
    if not isinstance(value, Mapping) or not value or len(value) > 2:
        return value
    key = next(iter(value))
    if not isinstance(key, str) or not key.startswith("$"):
        return value
    inner = value[key]
    try:
        match key:
            case "$date":
                return _date(inner)
            case "$binary":
                return base64.b64decode(inner["base64"] if isinstance(inner, Mapping) else inner)
            case "$numberLong" | "$numberInt":
                return int(inner)
            case "$numberDecimal":
                return Decimal(inner)
            case "$numberDouble":
                return float(inner)
            case "$oid" | "$symbol":
                return str(inner)
            case "$uuid":
                return UUID(inner)
    except (ValueError, TypeError, KeyError, InvalidOperation):
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
    if isinstance(value, str):
        try:
            return int(value) if value.strip().lstrip("+-").isdigit() else Decimal(value.strip())
        except (ValueError, InvalidOperation):
            return None
    return None


def _special(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _name(key: Any) -> str:
    if not isinstance(key, str):
        raise BadInput(f"The key {key!r} of an object is no text.", hint="Use text as keys.")
    return key


def _date(inner: Any) -> datetime:
    if isinstance(inner, Mapping):
        inner = int(inner["$numberLong"])
    if isinstance(inner, int):
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=inner)
    return datetime.fromisoformat(inner)

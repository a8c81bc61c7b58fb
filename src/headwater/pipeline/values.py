"""Documents as JSON text and back, without changing a value.

A number of JSON text without point and exponent is an `int` of any length; every other one is a `Decimal` with its digits, never a float by
its digits. In the text of the log a float is extended JSON, `{"$numberDouble": "1.25"}`, and so is a `Decimal` that would read as an
integer, `{"$numberDecimal": "5"}`: `store` writes them, `decode` gives Python's `float` and `Decimal`. `{"$numberLong": "7"}` is an `int`
that MongoDB gets back as a long. Text for others (`encode`) has plain numbers. Types that JSON lacks are objects of extended JSON
everywhere; `native` gives Python's own type for one, `extended` the reverse.
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
from typing import Any, Literal
from uuid import UUID

import msgspec

from headwater.core.errors import BadInput
from headwater.pipeline.float_text import float_of, float_text
from headwater.pipeline.long_integer import INT32, Long, long, plain

Decimals = Literal["decimal", "float"]  # what numbers with a point or an exponent become that come from text

_encoder = msgspec.json.Encoder(decimal_format="number", enc_hook=plain)
_decoder = msgspec.json.Decoder(float_hook=Decimal)
_object = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
_floats = msgspec.json.Decoder(dict[str, Any], float_hook=float_of)
_any_floats = msgspec.json.Decoder(float_hook=float_of)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_sorted = msgspec.json.Encoder(decimal_format="number", order="sorted", enc_hook=plain)

# What reading JSON can raise: text that is none, bytes that are no UTF-8, 1e99999999999999999999, a thousand brackets inside each other.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, InvalidOperation, RecursionError)
MARK = b'"$number'  # in every text that has a number as extended JSON
_TAGS = frozenset({"$numberDouble", "$numberDecimal", "$numberLong", "$numberInt"})
# Tagged numbers whose plain form is their text, behind what stands before a value. Inside of a JSON string every quote has a backslash
# before it, so that none stands there.
_USUAL = (
    (re.compile(rb'(?<=[:,\[])\{"\$numberDouble":"(-?(?:0|[1-9][0-9]*)\.[0-9]+)"\}'), rb"\1"),
    (re.compile(rb'(?<=[:,\[])\{"\$numberDouble":"(-?(?:0|[1-9][0-9]*))"\}'), rb"\1.0"),
    (re.compile(rb'(?<=[:,\[])(?<!"\$date":)\{"\$number(?:Decimal|Long|Int)":"(-?(?:0|[1-9][0-9]*))"\}'), rb"\1"),
)
_NUMERIC = re.compile(r"\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
_PLAIN = frozenset({type(None), bool, int, str})
_FLAT = _PLAIN | {float}
_NEVER = _FLAT | {Decimal, list}  # types that are no extended JSON: a quicker test than for a Mapping
_NESTED = frozenset({dict, list})


def decode(data: bytes, decimals: Decimals = "decimal") -> dict[str, Any]:
    """A document, of the log or of JSON text. Errors: `BadInput` for what is no JSON object in UTF-8.

    `decimals="float"`: numbers of the text with a point or an exponent are floats; `BadInput` for one that no float can be.
    """
    try:
        return decode_plain(data) if decimals == "decimal" else _revived(_floats.decode(data))
    except UNREADABLE as error:
        raise BadInput(f"This is no JSON object: {error}.") from error


def decode_plain(data: bytes) -> dict[str, Any]:
    """`decode` that raises UNREADABLE."""
    return _revived(_object.decode(data)) if MARK in data else _object.decode(data)


def decoder_of(texts: Sequence[bytes]) -> Callable[[bytes], dict[str, Any]]:
    """What reads these documents as `decode_plain` does: without a step of ours for each where none of them has `MARK`."""
    joined = b"".join(texts)  # searching all at once costs a tenth of searching each, and one byte is found quicker than several
    return decode_plain if b"$" in joined and MARK in joined else _object.decode


def decode_any(data: bytes | str, decimals: Decimals = "decimal") -> Any:
    """Any JSON value, as `decode` reads a document. Errors: `BadInput`."""
    try:
        return revived((_decoder if decimals == "decimal" else _any_floats).decode(data))
    except UNREADABLE as error:
        raise BadInput(f"This is no JSON: {error}.") from error


def encode(value: Any) -> bytes:
    """JSON text for others, in which every finite number is a plain one.

    Python's own dates, bytes and ids are written as extended JSON where `extended` was called on them before.
    """
    text = _encoder.encode(value)
    return _encoder.encode(_as_json(value)) if b"null" in text and _is_special(value) else text


def encode_lines(documents: Sequence[Any]) -> bytes:
    """Each as `encode`, and a line end behind it."""
    text = _encoder.encode_lines(documents)
    return _encoder.encode_lines([_as_json(document) for document in documents]) if b"null" in text and _is_special(documents) else text


def as_json(value: Any) -> Any:
    """The value for any encoder of JSON: NaN and the infinities, in whose place one writes null, as extended JSON; each `Long` an `int`."""
    with suppress(RecursionError):
        return _as_json(value)
    return value  # deeper than we can walk


def _as_json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"$numberDouble": float_text(value)}
    if type(value) is dict:
        return {name: item if type(item) in _PLAIN else _as_json(item) for name, item in value.items()}
    if type(value) is list:
        return [_as_json(item) for item in value]
    return int(value) if type(value) is Long else value


def store(value: Any) -> bytes:
    """JSON text from which `decode` gives the same types: for the log."""
    try:
        return _encoder.encode(tagged(value))
    except RecursionError:  # deeper than any source of floats nests: the encoder, which needs no frame for each level, may still write it
        return _encoder.encode(value)


def unmarked(lines: bytes) -> bytes:
    """Lines of the log's documents as text for others: as they are, but for numbers in extended JSON. Errors: UNREADABLE."""
    if MARK not in lines:
        return lines
    for tag, number in _USUAL:  # twice as quick as reading and writing the documents that have them
        lines = tag.sub(number, lines)
    if MARK not in lines:
        return lines
    return b"\n".join([encode(decode_plain(line)) if MARK in line else line for line in lines.split(b"\n")])


def tagged(value: Any, *, every: bool = False) -> Any:
    """The value with each float, and each `Decimal` that would read as an integer, as extended JSON.

    `every`: each `Decimal`, so that any reader of JSON gives what `native` understands, as for the position in a source.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:
        out: dict[str, Any] = {}
        for name, field in value.items():
            kind = type(field)
            if kind in _PLAIN:
                out[name] = field
            elif kind is float and field - field == 0.0:  # finite: asked without a call, because floats are many
                out[name] = {"$numberDouble": repr(field)}
            else:
                out[name] = tagged(field, every=every)
        return out
    if kind is list:
        return [item if type(item) in _PLAIN else tagged(item, every=every) for item in value]
    if kind is Long:
        return {"$numberLong": str(int(value))} if int(value) in INT32 else int(value)
    if kind is Decimal:
        text = str(value)
        return {"$numberDecimal": text} if every or ("." not in text and "E" not in text) else value
    return {"$numberDouble": float_text(value)} if isinstance(value, float) else value


def revived(value: Any) -> Any:
    """The value with a number for each number in extended JSON: the reverse of `tagged`. Changes objects and lists.

    The one in a date, `{"$date": {"$numberLong": ...}}`, is a part of it and stays.
    """
    if type(value) is not dict:
        return [revived(item) if type(item) in _NESTED else item for item in value] if type(value) is list else value
    if _is_date(value):
        return value
    scalar = _number(value) if _is_number(value) else value
    return _revived(value) if scalar is value else scalar


def _is_number(value: dict[str, Any]) -> bool:
    return len(value) == 1 and not _TAGS.isdisjoint(value)


def _is_date(value: dict[str, Any]) -> bool:
    inner = value.get("$date") if len(value) == 1 else None
    return type(inner) is dict and len(inner) == 1 and type(inner.get("$numberLong")) in (str, int)


def _number(value: dict[str, Any]) -> Any:
    """The number that an object is; the object itself where it is none, or NaN or infinite and no float."""
    scalar = native(value)
    if type(scalar) is int and "$numberLong" in value:
        return long(scalar)
    return value if isinstance(scalar, Decimal) and not scalar.is_finite() else scalar


def _revived(document: dict[str, Any]) -> dict[str, Any]:
    for name, item in document.items():
        if type(item) in _NESTED:
            document[name] = revived(item)
    return document


def from_text(value: Any) -> Any:
    """A value that came as JSON through a reader which makes floats of some decimals: these are `Decimal` again, tagged ones floats."""
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, list):
        return [from_text(item) for item in value]
    if isinstance(value, dict) and not _is_date(value):
        scalar = _number(value) if _is_number(value) else value
        return {name: from_text(item) for name, item in value.items()} if scalar is value else scalar
    return value


def field_by_field(texts: Sequence[bytes], change: Callable[[dict[str, Any]], dict[str, Any]]) -> list[bytes] | None:
    """Documents whose fields were moved about, their values untouched and unread; None where one of the texts is no document."""
    decode, encode = _fields.decode, _encoder.encode
    try:
        return [encode(change(decode(text))) for text in texts]
    except UNREADABLE:
        return None


def canonical(value: Any) -> bytes:
    """The same bytes for equal values, however their keys are ordered: what ids are compared and hashed by."""
    text = _sorted.encode(value)
    return _sorted.encode(_as_json(value)) if b"null" in text and _is_special(value) else text


def extended(value: Any) -> Any:
    """A value as messages have it: Python's types that JSON lacks as extended JSON, numbers and everything else as they are.

    Errors: `BadInput` for a type that has no such form.
    """
    return value if _is_json(value) else _converted(value)


def _is_json(value: Any) -> bool:
    """Whether there is nothing to convert, which is the rule: looking is quicker than making all of it anew."""
    kind = type(value)
    if kind is dict:
        for key, item in value.items():  # a generator costs three times as much
            kind = type(item)
            if type(key) is not str or (kind not in _FLAT and not (item.is_finite() if kind is Decimal else _is_json(item))):
                return False
        return True
    if kind is list:
        for item in value:  # noqa: SIM110
            if type(item) not in _PLAIN and not _is_json(item):
                return False
        return True
    return kind in _FLAT or kind is Long or (kind is Decimal and value.is_finite())


def _converted(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    match value:
        case float():
            return float(value)
        case Decimal():
            return value if value.is_finite() else {"$numberDecimal": "NaN" if value.is_nan() else str(value)}
        case Enum():
            return _converted(value.value)
        case Long():
            return value
        case int():  # a subclass, which the encoder would refuse
            return int(value)
        case str():
            return str(value)
        case Mapping():
            return {_name(key): _converted(item) for key, item in value.items()}
        case list() | tuple():
            return [_converted(item) for item in value]
        case set() | frozenset():  # in an order that does not change from process to process
            return sorted((_converted(item) for item in value), key=canonical)
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
    """Python's own type for an object of extended JSON, or a `Long`: datetime, bytes, int, Decimal, float, text; all else as it is."""
    if type(value) in _NEVER or not isinstance(value, Mapping) or not 1 <= len(value) <= 2:
        return int(value) if type(value) is Long else value
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
                return value if isinstance(inner, bool) else float(inner)
            case "$oid" | "$symbol":
                return inner if isinstance(inner, str) else value
            case "$uuid":
                return UUID(_text(inner))
    except (ValueError, TypeError, KeyError, OverflowError, InvalidOperation):
        pass
    return value


def natives(value: Any) -> Any:
    """`native` all the way down."""
    converted = native(value)
    if converted is not value:
        return converted
    if isinstance(value, dict):
        return {key: natives(item) for key, item in value.items()}
    if isinstance(value, list):
        return [natives(item) for item in value]
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


def _is_special(value: Any) -> bool:
    """Whether a float in it is NaN or infinite."""
    if isinstance(value, float):
        return not math.isfinite(value)
    inner = value.values() if type(value) is dict else value if type(value) is list else ()
    with suppress(RecursionError):
        for item in inner:
            if type(item) not in _PLAIN and _is_special(item):
                return True
    return False


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

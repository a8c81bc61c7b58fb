"""BSON as extended JSON and back: what was read from a collection is written to another as the very same BSON.

A double is a float, a decimal128 a `Decimal`, an int32 and a larger integer (which BSON stores as int64) an integer; text, true, false and
null are plain. Everything else is an object of extended JSON. Deprecated types (symbol, undefined, DBPointer) become their successors.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from bson import Binary, Code, DatetimeMS, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp, decode, encode
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError

from headwater.core.errors import BadInput
from headwater.pipeline import values
from headwater.pipeline.long_integer import INT32, Long, long

# Dates beyond Python's range are kept, and times have their zone. Text that is not UTF-8, which the server accepts, must not end the copy:
# it is decoded to surrogates, and reported when it cannot be encoded.
CODEC: CodecOptions[dict[str, Any]] = CodecOptions(
    tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_AUTO, unicode_decode_error_handler="surrogateescape"
)
NO_TEXT = "The document has text that is not in UTF-8."
INT64 = range(-(1 << 63), 1 << 63)
FLAGS = {"i": 2, "l": 4, "m": 8, "s": 16, "u": 32, "x": 64}


def to_json(value: Any) -> Any:
    """A BSON value as extended JSON. Errors: `BadInput` for a document whose field names would be taken for a type."""
    kind = type(value)
    if kind is str or kind is int or kind is float or kind is bool or value is None:
        return value
    writer = _WRITERS.get(kind)
    if writer is not None:
        return writer(value)
    if isinstance(value, Mapping):
        return _object(value)
    raise BadInput(f"A value of the BSON type {kind.__name__} cannot be kept.", hint="Leave the field out with a collection filter.")


def from_json(value: Any) -> Any:
    """The BSON value that extended JSON means. Errors: `BadInput` for a number that BSON cannot hold."""
    kind = type(value)
    if kind is str or kind is bool or kind is float or value is None:
        return value
    if kind is int:
        return value if value in INT64 else _decimal(Decimal(value))
    if kind is Long:
        return Int64(value)
    if isinstance(value, list | tuple):
        return [from_json(item) for item in value]
    if isinstance(value, dict):
        if is_type(value):
            try:
                return _typed(value)
            except (KeyError, TypeError, ValueError, BSONError, binascii.Error):
                pass  # it only looks like a type: a document with such names
        return {name: from_json(item) for name, item in value.items()}
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, datetime | date | bytes | bytearray | UUID):  # a transform may return these
        return from_json(values.extended(value))
    raise BadInput(f"A value of type {kind.__name__} cannot be written as BSON.", hint="Turn it into text, a number, a list or an object.")


def as_read(data: dict[str, Any]) -> dict[str, Any]:
    """A document as MongoDB returns it: dates to the millisecond, numbers in the type that they were written in."""
    document: dict[str, Any] = to_json(decode(encode({name: from_json(value) for name, value in data.items()}), CODEC))
    return document


def row(document: dict[str, Any]) -> dict[str, Any]:
    """A document without an `_id` that repeats its other fields, as a row of a table has it."""
    identity = document.get("_id")
    fields = {name: value for name, value in document.items() if name != "_id"}
    parts = isinstance(identity, dict) and identity and all(name in fields and fields[name] == value for name, value in identity.items())
    return fields if parts or identity in fields.values() else document


def is_type(value: Mapping[str, Any]) -> bool:
    """Whether an object is a type of extended JSON, and no document."""
    if len(value) == 1:
        return next(iter(value)) in _READERS
    return len(value) == 2 and value.keys() in ({"$code", "$scope"}, {"$regex", "$options"}, {"$binary", "$type"})


def _object(value: Mapping[str, Any]) -> dict[str, Any]:
    out = {name: to_json(item) for name, item in value.items()}
    if out and is_type(out):
        raise BadInput(
            f"The document has an object with the one field {next(iter(out))}, which extended JSON takes for a type.",
            hint="Rename the field at the source, or correct the message with edit.",
        )
    return out


def _number(value: Decimal128) -> Any:
    number = value.to_decimal()
    return number if number.is_finite() else {"$numberDecimal": str(value)}


def _binary(value: bytes) -> Any:
    kind = value.subtype if isinstance(value, Binary) else 0
    return {"$binary": {"base64": base64.b64encode(value).decode(), "subType": f"{kind:02x}"}}


def _date(value: datetime) -> Any:
    stamp = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    return {"$date": stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")}


def _regex(value: Regex[Any]) -> Any:
    pattern = value.pattern if isinstance(value.pattern, str) else value.pattern.decode()
    return {"$regularExpression": {"pattern": pattern, "options": "".join(name for name, bit in FLAGS.items() if value.flags & bit)}}


def _code(value: Code) -> Any:
    return {"$code": str(value)} | ({} if value.scope is None else {"$scope": _object(value.scope)})


def _pointer(value: DBRef) -> Any:
    return {name: to_json(item) for name, item in value.as_doc().items()}


_WRITERS: dict[type, Callable[[Any], Any]] = {
    Int64: lambda value: long(int(value)),
    dict: _object,
    list: lambda value: [to_json(item) for item in value],
    ObjectId: lambda value: {"$oid": str(value)},
    datetime: _date,
    DatetimeMS: lambda value: {"$date": {"$numberLong": str(int(value))}},
    Decimal128: _number,
    bytes: _binary,
    Binary: _binary,
    Timestamp: lambda value: {"$timestamp": {"t": value.time, "i": value.inc}},
    Regex: _regex,
    Code: _code,
    DBRef: _pointer,
    MinKey: lambda value: {"$minKey": 1},
    MaxKey: lambda value: {"$maxKey": 1},
}


def _typed(value: dict[str, Any]) -> Any:
    """The BSON value of an object of extended JSON. Raises what its parts raise."""
    if "$code" in value:
        return Code(_text(value["$code"]), from_json(value["$scope"]) if "$scope" in value else None)
    if "$regex" in value:
        return _pattern(value["$regex"], value.get("$options", ""))
    if "$type" in value:
        return _bytes({"base64": value["$binary"], "subType": value["$type"]})
    ((name, inner),) = value.items()
    return _READERS[name](inner)


def _bytes(inner: Any) -> Any:
    if isinstance(inner, str):
        return base64.b64decode(inner, validate=True)
    kind = int(inner["subType"], 16)
    data = base64.b64decode(inner["base64"], validate=True)
    return Binary(data, kind) if kind else data


def _moment(inner: Any) -> Any:
    if isinstance(inner, Mapping):
        inner = int(inner["$numberLong"])
    return DatetimeMS(inner) if isinstance(inner, int) else datetime.fromisoformat(inner)


def _pattern(pattern: Any, options: Any) -> Regex[str]:
    return Regex(_text(pattern), sum(FLAGS[letter] for letter in set(_text(options))))


def _decimal(value: Decimal) -> Decimal128:
    try:
        return Decimal128(value)
    except ArithmeticError:
        raise BadInput(f"The number {value} has more digits than BSON can hold.", hint="Turn it into text.") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _whole(value: Any, within: range) -> int:
    number = int(value)
    if number not in within:
        raise ValueError
    return number


_READERS: dict[str, Callable[[Any], Any]] = {
    "$oid": lambda inner: ObjectId(_text(inner)),
    "$date": _moment,
    "$binary": _bytes,
    "$uuid": lambda inner: Binary(UUID(_text(inner)).bytes, 4),
    "$numberInt": lambda inner: _whole(inner, INT32),
    "$numberLong": lambda inner: Int64(_whole(inner, INT64)),
    "$numberDouble": float,
    "$numberDecimal": lambda inner: Decimal128(_text(inner)),
    "$timestamp": lambda inner: Timestamp(_whole(inner["t"], range(1 << 32)), _whole(inner["i"], range(1 << 32))),
    "$regularExpression": lambda inner: _pattern(inner["pattern"], inner["options"]),
    "$code": lambda inner: Code(_text(inner)),
    "$symbol": _text,
    "$undefined": lambda inner: None,
    "$minKey": lambda inner: MinKey(),
    "$maxKey": lambda inner: MaxKey(),
}

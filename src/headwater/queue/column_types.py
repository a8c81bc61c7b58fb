"""The types of declared columns, and which JSON values each takes."""

from __future__ import annotations

import binascii
import re
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, get_args

ColumnType = Literal["text", "int", "decimal", "bool", "time", "bytes", "json"]
COLUMN_TYPES: tuple[ColumnType, ...] = get_args(ColumnType)
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
_WANTED = {
    "text": "text",
    "int": "a whole number from -2^63 to 2^63-1",
    "decimal": 'a number, or a text such as "12.50"',
    "bool": "true or false",
    "time": 'a time with its zone, such as "2026-01-31T12:00:00Z", or milliseconds since 1970',
    "bytes": '{"$binary": base64}',
    "json": "any JSON",
}


def wanted(kind: ColumnType) -> str:
    """What a column of this type takes, for people."""
    return _WANTED[kind]


def fits(kind: ColumnType, value: Any) -> bool:
    """Whether a JSON value, not null, is of a type. Numbers with a point or an exponent come as `Decimal`."""
    match kind:
        case "json":
            return True
        case "text":
            return isinstance(value, str)
        case "bool":
            return isinstance(value, bool)
        case "int":
            return _whole(value)
        case "decimal":
            if isinstance(value, str):
                return _DECIMAL.fullmatch(value) is not None
            return isinstance(value, int | Decimal) and not isinstance(value, bool)
        case "time":
            return _time(value) if isinstance(value, str) else _whole(value)
        case "bytes":
            return _bytes(value)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and _SMALLEST <= value <= _LARGEST


def _time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _bytes(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {"$binary"} or not isinstance(value["$binary"], str):
        return False
    try:
        binascii.a2b_base64(value["$binary"], strict_mode=True)
    except (binascii.Error, ValueError):
        return False
    return True

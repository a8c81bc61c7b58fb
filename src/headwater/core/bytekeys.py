"""Values as byte keys whose unsigned byte order is the order of the values: one codec for SQLite, Cassandra and page cursors.

Order across types: null < number < text < everything else (bytes, false, true, lists, objects). Numbers compare by value, whatever
their type: 1, 1.0 and Decimal("1.00") have one key. Text compares by code point, which is UTF-8's byte order.

    null     05
    number   10 exponent digits 00, every byte after the tag inverted     below zero
             11                                                           zero
             12 exponent digits 00                                        above zero
    text     20 UTF-8 with 00 written as 00 FF, then 00 00
    bytes    30 the same escape and end
    false    38
    true     39
    list     40 the elements' keys, then 00
    object   41 name and value pairs in order of the names, then 00

The exponent is that of the first digit. One byte, exponent + 128, from -96 to 95; beyond that E0 + n above or 1F - n below, and
n bytes of it, inverted below. The digits are ASCII without trailing zeros.

No key is the beginning of another, so keys written one after the other compare field by field. A descending field has every byte
inverted. Nothing here depends on the process, the machine or the version of Python: keys may be stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from headwater.core.errors import BadInput

_INVERTED = bytes(range(255, -1, -1))
_SMALL = range(-96, 96)
_FAR_ABOVE, _FAR_BELOW = 0xE0, 0x1F
_DEEPEST = 64  # lists in lists; a crafted cursor must not end the process by recursion


def encode(values: Sequence[Any], descending: Sequence[bool] = ()) -> bytes:
    """The key of several fields. `descending` says it per field; without it every field ascends.

    Errors: `BadInput` for a value that has no place in the order (NaN, infinity, a type that JSON does not have).
    """
    if not descending:
        return b"".join([_key(value, 0) for value in values])
    return b"".join(
        [_key(value, 0).translate(_INVERTED) if down else _key(value, 0) for value, down in zip(values, descending, strict=True)]
    )


def decode(key: bytes, descending: Sequence[bool] = ()) -> tuple[Any, ...]:
    """The values of a key; numbers come back as `Decimal`. `descending` as it was given to `encode`; without it every field ascends.

    Errors: `BadInput` for bytes that are no key of so many fields: a cursor from outside may hold anything.
    """
    values: list[Any] = []
    at = 0
    try:
        while at < len(key) if not descending else len(values) < len(descending):
            if descending and descending[len(values)]:
                value, length = _value(key[at:].translate(_INVERTED), 0, 0)
                at += length
            else:
                value, at = _value(key, at, 0)
            values.append(value)
    except (IndexError, ValueError, ArithmeticError) as problem:
        raise BadInput("These bytes are no key.", hint="Use a key or cursor as it was given.") from problem
    if encode(values, descending) != key:  # one value, one key: also refuses what follows the last field
        raise BadInput("These bytes are no key.", hint="Use a key or cursor with the order it was given for.")
    return tuple(values)


# -- writing ----------------------------------------------------------------------------------------------------


def _key(value: Any, depth: int) -> bytes:
    kind = type(value)
    if kind is str:
        return b"\x20%b\0\0" % value.encode("utf-8", "surrogatepass").replace(b"\0", b"\0\xff")
    if kind is Decimal:
        return _number(value)
    if value is None:
        return b"\x05"
    if isinstance(value, bool):
        return b"\x39" if value else b"\x38"
    if isinstance(value, int):
        return _number(Decimal(value))
    if isinstance(value, float):
        return _number(Decimal(repr(float(value))))  # the shortest decimal that reads back: 0.1 and Decimal("0.1") are one value
    if isinstance(value, bytes):
        return b"\x30%b\0\0" % value.replace(b"\0", b"\0\xff")
    if depth >= _DEEPEST:
        raise BadInput(f"Lists and objects more than {_DEEPEST} deep have no key.", hint="Choose a field further in.")
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        pairs = sorted((_key(str(name), 0), _key(inner, depth + 1)) for name, inner in value.items())
        return b"\x41%b\0" % b"".join([name + inner for name, inner in pairs])
    if isinstance(value, list | tuple):
        return b"\x40%b\0" % b"".join([_key(inner, depth + 1) for inner in value])
    if isinstance(value, str):
        return _key(str(value), depth)
    raise BadInput(
        f"A {kind.__name__} has no place in the order of values.", hint="Use null, numbers, text, bytes, booleans, lists or objects."
    )


def _number(value: Decimal) -> bytes:
    # format(…, "E") writes the first digit before the point and the exponent after the E: several times as fast as as_tuple.
    mantissa, written, exponent = format(value, "E").partition("E")
    if not written:
        raise BadInput(f"{value} has no place in the order of numbers.", hint="Use a finite number, or null.")
    if mantissa[0] == "-":
        digits = mantissa[1:].replace(".", "", 1).rstrip("0")
        head = _BELOW_HEADS.get(exponent) or b"\x10" + _exponent(int(exponent)).translate(_INVERTED)
        return b"%b%b\xff" % (head, digits.encode().translate(_INVERTED)) if digits else b"\x11"
    digits = mantissa.replace(".", "", 1).rstrip("0")
    head = _ABOVE_HEADS.get(exponent) or b"\x12" + _exponent(int(exponent))
    return b"%b%b\0" % (head, digits.encode()) if digits else b"\x11"


def _exponent(exponent: int) -> bytes:
    if exponent in _SMALL:
        return bytes([exponent + 128])
    far = abs(exponent).to_bytes((abs(exponent).bit_length() + 7) // 8, "big")
    if exponent > 0:
        return b"%c%b" % (_FAR_ABOVE + len(far), far)
    return b"%c%b" % (_FAR_BELOW - len(far), far.translate(_INVERTED))


# The first bytes of ordinary numbers by the exponent as `format` writes it: "+2" and "-7".
_ABOVE_HEADS = {f"{exponent:+d}": b"\x12" + _exponent(exponent) for exponent in _SMALL}
_BELOW_HEADS = {f"{exponent:+d}": b"\x10" + _exponent(exponent).translate(_INVERTED) for exponent in _SMALL}


# -- reading ----------------------------------------------------------------------------------------------------


def _value(key: bytes, at: int, depth: int) -> tuple[Any, int]:
    """The value at a position, and the position after it. Raises ValueError or IndexError for what is no key."""
    tag = key[at]
    at += 1
    match tag:
        case 0x05:
            return None, at
        case 0x11:
            return Decimal(0), at
        case 0x10 | 0x12:
            return _decimal(key, at, below=tag == 0x10)
        case 0x38 | 0x39:
            return tag == 0x39, at
        case 0x20:
            raw, at = _escaped(key, at)
            return raw.decode("utf-8", "surrogatepass"), at
        case 0x30:
            return _escaped(key, at)
        case 0x40 | 0x41 if depth < _DEEPEST:
            items: list[Any] = []
            while key[at] != 0:
                item, at = _value(key, at, depth + 1)
                items.append(item)
            return (items if tag == 0x40 else _pairs(items)), at + 1
    raise ValueError(f"no type has the tag {tag:02x}")


def _pairs(items: list[Any]) -> dict[str, Any]:
    names, values = items[::2], items[1::2]
    if len(names) != len(values) or not all(isinstance(name, str) for name in names):
        raise ValueError("an object is made of names and values")
    return dict(zip(names, values, strict=True))


def _escaped(key: bytes, at: int) -> tuple[bytes, int]:
    parts: list[bytes] = []
    while True:
        zero = key.index(0, at)
        parts.append(key[at:zero])
        if key[zero + 1] == 0:
            return b"\0".join(parts), zero + 2
        if key[zero + 1] != 0xFF:
            raise ValueError("a zero byte must be followed by 00 or FF")
        at = zero + 2


def _decimal(key: bytes, at: int, *, below: bool) -> tuple[Decimal, int]:
    flip = 0xFF if below else 0
    first = key[at] ^ flip
    count = max(first - _FAR_ABOVE, _FAR_BELOW - first, 0)
    far = first - 128 not in _SMALL
    if far and not 1 <= count <= 8:
        raise ValueError("no exponent begins so")
    end = key.index(flip, at + 1 + (count if far else 0))
    body = key[at:end].translate(_INVERTED) if below else key[at:end]
    if not far:
        exponent, digits = first - 128, body[1:]
    elif first > 128:
        exponent, digits = int.from_bytes(body[1 : 1 + count], "big"), body[1 + count :]
    else:
        exponent, digits = -int.from_bytes(body[1 : 1 + count].translate(_INVERTED), "big"), body[1 + count :]
    if not digits.isdigit():
        raise ValueError("a number has digits")
    text = digits.decode("ascii")
    return Decimal(f"{'-' if below else ''}{text[0]}.{text[1:]}E{exponent}"), end + 1

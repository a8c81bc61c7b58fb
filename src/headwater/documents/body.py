"""Bodies of documents and items: how they are read, what is kept of them, and their bytes.

    read_body(b'{"a": 1.10, "b": null}')        {"a": Decimal("1.10"), "b": None}
    without_nulls(…)                            {"a": Decimal("1.10")}
    body_bytes(…)                               b'{"a":1.10}'

Numbers keep their digits. Of a name that an object has twice the last value counts. NaN and Infinity are no JSON.
"""

from __future__ import annotations

from typing import Any

from headwater.core.document_errors import UnfitBody
from headwater.core.errors import BadInput, TooLarge
from headwater.wire import json
from headwater.wire.json import UNREADABLE, unreadable

DEEPEST = 64
"""Objects and arrays in each other: deeper values have no place in the order of an index (`headwater.core.bytekeys`)."""
ID = "id"

_read = json.decoder(object)


def read_body(data: bytes, *, limit: int | None = None) -> Any:
    """The value of a body. `limit`: the most bytes that it may have.

    Errors: `BadInput` for what is no JSON; `TooLarge`; `UnfitBody` for a value that is nested too deeply.
    """
    if limit is not None and len(data) > limit:
        raise TooLarge(f"The body has {len(data)} bytes.", hint=f"A body has at most {limit}.")
    if not data:
        raise BadInput("The request has no body.", hint="Send a JSON value, such as {}.")
    try:
        value = _read(data)
    except (*UNREADABLE, ValueError) as error:
        raise unreadable(error, (), forms="Send one JSON value in UTF-8.") from error
    if data.count(b"{") + data.count(b"[") > DEEPEST:  # else it cannot be nested more deeply, whatever stands in its texts
        check_depth(value)
    return value


def without_nulls(value: Any) -> Any:
    """The value without fields that are null, in objects in objects; what is in arrays stays as it is."""
    if type(value) is not dict:
        return value
    for inner in value.values():
        if inner is None or type(inner) is dict:
            return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value


def item_value(item: str, value: Any) -> dict[str, Any]:
    """The value of an item: an object with the item's id; null counts as an empty one. Errors: `UnfitBody` for other values."""
    if value is None:
        return {ID: item}
    if type(value) is not dict:
        raise UnfitBody(
            f"The item {item!r:.60} is {kind_of(value)}, and an item is an object.", hint=f'Send an object, such as {{"{ID}": …}}.'
        )
    if value.get(ID) == item:
        return value
    return {ID: item} | value | {ID: item}


def body_bytes(value: Any) -> bytes:
    """The bytes by which a value is kept: without blanks, the fields in the order in which they came. Errors: `UnfitBody`."""
    try:
        return json.encode(value)
    except (ValueError, OverflowError) as error:  # an integer of more digits than Python writes
        raise UnfitBody(f"The body cannot be kept: {error}.", hint="Send numbers with fewer digits.") from error


def state_value(body: bytes) -> Any:
    """The value of a body as it is kept."""
    return _read(body)


def kind_of(value: Any) -> str:
    """The JSON type of a value, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, dict):
        return "an object"
    return "an array" if isinstance(value, list) else "a number"


def check_depth(value: Any, left: int = DEEPEST) -> None:
    """Errors: `UnfitBody` for a value that is nested too deeply."""
    kind = type(value)
    if kind is not dict and kind is not list:
        return
    if left == 0:
        raise UnfitBody(f"The body is nested more than {DEEPEST} deep.", hint="Keep the inner part as text, or as a document of its own.")
    for inner in value.values() if kind is dict else value:
        if type(inner) is dict or type(inner) is list:
            check_depth(inner, left - 1)

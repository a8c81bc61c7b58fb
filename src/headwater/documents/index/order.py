"""Orders of items: fields up or down, and always the id last, so that no two items are at one place.

Across types: null < number < text < everything else. A missing field is null. Indexes, sorts in memory and page cursors use the same keys.
Long values are in order as far as their first 500 characters or 300 digits go, then by id: a key has to fit into the row of any store.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_DOWN, Context, Decimal
from typing import Any, Final, NamedTuple

from headwater.core import bytekeys
from headwater.core.document_errors import BadFilter
from headwater.core.errors import BadInput
from headwater.documents.filter.format import format_field
from headwater.documents.filter.parser import parse_field
from headwater.documents.filter.values import at_path

ID: Final = ("id",)
MOST_FIELDS: Final = 16
_INVERTED: Final = bytes(range(255, -1, -1))
MOST_TEXT: Final = 500
MOST_DIGITS: Final = 300
SURELY_WHOLE: Final = 300
"""Keys of so many bytes are of values that are not shortened."""
_MOST_BYTES: Final = 2000  # of a list or an object
_UNFIT: Final = bytekeys.encode(({},))  # a list or object that is too deep or too long: at one place, the same for every reader
_DIGITS: Final = Context(prec=MOST_DIGITS, rounding=ROUND_DOWN, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_PART = re.compile(r"((?:[^`,]|`[^`]*`)*)(,|\Z)")
_DIRECTION = re.compile(r"(.*?)\s*:\s*(asc|desc)\Z", re.DOTALL)


class OrderField(NamedTuple):
    """A field of an order."""

    names: tuple[str, ...]
    descending: bool = False

    @property
    def text(self) -> str:
        """The field as it is written in an order."""
        return f"{'-' if self.descending else ''}{format_field(self.names)}"


BY_ID: Final = OrderField(ID)


def parse_order(text: str) -> tuple[OrderField, ...]:
    """The fields of `+a,-b` or `a:asc,b:desc`; none where the text is blank. Errors: `BadFilter`."""
    fields: list[OrderField] = []
    at = 0
    while text.strip():
        match = _PART.match(text, at)
        if match is None:
            raise BadFilter(f"The order {text!r:.80} has a name whose back-tick is not closed.", hint="Write +a,-b or a:asc,b:desc.")
        fields.append(_field(text, match[1].strip()))
        at = match.end()
        if not match[2]:
            break
    if len(fields) > MOST_FIELDS:
        raise BadFilter(f"The order has {len(fields)} fields.", hint=f"An order has at most {MOST_FIELDS}.")
    return tuple(fields)


def total_order(fields: Sequence[OrderField]) -> tuple[OrderField, ...]:
    """The order that decides: without fields that are named again, and with the id as its last."""
    by_names: dict[tuple[str, ...], OrderField] = {}
    for field in (*fields, BY_ID):
        by_names.setdefault(field.names, field)
        if field.names == ID:
            break
    return tuple(by_names.values())


def order_key(order: Sequence[OrderField], item: str, body: Mapping[str, Any]) -> bytes:
    """The key of an item in an order: keys of its fields, one behind the other, a descending one inverted. Never raises for JSON."""
    return b"".join(
        [_directed(id_key(item) if names == ID else field_key(at_path(body, names)), descending) for names, descending in order]
    )


def id_key(item: str) -> bytes:
    """The key of an id, whole."""
    return bytekeys.encode((item,))


def field_key(value: Any) -> bytes:
    """The key of a field's value, of a bounded length: of two values, the greater one's is not the lesser. Never raises for JSON."""
    if type(value) is str:
        return bytekeys.encode((value[:MOST_TEXT],))
    try:
        key = bytekeys.encode((value,))
    except BadInput:
        return _UNFIT
    return key if len(key) <= SURELY_WHOLE else _shortened(value, key)


def _shortened(value: Any, key: bytes) -> bytes:
    if isinstance(value, list | tuple | dict):
        return key if len(key) <= _MOST_BYTES else _UNFIT
    return bytekeys.encode((_DIGITS.plus(Decimal(value)),))


def _directed(key: bytes, down: bool) -> bytes:
    return key.translate(_INVERTED) if down else key


def _field(order: str, text: str) -> OrderField:
    direction = _DIRECTION.match(text)
    name = direction[1] if direction else text
    descending = direction is not None and direction[2] == "desc"
    if name[:1] in ("+", "-") and direction is None:
        descending = name[0] == "-"
        name = name[1:].strip()
    if not name:
        raise BadFilter(f"The order {order!r:.80} has a field without a name.", hint="Write +a,-b or a:asc,b:desc.")
    return OrderField(parse_field(name).names, descending)

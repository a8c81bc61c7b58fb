"""PostgreSQL's types as JSON values: converted by the server for a copy, and from the server's text for changes.

Both give the same JSON for the same value, because ids are compared and hashed by it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

import msgspec

from headwater.core.errors import BadInput
from headwater.pipeline import values

Kind = Literal[
    "bool",
    "int",
    "decimal",
    "float",
    "text",
    "padded",
    "address",
    "moment",
    "date",
    "bytes",
    "uuid",
    "json",
    "list",
    "floats",
    "decimals",
    "texts",
]

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("int2", "int4", "int8", "oid"), "int"),
    **dict.fromkeys(("float4", "float8"), "float"),
    **dict.fromkeys(("timestamp", "timestamptz"), "moment"),
    **dict.fromkeys(("json", "jsonb"), "json"),
    "bool": "bool",
    "numeric": "decimal",
    "bpchar": "padded",
    "inet": "address",
    "date": "date",
    "bytea": "bytes",
    "uuid": "uuid",
}
_LISTS = frozenset({"list", "floats", "decimals", "texts"})
# Element types for which the server's JSON of an array equals ours of each element. For others it has objects, numbers or padded text.
_PLAIN_LISTS = frozenset({"bool", "int2", "int4", "int8", "inet", "json", "jsonb"})


class Type(msgspec.Struct, frozen=True):
    """A type, domains resolved: its kind, and that of its elements where it is a list."""

    kind: Kind
    element: Kind | None = None


def type_of(name: str, element: str | None) -> Type:
    """The type of these names in the catalog; `element` is an array's element type. Unknown types are text."""
    if element is None:
        return Type(_KINDS.get(name, "text"))
    if _KINDS.get(element) == "float":
        return Type("floats", "float")
    if _KINDS.get(element) == "decimal":
        return Type("decimals", "decimal")
    if element in _PLAIN_LISTS:
        return Type("list", _KINDS[element])
    # All others are PostgreSQL's text, which it reads back.
    return Type("texts", "padded" if element == "bpchar" else "text")


def json_of(kind: Kind, column: str) -> str:
    """An SQL expression: the column's value as JSON text, NULL as NULL. `column` is quoted already."""
    match kind:
        case "bool" | "int":
            return f"{column}::text"
        case "decimal":  # without a point it would read as an integer, and NaN and the infinities are no JSON
            return f"""CASE WHEN position('.' in {column}::text) > 0 THEN {column}::text ELSE '{{"$numberDecimal":"'||{column}||'"}}' END"""
        case "float":
            return f"""'{{"$numberDouble":"'||{column}||'"}}'"""
        case "moment" | "date":
            text = f"{column}||'T00:00:00.000'"
            if kind == "moment":
                text = f"to_char({column}, 'YYYY-MM-DD\"T\"HH24:MI:SS.US')"
                text = f"CASE WHEN right({text}, 3) = '000' THEN left({text}, 23) ELSE {text} END"
            usual = f"{column} >= '0001-01-01' AND {column} < '10000-01-01'"
            return f"""CASE WHEN {usual} THEN '{{"$date":"'||{text}||'Z"}}' ELSE to_json({column}::text)::text END"""
        case "bytes":
            return f"""'{{"$binary":{{"base64":"'||translate(encode({column},'base64'),E'\\n','')||'","subType":"00"}}}}'"""
        case "uuid":
            return f"""'{{"$uuid":"'||{column}||'"}}'"""
        case "json":
            return f"{column}::text"
        case "list" | "address":  # a cast of inet to text adds a mask that PostgreSQL does not print: 10.0.0.1/32
            return f"to_json({column})::text"
        case "floats":
            return f"""regexp_replace(to_json({column}::text[])::text, '"([^"]+)"', '{{"$numberDouble":"\\1"}}', 'g')"""
        case "decimals":
            plain = f"""regexp_replace(to_json({column}::text[])::text, '"(-?[0-9]+\\.[0-9]+)"', '\\1', 'g')"""
            return f"""regexp_replace({plain}, '"([^"]+)"', '{{"$numberDecimal":"\\1"}}', 'g')"""
        case "texts":
            return f"to_json({column}::text[])::text"
        case _:
            return f"to_json({column}::text)::text"


def converter(kind: Type) -> Callable[[str], Any]:
    """The function from PostgreSQL's text of a value to its JSON: the same that `json_of` gives."""
    if kind.kind in _LISTS:
        element = Type(kind.element or "text")
        return lambda text: _list(text, element)
    return _CONVERTERS.get(kind.kind, str)


def _decimal(text: str) -> Any:
    return Decimal(text) if text[-1].isdigit() else {"$numberDecimal": text}


def _binary(text: str) -> Any:
    return {"$binary": {"base64": base64.b64encode(bytes.fromhex(text[2:])).decode(), "subType": "00"}}


def _moment(text: str, *, whole_day: bool) -> Any:
    if whole_day:
        return {"$date": f"{text}T00:00:00.000Z"} if len(text) == 10 and text[4] == "-" else text
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError:
        return text  # infinity, or outside of the years 1 to 9999
    return values.extended(stamp.astimezone(UTC) if stamp.tzinfo else stamp)


def _list(text: str, element: Type) -> list[Any]:
    """An array's text, `{1,NULL,"a b",{...}}`, perhaps with its bounds before it."""
    if text.startswith("["):
        text = text.partition("=")[2]
    items, end = _items(text, 1, element)
    if end != len(text):
        raise BadInput(f"PostgreSQL gave an array that cannot be understood: {text[:100]!r}.")
    return items


def _items(text: str, at: int, element: Type) -> tuple[list[Any], int]:
    out: list[Any] = []
    while text[at] != "}":
        if text[at] == ",":
            at += 1
        elif text[at] == "{":
            inner, at = _items(text, at + 1, element)
            out.append(inner)
        elif text[at] == '"':
            letters: list[str] = []
            at += 1
            while text[at] != '"':
                at += text[at] == "\\"
                letters.append(text[at])
                at += 1
            out.append(converter(element)("".join(letters)))
            at += 1
        else:
            end = at
            while text[end] not in ",}":
                end += 1
            out.append(None if text[at:end] == "NULL" else converter(element)(text[at:end]))
            at = end
    return out, at + 1


_CONVERTERS: dict[Kind, Callable[[str], Any]] = {
    "bool": lambda text: text == "t",
    "int": int,
    "decimal": _decimal,
    "float": float,
    "moment": lambda text: _moment(text, whole_day=False),
    "date": lambda text: _moment(text, whole_day=True),
    "bytes": _binary,
    "uuid": lambda text: {"$uuid": text},
    "json": values.decode_any,
    "padded": lambda text: text.rstrip(" "),
}

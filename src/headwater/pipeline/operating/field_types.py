"""The types of the fields of some documents, by namespace, and the fields that have several."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from headwater.pipeline import values
from headwater.pipeline.message import Message

_NUMBERS = frozenset({"integer", "decimal", "float"})
_SHOWN = 40  # characters of an example


class TypeCount(msgspec.Struct, frozen=True):
    """How many documents have a type in a field, and the first value of it as JSON."""

    type: str
    documents: int
    example: str


class FieldTypes(msgspec.Struct, frozen=True):
    """The types of one field, the most frequent first; `null` is one of them."""

    name: str
    types: list[TypeCount]

    @property
    def mixed(self) -> bool:
        """Whether a table has no column for all of them. Integers fit among decimals and among floats."""
        kinds = {count.type for count in self.types} - {"null"}
        return len(kinds) > 1 and not (kinds <= _NUMBERS and "integer" in kinds and len(kinds) == 2)

    def __str__(self) -> str:
        kinds = [count.type for count in self.types if count.type != "null"]
        nulls = sum(count.documents for count in self.types if count.type == "null")
        return f"{self.name} {' or '.join(kinds) or 'null'}" + (f" (null in {nulls})" if nulls and kinds else "")

    @property
    def warning(self) -> str:
        """The field's types with how often they are, and examples of all but the first."""
        first, *others = (count for count in self.types if count.type != "null")
        rest = "".join(f", {count.type} in {count.documents}: {count.example}" for count in others)
        return f"{self.name}: {first.type} in {first.documents} {'document' if first.documents == 1 else 'documents'}{rest}"


class NamespaceTypes(msgspec.Struct, frozen=True):
    """The fields of a namespace, in the order in which they appear."""

    namespace: str
    documents: int
    fields: list[FieldTypes]


def types_in(messages: Iterable[Message]) -> list[NamespaceTypes]:
    """The types of the top-level fields of these messages' documents."""
    namespaces: dict[str, dict[str, dict[str, TypeCount]]] = {}
    counts: dict[str, int] = {}
    for message in messages:
        counts[message.namespace] = counts.get(message.namespace, 0) + 1
        fields = namespaces.setdefault(message.namespace, {})
        for name, value in message.data.items():
            kinds = fields.setdefault(name, {})
            kind = type_name(value)
            known = kinds.get(kind)
            kinds[kind] = TypeCount(kind, known.documents + 1, known.example) if known else TypeCount(kind, 1, _example(value))
    return [
        NamespaceTypes(namespace, counts[namespace], [FieldTypes(name, _ordered(kinds)) for name, kinds in fields.items()])
        for namespace, fields in namespaces.items()
    ]


def type_name(value: Any) -> str:
    """The name of a value's type, as people are told it."""
    if isinstance(value, dict) and value.keys() == {"$oid"}:
        return "object id"
    match values.native(value):
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "float"
        case Decimal():
            return "decimal"
        case str():
            return "text"
        case datetime():
            return "date"
        case bytes():
            return "binary"
        case UUID():
            return "uuid"
        case list():
            return "list"
    return "object"


def _ordered(kinds: dict[str, TypeCount]) -> list[TypeCount]:
    return sorted(kinds.values(), key=lambda count: -count.documents)


def _example(value: Any) -> str:
    text = values.encode(value).decode()
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"

"""The types of a sample: what is told of fields, and which mixtures are warned of."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from headwater.pipeline.message import Message
from headwater.pipeline.operating.field_types import type_name, types_in


def found(*documents: dict[str, Any], namespace: str = "orders") -> list[Any]:
    [one] = types_in(Message(namespace, data) for data in documents)
    assert (one.namespace, one.documents) == (namespace, len(documents))
    return one.fields


def test_a_mixture_is_told_with_counts_and_the_first_value_of_each_other_type() -> None:
    rows = [{"price": Decimal("1.25")}] * 412 + [{"price": "N/A"}] * 3 + [{"price": None}]
    [price] = found(*rows)
    assert price.mixed
    assert price.warning == 'price: decimal in 412 documents, text in 3: "N/A"'
    assert str(price) == "price decimal or text (null in 1)"


@pytest.mark.parametrize(
    ("given", "mixed"),
    [
        ([1, 2], False),
        ([1, None], False),
        ([1, Decimal("1.0")], False),
        ([1, 1.0], False),
        ([Decimal("1.0"), 1.0], True),
        ([1, 1.0, Decimal("1.0")], True),
        ([1, "1"], True),
        ([1, True], True),
        ([[], {}], True),
        ([None], False),
    ],
)
def test_integers_fit_among_decimals_and_floats_and_nothing_else_mixes(given: list[Any], mixed: bool) -> None:
    [field] = found(*({"f": value} for value in given))
    assert field.mixed is mixed


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        (True, "boolean"),
        (7, "integer"),
        ({"$numberLong": "7"}, "integer"),
        (0.5, "float"),
        (Decimal(5), "decimal"),
        ({"$numberDecimal": "NaN"}, "decimal"),
        ("x", "text"),
        ({"$oid": "507f1f77bcf86cd799439011"}, "object id"),
        ({"$date": "2024-02-29T12:00:00.000Z"}, "date"),
        ({"$binary": {"base64": "AAE=", "subType": "00"}}, "binary"),
        ({"$uuid": "3b241101-e2bb-4255-8caf-4136c566a962"}, "uuid"),
        ([1], "list"),
        ({"a": 1}, "object"),
    ],
)
def test_every_type_has_a_name(value: Any, name: str) -> None:
    assert type_name(value) == name


def test_fields_come_in_their_order_and_long_examples_are_cut() -> None:
    fields = found({"b": 1, "a": None}, {"a": "x" * 100, "b": "y" * 100})
    assert [str(one) for one in fields] == ["b integer or text", "a text (null in 1)"]
    assert fields[0].warning.startswith('b: integer in 1 document, text in 1: "yyy')
    assert len(fields[0].warning) < 90

"""Orders: how they are written, and that the id always decides last."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from headwater.core.document_errors import BadFilter
from headwater.documents.index.order import BY_ID, OrderField, field_key, id_key, order_key, parse_order, total_order

A, B = OrderField(("a",)), OrderField(("b",))
DOWN = OrderField(("b",), descending=True)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", ()),
        ("  ", ()),
        ("a", (A,)),
        ("+a,-b", (A, DOWN)),
        (" a , - b ", (A, DOWN)),
        ("a:asc,b:desc", (A, DOWN)),
        ("a : asc", (A,)),
        ("a.b.c", (OrderField(("a", "b", "c")),)),
        ("-`a,b`", (OrderField(("a,b",), descending=True),)),
        ("`a:desc`", (OrderField(("a:desc",)),)),
        ("null", (OrderField(("null",)),)),
    ],
)
def test_orders_are_read(text: str, fields: tuple[OrderField, ...]) -> None:
    assert parse_order(text) == fields
    assert parse_order(",".join(field.text for field in fields)) == fields


@pytest.mark.parametrize("text", [",", "a,", ",a", "+", "a b", "a:down", "`a", "a;b", "1", ",".join("abcdefghijklmnopq"), "--a"])
def test_what_is_no_order_is_refused(text: str) -> None:
    with pytest.raises(BadFilter):
        parse_order(text)


def test_the_id_is_last() -> None:
    assert total_order(()) == (BY_ID,)
    assert total_order((A, DOWN, A)) == (A, DOWN, BY_ID)
    assert total_order((A, BY_ID, B)) == (A, BY_ID)
    assert total_order((OrderField(("id",), descending=True), A)) == (OrderField(("id",), descending=True),)


def test_keys_have_the_order_of_the_values() -> None:
    bodies: list[dict[str, Any]] = [{}, {"a": -1}, {"a": 2}, {"a": "x"}, {"a": True}, {"a": []}, {"a": {}}]
    keys = [order_key((A, BY_ID), "i", body) for body in bodies]
    assert keys == sorted(keys)
    down = [order_key((OrderField(("a",), descending=True), BY_ID), "i", body) for body in bodies]
    assert down == sorted(down, reverse=True)
    assert order_key((A, BY_ID), "1", {"a": 1}) < order_key((A, BY_ID), "2", {"a": 1.0})


def test_no_value_is_unfit() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    assert field_key(deep) == field_key({})
    assert field_key(["x" * 5000]) == field_key({})


def test_keys_of_long_values_are_short_and_in_order() -> None:
    texts = ["x" * 499, "x" * 500, "x" * 501, "x" * 10_000, "x" * 500 + "y", "y"]
    keys = [field_key(text) for text in texts]
    assert keys == sorted(keys)
    assert max(map(len, keys)) < 510
    numbers = [-(10**900), -123456789, 0, int("9" * 299), int("9" * 301), int("9" * 302) + 1, Decimal("1.5e400"), 10**4000]
    keys = [field_key(number) for number in numbers]
    assert keys == sorted(keys)
    assert max(map(len, keys)) < 320
    assert id_key("x" * 2000) != id_key("x" * 2001)

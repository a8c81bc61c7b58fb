"""Choices of namespaces."""

from __future__ import annotations

import pickle

import pytest

from headwater.core.errors import BadConfig
from headwater.pipeline.namespaces import Namespaces


@pytest.mark.parametrize(
    ("expression", "inside", "outside"),
    [
        (".*", ["", "a", "public.orders", "with\nnewline"], []),
        ("", ["a", ""], []),
        ("/", ["a"], []),
        ("orders", ["orders", "public.orders", "old_orders_2"], ["order", "ORDERS"]),
        (r"^public\.orders$", ["public.orders"], ["xpublic.orders", "public.orders2", "publicXorders"]),
        (r"/^public\./", ["public.orders"], ["private.public."]),
        ("//a//", ["a"], ["b"]),
        ("^(a|b)$", ["a", "b"], ["ab"]),
        ("(?i)orders", ["ORDERS"], ["order"]),
        ("a/b", ["a/b"], ["ab"]),
    ],
)
def test_an_expression_is_searched_anywhere(expression: str, inside: list[str], outside: list[str]) -> None:
    chosen = Namespaces(expression)
    assert [name for name in inside if name not in chosen] == []
    assert [name for name in outside if name in chosen] == []


def test_everything_is_known_as_such() -> None:
    assert Namespaces().everything
    assert Namespaces("//").everything
    assert not Namespaces("a").everything


@pytest.mark.parametrize("expression", ["(", "[a", "*", None, 5])
def test_what_is_no_expression_is_refused(expression: str) -> None:
    with pytest.raises(BadConfig, match="namespace") as problem:
        Namespaces(expression)
    assert r"^public\.orders$" in problem.value.hint


def test_choices_travel_and_compare() -> None:
    chosen = Namespaces(r"/^public\./")
    back = pickle.loads(pickle.dumps(chosen))
    assert back == chosen
    assert hash(back) == hash(chosen)
    assert "public.a" in back
    assert "a" not in back
    assert back != Namespaces("a")
    assert str(chosen) == r"^public\."
    assert eval(repr(chosen)) == chosen

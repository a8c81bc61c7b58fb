"""Evaluation: the rules of the language, one by one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from headwater.documents.filter.evaluate import Verdict, compile_filter
from headwater.documents.filter.values import EvaluationError

BODY: dict[str, Any] = {
    "id": "k1",
    "a": 10,
    "price": Decimal("9.90"),
    "t": "text",
    "yes": "yes",
    "on": True,
    "off": False,
    "tags": ["x", "y", 3],
    "o": {"x": 1, "in": {"deep": None}},
    "odd name": 1,
    "null": 4,
    "nullable": 5,
}

TRUE = [
    *["a = 10", "a = 10.0", "10 = a", "price = 9.9", "t = 'text'", 't = "text"', "on = true", "tags = ['x', 'y', 3.0]", "o.x = 1"],
    *["`odd name` = 1", "`null` = 4", "nullable = 5", "a != '10'", "on != 1", "a != null", "!(a = null)"],
    *["missing = null", "missing is null", "o.y is null", "t.x is null", "missing.x is null", "a is not null", "o.`in`.deep = null"],
    *["a > 9", "a >= 10", "a < 11", "a <= 10", "t > 'a'", "t < 'u'", "id > 'k'", "missing <= null", "missing >= null"],
    *["!(missing < 3)", "!(missing > 3)", "!(a < '9')", "!(a > '9')", "!(t > 3)", "!(on > off)", "!(on >= on)", "!(tags <= tags)"],
    *[
        "on and a = 10",
        "off or a = 10",
        "on xor off",
        "!off",
        "not off",
        "!(on and off)",
        "missing or a = 10",
        "yes and on",
        "!(missing and on)",
    ],
    *["a and 2", "(a and 6) = 2", "(a or 5) = 15", "(a xor 3) = 9", "a and on", "a = 10 or t + 1 = 2", "!(a = 11 and t + 1 = 2)"],
    *[
        "tags has 'x'",
        "tags has ['x', 3]",
        "tags has not 'z'",
        "tags has not ['x', 'z']",
        "t has 'ex'",
        "o has 'x'",
        "o has not 'y'",
        "tags has []",
    ],
    *["missing has not 'x'", "!(a has 1)", "['a', 't', 'text'] has t", "t has ['te', 'xt']"],
    *["t like 'ex'", "t like '^te.t$'", "t not like '^ex'", "!(missing like 'x')", "missing not like 'x'", "!(a like '1')"],
    *["a + 1 = 11", "a - 1 = 9", "a * 2 = 20", "a / 4 = 2.5", "a % 3 = 1", "-a = -10", "t + 's' = 'texts'", "0.1 + 0.2 = 0.3"],
    *[
        "(tags ++ ['z']) has 'z'",
        "(tags ++ 'z') has 'z'",
        "(tags -- ['x']) has not 'x'",
        "(tags -- 'x') = ['y', 3]",
        "(o -- 'x') has not 'x'",
    ],
    *["a", "yes", "on", "1", "true"],
]


@pytest.mark.parametrize("text", TRUE)
def test_what_is_true(text: str) -> None:
    assert compile_filter(text).verdict(BODY) is Verdict.ACCEPTED


@pytest.mark.parametrize(
    "text",
    ["a = '10'", "on = 1", "missing < 3", "missing > 3", "missing", "!missing", "null", "0", "off", "a and 4", "tags has 'z'", "false"],
)
def test_what_is_false(text: str) -> None:
    assert compile_filter(text).verdict(BODY) is Verdict.REJECTED


@pytest.mark.parametrize(
    "text", ["t", "tags", "o", "t and on", "t + 1 = 2", "missing + 1 = 2", "a / 0 = 1", "t like a", "-t = 1", "a ++ 1 = 2", "t or on"]
)
def test_what_has_no_value(text: str) -> None:
    assert compile_filter(text).verdict(BODY) is Verdict.FAILED


def test_the_second_operand_is_looked_at_where_the_first_does_not_decide() -> None:
    assert compile_filter("off and t").accepts(BODY) is False
    assert compile_filter("off and t").verdict(BODY) is Verdict.REJECTED
    assert compile_filter("on or t").verdict(BODY) is Verdict.ACCEPTED
    assert compile_filter("on and t").verdict(BODY) is Verdict.FAILED


def test_values_of_expressions() -> None:
    assert compile_filter("a * 2").value(BODY) == 20
    assert compile_filter("tags ++ 1").value(BODY) == ["x", "y", 3, 1]
    with pytest.raises(EvaluationError):
        compile_filter("t * 2").value(BODY)


def test_the_same_text_is_compiled_once() -> None:
    assert compile_filter("a = 1") is compile_filter("a = 1")

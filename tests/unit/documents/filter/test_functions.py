"""The functions of filters."""

from __future__ import annotations

import pytest

from headwater.documents.filter.evaluate import Verdict, compile_filter
from headwater.documents.filter.functions import FUNCTIONS

BODY = {"id": "x", "t": "Hello", "l": [1, "b"], "o": {"x": 1}, "n": 5, "flag": True, "empty": ""}


@pytest.mark.parametrize(
    "text",
    [
        *["case(1, 'a', 'b') = 'a'", "case(2, 'a', 'b') = 'b'", "case(n - 4, t, id) = 'Hello'"],
        *["isEmpty('')", "isEmpty(empty, missing)", "isEmpty([])", "isEmpty({})", "!isEmpty(t)", "!isEmpty(0)", "!isEmpty(empty, t)"],
        *["isExists(t)", "!isExists(missing)", "!isExists(o.y)", "isExists(o.x)", "!isExists(t, missing)", "!isExists(t + 1)"],
        *["length(t) = 5", "length(l) = 2", "length(o) = 1", "length(t, l) = 7", "length(missing) = 0"],
        *["upper(t) = 'HELLO'", "lower(t) = 'hello'", "compareIgnoreCase(t, 'HELLO') = 0", "compareIgnoreCase('a', 'B') < 0"],
        *["split('a,b,c', ',') = ['a', 'b', 'c']", r"split('a1b22c', '\\d+') = ['a', 'b', 'c']", "split('a,b,,', ',') = ['a', 'b']"],
        *["split('abc', '') = ['a', 'b', 'c']", "split('abc', 'x') = ['abc']", "split('', ',') = ['']", "split(t, 'l+') has 'He'"],
        *["indexOf(t, 'l') = 2", "indexOf(t, 'x') = -1", "substr(t, 1) = 'ello'", "substr(t, 1, 3) = 'el'"],
        *["apply(l, 1) = 'b'", "apply(t, 0) = 'H'"],
    ],
)
def test_what_is_true(text: str) -> None:
    assert compile_filter(text).verdict(BODY) is Verdict.ACCEPTED


@pytest.mark.parametrize(
    "text",
    [
        *["case(0, 'a') = 'a'", "case(3, 'a', 'b') = 'a'", "case('1', 'a') = 'a'", "case(1.5, 'a', 'b') = 'a'"],
        *["length(n) = 1", "length(flag) = 1", "upper(n) = '5'", "lower(missing) = ''", "split(n, ',') = []", "split(t, n) = []"],
        *["indexOf(missing, 'x') = 0", "substr(t, 9) = ''", "substr(t, 3, 1) = ''", "substr(t, -1) = 'o'", "substr(missing, 0) = ''"],
        *["compareIgnoreCase(n, 'a') = 0", "apply(l, 2) = 1", "apply(l, -1) = 1", "apply(n, 0) = 5", "apply(o, 0) = 1"],
    ],
)
def test_what_has_no_value_rejects_the_item(text: str) -> None:
    assert compile_filter(text).verdict(BODY) is Verdict.FAILED


def test_every_function_says_how_it_is_written() -> None:
    assert all(function.form.startswith(f"{name}(") for name, function in FUNCTIONS.items())

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.document_errors import UnfitBody
from headwater.documents.body import without_nulls
from headwater.documents.patch import NoMergePatch, increment, merge_between, merge_patch, same_value

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)

# The appendix of RFC 7386.
RFC: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "result"), RFC)
def test_merge_patches_are_those_of_the_standard(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


@given(VALUES.map(without_nulls), VALUES.map(without_nulls))
def test_the_patch_between_two_values_turns_one_into_the_other(old: Any, new: Any) -> None:
    assert same_value(merge_patch(old, merge_between(old, new)), new)


def test_a_null_has_no_merge_patch() -> None:
    with pytest.raises(NoMergePatch):
        merge_between({}, {"a": {"b": None}})
    assert merge_between({"a": 1, "b": 2, "c": {"d": 1, "e": 2}}, {"b": 2, "c": {"d": 1, "e": 3}}) == {"a": None, "c": {"e": 3}}


def test_increments_are_exact() -> None:
    target = {"n": 1, "price": Decimal("1.10"), "deep": {"m": 0.1}}
    sums = {"n": 3, "price": Decimal("1.30"), "deep": {"m": Decimal("0.3")}, "new": -3}
    assert increment(target, {"n": 2, "price": 0.2, "deep": {"m": 0.2}, "new": -3}) == sums
    assert target["n"] == 1
    assert increment(5, 6) == 11
    assert increment(10**30, 1) == 10**30 + 1


@pytest.mark.parametrize(
    ("target", "amounts", "named"),
    [
        ({"a": "x"}, {"a": 1}, "'a'"),
        ({"a": {"b": True}}, {"a": {"b": 1}}, "'a.b'"),
        ({"a": 1}, {"a": {"b": 1}}, "'a'"),
        ({"a": 1}, {"a": "1"}, "'a'"),
        ({"a": 1}, {"a": None}, "null"),
        ({"a": Decimal("1e900")}, {"a": Decimal("1e-900")}, "digits"),
        ({"a": Decimal("1e999999")}, {"a": 1}, "digits"),
        ([1], 1, "body"),
    ],
)
def test_an_increment_names_what_does_not_fit(target: Any, amounts: Any, named: str) -> None:
    with pytest.raises(UnfitBody, match=named):
        increment(target, amounts)


def test_values_are_compared_as_json() -> None:
    assert same_value(1, Decimal("1.00"))
    assert same_value(0.1, Decimal("0.10"))
    assert not same_value(True, 1)
    assert not same_value([1], [True])
    assert same_value({"a": 1, "b": 2}, {"b": 2.0, "a": 1})
    assert not same_value("1", 1)

"""Implication: the examples of the docs, and no wrong proof for random filters and items."""

from __future__ import annotations

import random

import pytest

from headwater.documents.filter.evaluate import Filter, Verdict
from headwater.documents.filter.imply import implies, known_values
from headwater.documents.filter.parser import parse_filter
from headwater.documents.filter.ranges import KeyRanges, compared
from headwater.documents.filter.tree import constant
from headwater.testing.filter_samples import random_filter, random_item


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("a > 10", "a > 5"),
        ('a > 10 and id > "abc"', "a > 5"),
        ('id > "abc" and 10 < a', "5 < a"),
        ("a > 5", "a >= 5"),
        ("a = 10", "a > 5"),
        ("a = 10", "a >= 10 and a <= 10"),
        ("a = 10 or a = 20", "a > 5"),
        ("a > 10 and b = 1", "b = 1 and a > 5"),
        ("a > 10", "a > 5 or b = 1"),
        ("a > 10", "a is not null"),
        ("a > 10", "!(a <= 5)"),
        ("!(a != 3)", "a = 3"),
        ("!(a < 5 or b < 3)", "!(a < 5)"),
        ("!(a = 1 and b = 2) and a = 1", "!(b = 2)"),
        ("a != null", "!(a = null)"),
        ("a = null", "a <= null"),
        ("tags has ['x', 'y']", "tags has 'x'"),
        ("tags has ['x', 'y', 'z']", "tags has ['z', 'x']"),
        ("tags has not 'x'", "tags has not ['x', 'y']"),
        ("tags has 'x'", "tags is not null"),
        ("a like '^x'", "a >= ''"),
        ("a > 3", "a > 5 or a < 7"),
        ("a = 'x'", "['x', 'y'] has a"),
        ("length(a) > 3 and b = 2", "length(a) > 3"),
        ("a > 'k' and a > 'b'", "a > 'c'"),
        ("id = 'a'", "id is not null"),
        ("false", "a = 3"),
        ("a", "b = 1 or a"),
        ("a > 1.5", "a > 1.25"),
    ],
)
def test_a_filter_implies_a_wider_one(query: str, index: str) -> None:
    assert implies(parse_filter(query), parse_filter(index))


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("a > 5", "a > 10"),
        ("10 > a", "5 > a"),
        ("tags has ['a', 'b']", "tags has ['a', 'b', 'c']"),
        ("a < 5", "a < 'x'"),
        ("!(a > 5)", "a <= 5"),  # a missing field, or a text
        ("a != 5", "a is not null"),
        ("a or b = 1", "a"),
        ("a and b", "a"),  # bits of two numbers
        ("b = 1", "length(a) > 3 or b = 1"),  # the index's filter fails for an item without a
        ("b = 1", "a or b = 1"),
        ("!a", "a = false"),
        ("a >= null", "a > 3"),
        ("tags has not ['x', 'y']", "tags has not 'x'"),
        ("['x', 'y'] has a", "a = 'x' or a = 'y'"),  # a may be a list
    ],
)
def test_no_filter_implies_a_narrower_one(query: str, index: str) -> None:
    assert not implies(parse_filter(query), parse_filter(index))


def test_everything_implies_no_filter_and_no_filter_implies_what_is_always_true() -> None:
    assert implies(parse_filter("a = 1"), None)
    assert implies(None, None)
    assert implies(None, parse_filter("id > ''")) is False
    assert implies(None, parse_filter("id >= ''"))
    assert not implies(None, parse_filter("a > 1"))


def test_many_alternatives_are_left_unknown() -> None:
    chain = " or ".join(f"(a = {number} and b = {number})" for number in range(100))
    assert not implies(parse_filter(chain), parse_filter("a >= 0"))
    assert implies(parse_filter(f"({chain}) and c = 1"), parse_filter("c > 0"))


def test_many_values_of_one_field_are_one_case() -> None:
    chain = parse_filter(" or ".join(f"a = {number}" for number in range(500)))
    assert implies(chain, parse_filter("a >= 0 and a < 500"))
    assert not implies(chain, parse_filter("a >= 1"))
    assert len(known_values(chain)[("a",)].ranges) == 500


def test_known_values_unite_the_alternatives() -> None:
    values = known_values(parse_filter("(a = 1 or a = 3) and b > 2 and (c = 1 or d = 1)"))
    assert [each.point for each in values[("a",)].ranges] == [constant(1).key, constant(3).key]
    assert values[("b",)] == compared(">", constant(2))
    assert ("c",) not in values
    assert known_values(parse_filter("a < null")) == {("id",): KeyRanges(())}


def _search(seed: int, rounds: int) -> int:
    generator = random.Random(seed)
    proofs = 0
    for _ in range(rounds):
        query, index = random_filter(generator), random_filter(generator)
        if generator.random() < 0.5:  # filters with something in common
            index = f"({index}) or ({query})" if generator.random() < 0.3 else index
            query = f"({query}) and ({index})" if generator.random() < 0.5 else query
        one, two = Filter(query, parse_filter(query)), Filter(index, parse_filter(index))
        if implies(one.tree, two.tree):
            proofs += 1
            for _ in range(40):
                item = random_item(generator)
                if one.accepts(item):
                    assert two.verdict(item) in (Verdict.ACCEPTED, Verdict.TOO_COSTLY), (query, index, item)
        values = known_values(one.tree)
        assert values[("id",)] is not None
    return proofs


def test_no_proof_is_wrong() -> None:
    assert _search(1, 1500) > 100


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 22))
def test_no_proof_is_wrong_for_long(seed: int) -> None:
    assert _search(seed, 20_000) > 1000

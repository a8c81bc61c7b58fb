"""Filters written from their trees."""

from __future__ import annotations

import random

import pytest

from headwater.documents.filter.format import format_field, format_filter
from headwater.documents.filter.parser import parse_field, parse_filter
from headwater.testing.filter_samples import random_filter


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a>1 and b='x'", 'a > 1 and b = "x"'),
        ("!(a or b)", "!(a or b)"),
        ("a is not null", "a != null"),
        ("`odd name`.x has ['a']", '`odd name`.x has ["a"]'),
        ("length(a,b)=1.50", "length(a, b) = 1.50"),
        ("-a+1 = 2", "((-a) + 1) = 2"),
    ],
)
def test_a_tree_is_written_as_people_write(text: str, written: str) -> None:
    assert format_filter(parse_filter(text)) == written


def test_what_is_written_reads_as_the_same_tree() -> None:
    generator = random.Random(3)
    for _ in range(500):
        tree = parse_filter(random_filter(generator))
        assert parse_filter(format_filter(tree)) == tree


@pytest.mark.parametrize("names", [("a",), ("a", "b"), ("a.b",), ("`",), ("null",), ("a b", "é"), ("1",), ("",)])
def test_fields_are_written_with_back_ticks_where_they_must(names: tuple[str, ...]) -> None:
    if "" not in names:
        assert parse_field(format_field(names)).names == names

"""The index that would help a query."""

from __future__ import annotations

import pytest

from headwater.documents.filter.parser import parse_filter
from headwater.documents.index.choose import query_shape
from headwater.documents.index.order import parse_order
from headwater.documents.query_advice import advice, helpful_index
from headwater.wire import json


@pytest.mark.parametrize(
    ("query", "sort", "body"),
    [
        ("a > 10", "", '{"filterBy":"a > 10"}'),
        ("a > 10", "a", '{"sortBy":[{"fieldName":"a","fieldType":"decimal"}]}'),
        ("a = 'x'", "", '{"sortBy":[{"fieldName":"a"}]}'),
        ("a = 'x' and b > 3", "-c", '{"sortBy":[{"fieldName":"a"},{"fieldName":"c","order":"desc"}],"filterBy":"b > 3"}'),
        ("a = 1 or b = 2", "c", '{"sortBy":[{"fieldName":"c"}],"filterBy":"(a = 1 or b = 2)"}'),
        ("", "o.`x y`", '{"sortBy":[{"fieldName":"o.`x y`"}]}'),
        ("", "", "{}"),
        ("id > 'a'", "", "{}"),
    ],
)
def test_the_body_that_creates_it(query: str, sort: str, body: str) -> None:
    shape = query_shape(parse_filter(query) if query else None, parse_order(sort))
    assert json.encode(helpful_index(shape)).decode() == body


def test_the_sentence_names_the_request() -> None:
    shape = query_shape(parse_filter("a > 10"), ())
    assert advice(shape, "x~") == 'Create an index: POST /hyper-storage/indexes/x~ {"filterBy":"a > 10"}, or give a greater skipMax.'
    assert advice(query_shape(None, ()), "x~") == "Ask for fewer rows, or give a greater skipMax."

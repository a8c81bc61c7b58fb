"""The older way to ask for the next page of a collection."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest

from headwater.documents.paging_query import filter_of_paging


@pytest.mark.parametrize(
    ("query", "filter"),
    [
        (b'size=50&id>"abc"', 'id>"abc"'),
        (b"size=50&id%3E%22abc%22", 'id>"abc"'),
        (b'id>="abc"&size=50', 'id>="abc"'),
        (b"size=50&id>'abc'", "id>'abc'"),
        (b'size=50&id+>+"a b"', 'id > "a b"'),
        (b"size=50&filter=b+>+10&id>'abc'", "(b > 10) and (id>'abc')"),
        (b"size=50&a.b<3", "a.b<3"),
    ],
)
def test_a_bare_expression_is_the_filter(query: bytes, filter: str) -> None:
    assert sorted(parse_qsl(filter_of_paging(query).decode())) == [("filter", filter), ("size", "50")]


@pytest.mark.parametrize(
    "query", [b"", b"size=50", b"filter=b>10", b"filter=b%3E10&sort=-a", b"nope=%3E", b"explain", b"%3C", b">3", b"size=50&<x"]
)
def test_other_queries_stay_as_they_are(query: bytes) -> None:
    assert filter_of_paging(query) == query

"""Paths: the examples of the seed, what no path may have, and the partition of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.document_errors import BadPath
from headwater.documents.path import MOST_BYTES, ResourcePath, logical_partition, parse_path, partition_of

ALLOWED = "ABCXYZabcxyz019-._~:[]@!$&'()*+,;="


@pytest.mark.parametrize(
    ("text", "uri", "item", "is_collection"),
    [
        ("a", "a", "", False),
        ("a/b", "a/b", "", False),
        ("a/~b", "a/~b", "", False),
        ("a~", "a~", "", True),
        ("a/b~", "a/b~", "", True),
        ("~", "~", "", True),
        ("a~/1", "a~", "1", False),
        ("a/b~/c", "a/b~", "c", False),
        ("a~/1/2", "a~/1/2", "", False),
        ("a~/b~", "a~", "b~", False),
        ("a~/b/c~", "a~/b/c~", "", True),
        ("a~/b/c~/1", "a~/b/c~", "1", False),
        (ALLOWED, ALLOWED, "", False),
    ],
)
def test_a_path_is_a_document_a_collection_or_an_item(text: str, uri: str, item: str, is_collection: bool) -> None:
    path = parse_path(text)
    assert path == ResourcePath(uri, item)
    assert path.is_collection == is_collection
    assert path.text == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a b", "' ' at character 2"),
        ("a%2Fb", "'%' at character 2"),
        ("a?", "'\\?' at character 2"),
        ("a#", "'#'"),
        ('"a"', "character 1"),
        ("ä", "'ä'"),
        ("a\0", "character 2"),
        ("a\n", "character 2"),
        ("", "empty segment"),
        ("/a", "empty segment"),
        ("a/", "empty segment"),
        ("a//b", "empty segment"),
        ("a/../b", "segment '..'"),
        ("./a", "segment '.'"),
        ("a~/b~/c", "collection below a collection"),
        ("x/a~/b~/c", "collection below a collection"),
        ("a" * (MOST_BYTES + 1), "2049 characters"),
    ],
)
def test_what_is_no_path_is_named(text: str, says: str) -> None:
    with pytest.raises(BadPath, match=says):
        parse_path(text)


def test_the_partition_is_that_of_the_seed() -> None:
    assert logical_partition("abc/123") == 587
    assert partition_of("abc/123", 8) == 587 % 8
    assert partition_of("abc/123", 1) == 0


@given(st.text(max_size=40) | st.text(alphabet=ALLOWED + "/~", max_size=40))
def test_every_text_is_a_path_or_refused(text: str) -> None:
    try:
        path = parse_path(text)
    except BadPath:
        return
    assert path.text == text
    assert 0 <= logical_partition(path.uri) < 1024
    assert parse_path(path.uri) == ResourcePath(path.uri)

"""Paths: the examples of the seed, what no path may have, and the partition of each."""

from __future__ import annotations

import string
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.document_errors import BadPath
from headwater.documents.path import MOST_BYTES, ResourcePath, logical_partition, parse_path, partition_of

ALLOWED = "ABCXYZabcxyz019-._~:[]@!$&'()*+,;="
ALLOWED_ALL = string.ascii_letters + string.digits + "-._~:[]@!$&'()*+,;=/"


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


def random_path(generator: Random) -> str:
    """A text that is often nearly a path."""
    fit, unfit = (
        ("a", "b1", "~", "/x", "/x~", "/1", "/", "'("),
        ("//", "/..", "/.", " ", "%2F", "?", "#", "\0", "\n", "ä", "\ud800", "{*}", '"'),
    )
    text = "".join(generator.choice(fit if generator.random() < 0.95 else unfit) for _ in range(generator.randrange(12)))
    return text * 700 if generator.random() < 0.01 else text


def check_paths(seed: int, count: int) -> None:
    """Every text is refused, or is a path whose parts make it again."""
    generator = Random(seed)
    taken = 0
    for _ in range(count):
        text = random_path(generator)
        try:
            path = parse_path(text)
        except BadPath:
            continue
        taken += 1
        assert path.text == text
        assert set(text) <= set(ALLOWED_ALL), text
        assert parse_path(path.uri) == ResourcePath(path.uri), text
        assert bool(path.item) == (len(parts := text.split("/")) > 1 and parts[-2].endswith("~")), text
        assert path.is_collection == (not path.item and text.endswith("~")), text
        assert 0 <= logical_partition(path.uri) < 1024
    assert taken > count // 5


def test_random_texts_are_paths_or_refused() -> None:
    check_paths(1, 2000)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_a_million_random_texts_are_paths_or_refused(seed: int) -> None:
    check_paths(seed, 110_000)


@given(st.text(max_size=40) | st.text(alphabet=ALLOWED + "/~", max_size=40))
def test_every_text_is_a_path_or_refused(text: str) -> None:
    try:
        path = parse_path(text)
    except BadPath:
        return
    assert path.text == text
    assert 0 <= logical_partition(path.uri) < 1024
    assert parse_path(path.uri) == ResourcePath(path.uri)

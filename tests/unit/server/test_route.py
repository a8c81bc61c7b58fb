"""Which address a raw path finds, and what its variables are."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from headwater.server.route import Match, Route, Router
from headwater.wire.operation import Operation, Request, Role, described
from headwater.wire.request import shape_of


class _One(Request, frozen=True, kw_only=True):
    """One segment."""

    id: str


class _Rest(Request, frozen=True, kw_only=True):
    """Every segment that is left."""

    path: Annotated[str, described("A path.", segments="rest")]


class _Collection(Request, frozen=True, kw_only=True):
    """A collection."""

    path: Annotated[str, described("A collection.", segments="collection")]


class _Index(_Collection, frozen=True, kw_only=True):
    """An index of a collection."""

    index: str


def _operation(name: str, path: str, request: type[Request]) -> Operation[Any, Any]:
    return Operation(part="test", name=name, method="GET", path=path, request=request, answer=None, role=Role.READER, says="A test.")


CONTENT = _operation("content", "/content/{path}", _Rest)
INDEXES = _operation("indexes", "/indexes/{path}", _Collection)
INDEX = _operation("index", "/indexes/{path}/{index}", _Index)
THINGS = _operation("things", "/things/{id}", _One)
ROOT = _operation("root", "/", Request)


async def _nothing(call: object) -> Any:
    raise AssertionError


def _found(raw_path: bytes) -> Match | None:
    return Router([Route(operation, _nothing) for operation in (CONTENT, INDEXES, INDEX, THINGS, ROOT)]).find(raw_path)


def _variables(raw_path: bytes) -> dict[str, str]:
    match = _found(raw_path)
    assert match is not None
    return match.variables


def test_a_variable_of_one_segment_keeps_an_encoded_slash() -> None:
    assert _variables(b"/things/a%2Fb") == {"id": "a/b"}
    assert _found(b"/things/a/b") is None
    assert _found(b"/things/") is None
    assert _found(b"/things") is None


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"a", "a"),
        (b"a/b~/c", "a/b~/c"),
        (b"a%7E/b", "a~/b"),
        (b"a/b%20c", "a/b c"),
        (b"a%2Fb", "a%2Fb"),  # one address for each document: the check of paths refuses the %
        (b"a/b%2fc", "a/b%2Fc"),
        (b"a%252Fb", "a%2Fb"),
        (b"", ""),
        (b"a/", "a/"),
        (b"a//b", "a//b"),
        (b"%ff", "�"),
    ],
)
def test_a_variable_of_all_segments_decodes_each_once(raw: bytes, path: str) -> None:
    assert _variables(b"/content/" + raw) == {"path": path}


@pytest.mark.parametrize(
    ("raw", "collection", "index"),
    [
        (b"abc~", "abc~", None),
        (b"abc%7E/i", "abc~", "i"),
        (b"abc%2Fxyz~", "abc/xyz~", None),
        (b"abc%2Fxyz", "abc/xyz", None),
        (b"abc%2Fxyz/i", "abc/xyz", "i"),
        (b"abc/xyz~", "abc/xyz~", None),
        (b"abc/xyz~/i", "abc/xyz~", "i"),
        (b"a~/x/b~/i", "a~/x/b~", "i"),
    ],
)
def test_a_collection_is_one_segment_or_ends_with_the_last_tilde(raw: bytes, collection: str, index: str | None) -> None:
    assert _variables(b"/indexes/" + raw) == {"path": collection, **({} if index is None else {"index": index})}


def test_more_segments_than_an_address_has_find_nothing() -> None:
    assert _found(b"/indexes/abc/xyz/i") is None
    assert _found(b"/indexes/abc~/i/j") is None
    assert _found(b"/other") is None


@pytest.mark.parametrize("path", ["a", "a/b~/c d", "shop/catalogue~/hät"])
def test_what_the_client_writes_is_what_the_server_reads(path: str) -> None:
    sent = shape_of(CONTENT).write(_Rest(path=path))
    assert _variables(sent.path.encode()) == {"path": path}


def test_the_client_writes_the_slashes_of_a_collection_as_they_are() -> None:
    sent = shape_of(INDEX).write(_Index(path="a/b~", index="x/y"))
    assert sent.path == "/indexes/a/b~/x%2Fy"
    assert _variables(sent.path.encode()) == {"path": "a/b~", "index": "x/y"}


def test_two_names_for_one_variable_are_refused() -> None:
    other = _operation("other", "/things/{path}", _Rest)
    with pytest.raises(ValueError, match="names path what another path names id"):
        Router([Route(THINGS, _nothing), Route(other, _nothing)])

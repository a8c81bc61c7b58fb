from __future__ import annotations

import pickle
import re
from collections.abc import Iterator

import pytest

from headwater.core import errors
from headwater.core.errors import HeadwaterError, UnknownTopic


def tree(kind: type[HeadwaterError]) -> Iterator[type[HeadwaterError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


EVERY = list(tree(HeadwaterError))
EXIT_CODES = {
    "HeadwaterError": 1,
    "BadConfig": 2,
    "NotFound": 3,
    "Conflict": 4,
    "BadInput": 5,
    "Denied": 5,
    "Unavailable": 6,
    "Damaged": 7,
    "Differs": 8,
    "Stopped": 9,
}


def drawn() -> dict[str, tuple[int, str]]:
    """The tree on top of the module: each name with its depth and the rest of its line."""
    found = {}
    for line in (errors.__doc__ or "").splitlines():
        if (match := re.match(r"^([ │├└]*)([A-Z][A-Za-z]+)(.*)$", line)) and (match[1] or match[2] == "HeadwaterError"):
            found[match[2]] = (len(match[1]) // 3, match[3])
    return found


def test_the_tree_that_is_drawn_is_the_tree_that_is_there() -> None:
    parents, above = {}, [""] * 9
    for name, (depth, _) in drawn().items():
        above[depth] = name
        parents[name] = above[depth - 1] if depth else "Exception"
    assert parents == {kind.__name__: kind.__mro__[1].__name__ for kind in EVERY}


@pytest.mark.parametrize("kind", EVERY[1:])
def test_statuses_and_exit_codes_are_those_drawn(kind: type[HeadwaterError]) -> None:
    rest = drawn()[kind.__name__][1]
    parent = kind.__mro__[1]
    status = re.match(r"\s+(\d{3})\b", rest)
    if status:
        assert kind.status == int(status[1])
    elif parent is not HeadwaterError:
        assert kind.status == parent.status
    exit_code = re.search(r"exit (\d+)", rest)
    assert kind.exit_code == (int(exit_code[1]) if exit_code else parent.exit_code)


@pytest.mark.parametrize("kind", EVERY)
def test_exit_codes_are_the_ones_promised(kind: type[HeadwaterError]) -> None:
    assert kind.exit_code == next(EXIT_CODES[k.__name__] for k in kind.__mro__ if k.__name__ in EXIT_CODES)


@pytest.mark.parametrize("kind", EVERY)
def test_every_error_says_what_it_means(kind: type[HeadwaterError]) -> None:
    assert kind.__doc__
    assert kind.__doc__ != kind.__mro__[1].__doc__


def test_codes_are_the_names_in_small_letters() -> None:
    assert UnknownTopic("x").code == "unknown-topic"
    codes = [kind("x").code for kind in EVERY]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)


def test_message_and_hint() -> None:
    error = UnknownTopic("There is no topic bank.", hint="`headwater log create bank` makes it.")
    assert (error.message, error.hint) == ("There is no topic bank.", "`headwater log create bank` makes it.")
    assert str(error) == "There is no topic bank. `headwater log create bank` makes it."
    assert str(UnknownTopic("There is no topic bank.")) == "There is no topic bank."


@pytest.mark.parametrize("kind", EVERY)
def test_errors_travel_between_processes_whole(kind: type[HeadwaterError]) -> None:
    back = pickle.loads(pickle.dumps(kind("It is so.", hint="Do this.")))
    assert (type(back), back.message, back.hint) == (kind, "It is so.", "Do this.")


def test_a_class_may_set_its_code() -> None:
    class Limited(HeadwaterError, code="query-limit"):
        """For this test."""

    assert (Limited("x").code, Limited.code) == ("query-limit", "query-limit")

from __future__ import annotations

import pickle

import msgspec
import pytest

from headwater.core import errors
from headwater.core.errors import BadInput, Conflict, HeadwaterError, NotFound, NotOwner, Unavailable, UnknownTopic
from headwater.wire.problems import encoded, error_in, error_of, problem_of

EVERY = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HeadwaterError)), key=lambda kind: kind.__name__
)


@pytest.mark.parametrize("kind", EVERY)
def test_every_error_comes_back_as_it_was(kind: type[HeadwaterError]) -> None:
    error = kind("A sentence.", hint="Do this.")
    back = error_of(error.status, encoded(problem_of(error, "id-1")))
    assert type(back) is kind
    assert (back.message, back.hint) == ("A sentence.", "Do this.")


def test_a_problem_has_the_fields_of_the_standard_and_ours() -> None:
    body = msgspec.json.decode(encoded(problem_of(UnknownTopic("There is no topic t.", hint="Create it."), "id-1")))
    assert body == {
        "type": "about:blank",
        "title": "Unknown topic",
        "status": 404,
        "code": "unknown-topic",
        "detail": "There is no topic t.",
        "hint": "Create it.",
        "errorId": "id-1",
    }


@pytest.mark.parametrize(
    ("status", "kind"), [(404, NotFound), (409, Conflict), (412, Conflict), (400, BadInput), (431, BadInput), (502, Unavailable)]
)
@pytest.mark.parametrize("body", [b"<html>", b'{"title": "of another kind"}', b""])
def test_an_answer_of_something_else_becomes_an_error_by_its_status(status: int, kind: type[HeadwaterError], body: bytes) -> None:
    assert type(error_of(status, body)) is kind


def test_a_code_that_is_not_known_falls_back_to_the_status() -> None:
    body = (
        b'{"title": "x", "status": 409, "code": "from-the-future", "detail": "New.", "hint": "H.", "errorId": "1", "type": "about:blank"}'
    )
    error = error_of(409, body)
    assert type(error) is Conflict
    assert error.message == "New."


def test_the_address_of_an_owner_travels() -> None:
    error = NotOwner("Not here.", address="http://there:1", hint="Ask there.")
    for found in (error_of(421, encoded(problem_of(error, ""))), error_in(problem_of(error, "")), pickle.loads(pickle.dumps(error))):
        assert isinstance(found, NotOwner)
        assert (found.message, found.address, found.hint) == ("Not here.", "http://there:1", "Ask there.")

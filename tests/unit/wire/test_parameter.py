from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from headwater.core.errors import BadInput
from headwater.wire.json import LARGEST
from headwater.wire.operation import Operation, Request, Role, described
from headwater.wire.request import shape_of


class Things(Request, frozen=True, kw_only=True):
    limit: Annotated[int, described("How many.", least=1, most=1000)] = 100
    start: Annotated[int | None, described("Where.")] = msgspec.field(default=None, name="from")
    decode: Literal["text", "hex"] = "text"
    at: Annotated[int | None, described("When.", time=True)] = None


class Before(Request, frozen=True, kw_only=True):
    before: Annotated[int, described("Keep from here.")]


class Nothing(Request, frozen=True, kw_only=True):
    pass


def read(query: bytes, request: type[Request] = Things, method: str = "GET") -> dict[str, Any]:
    operation = Operation(part="x", name="x", method=method, path="/things", request=request, answer=None, role=Role.READER, says="")
    return shape_of(operation).read_query(query)


@pytest.mark.parametrize(
    ("query", "values"),
    [
        (b"", {"limit": 100, "from": None, "decode": "text", "at": None}),
        (b"limit=1&from=0&decode=hex", {"limit": 1, "from": 0, "decode": "hex", "at": None}),
        (b"from=9223372036854775807", {"limit": 100, "from": LARGEST, "decode": "text", "at": None}),
        (b"at=1970-01-01T00%3A00%3A01Z", {"limit": 100, "from": None, "decode": "text", "at": 1000}),
        (b"at=1970-01-01T01:00:01%2B01:00", {"limit": 100, "from": None, "decode": "text", "at": 1000}),
        (b"at=1000", {"limit": 100, "from": None, "decode": "text", "at": 1000}),
    ],
)
def test_parameters_are_read_by_kind(query: bytes, values: dict[str, Any]) -> None:
    assert read(query) == values


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (b"limt=1", "Did you mean 'limit'?"),
        (b"colour=red", "Known are limit, from, decode, at."),
        (b"limit=0", "from 1 to 1000"),
        (b"limit=1001", "from 1 to 1000"),
        (b"limit=-5", "cannot be -5"),
        (b"limit=", "whole number"),
        (b"limit", "whole number"),
        (b"limit=1.5", "whole number"),
        (b"limit=%C2%B2", "whole number"),
        (b"limit=1_0", "whole number"),
        (b"limit=99999999999999999999", "cannot be"),
        (b"limit=999999999999999999999", "whole number"),
        (b"from=9223372036854775808", "cannot be"),
        (b"limit=1&limit=2", "given twice"),
        (b"decode=xml", "one of text, hex"),
        (b"at=soon", "no time"),
        (b"at=2026-01-31", "no time"),
        (b"limit=%FF", "cannot be read"),
        (b"limit=\xff", "cannot be read"),
        (b"&".join(b"a=1" for _ in range(60)), "cannot be read"),
    ],
)
def test_parameters_that_cannot_be_are_refused(query: bytes, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(query)
    assert said in str(caught.value)


def test_a_parameter_that_is_needed_is_asked_for() -> None:
    with pytest.raises(BadInput, match="`before` is missing"):
        read(b"", Before, "DELETE")


def test_an_operation_without_parameters_takes_none() -> None:
    with pytest.raises(BadInput, match="It takes none"):
        read(b"a=1", Nothing)

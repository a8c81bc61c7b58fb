"""What the server offers, as data: each operation with its method, path, role, parameters and answers.

Routing, checking of parameters and `/openapi.json` all read the same table, so that none of them can say what the others do not do.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl

import msgspec

from headwater.client.wire import nearest, read_time
from headwater.core.errors import BadInput

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from headwater.server.call import Call

Schema = Mapping[str, Any]
Kind = Literal["number", "text", "time"]

Handler = Callable[["Call"], Awaitable["ASGIApp"]]
Offer = tuple["Operation", Handler]

_NUMBER = re.compile(r"([0-9]{1,19})(?:\.0+)?")  # 3.0 is a whole number, to JSON Schema as to people
_PLAIN = re.compile(rb"[A-Za-z]+=[A-Za-z0-9_.-]*(?:&[A-Za-z]+=[A-Za-z0-9_.-]*){0,9}")  # what needs no decoding: nearly every query
LARGEST = (1 << 63) - 1


class Role(IntEnum):
    """Who may do what. Each role may do what the ones before it may."""

    NOBODY = 0  # no token needed
    READER = 1
    WRITER = 2
    OPERATOR = 3


class Param(msgspec.Struct, frozen=True):
    """A query parameter. `default` None: it may be left out, and then the operation decides."""

    name: str
    text: str
    kind: Kind = "number"
    default: int | str | None = None
    least: int = 0
    most: int = LARGEST
    choices: tuple[str, ...] = ()
    required: bool = False
    pattern: str = ""  # what is found in a text

    def read(self, written: str) -> int | str:
        """Errors: `BadInput` naming the parameter."""
        if self.kind == "number":
            return self._number(written)
        if self.kind == "time":
            number = _NUMBER.fullmatch(written)
            return read_time(int(number[1]) if number else written)
        if self.pattern and not re.search(self.pattern, written):
            raise BadInput(f"`{self.name}` cannot be {written!r}.", hint=self.text)
        if self.choices and written not in self.choices:
            raise BadInput(f"`{self.name}` cannot be {written!r}.", hint=f"It is one of {', '.join(self.choices)}.")
        return written

    def _number(self, written: str) -> int:
        # A minus sign belongs to a number that is out of range, not to something that is no number: say the more useful of the two.
        found = _NUMBER.fullmatch(written.removeprefix("-"))
        if not found:
            raise BadInput(f"`{self.name}` is a whole number, not {written!r}.", hint=f"Write it such as {self.name}={self.least}.")
        number = -int(found[1]) if written.startswith("-") else int(found[1])
        if not self.least <= number <= self.most:
            raise BadInput(f"`{self.name}` cannot be {number}.", hint=f"It goes from {self.least} to {self.most}.")
        return number

    def schema(self) -> dict[str, Any]:
        """The parameter as OpenAPI writes it."""
        whole = {"type": "integer", "minimum": self.least, "maximum": self.most}
        kind: dict[str, Any] = whole if self.kind == "number" else {"type": "string"}
        if self.kind == "time":
            kind = {"anyOf": [whole, {"type": "string", "format": "date-time"}]}
        if self.pattern:
            kind["pattern"] = self.pattern
        if self.choices:
            kind["enum"] = list(self.choices)
        if self.default is not None:
            kind["default"] = self.default
        return {"name": self.name, "in": "query", "description": self.text, "required": self.required, "schema": kind}


class Answer(msgspec.Struct, frozen=True):
    """What comes back with a status: a text, and the schema for each type of content."""

    text: str
    content: Mapping[str, Schema] = {}


class Operation(msgspec.Struct, frozen=True):
    """One method of one path. `name` is also the name of its handler."""

    method: str
    path: str
    name: str
    text: str
    role: Role
    answers: Mapping[int, Answer]
    query: tuple[Param, ...] = ()
    body: Mapping[str, Schema] = {}
    body_required: bool = False
    headers: Mapping[str, Param] = {}
    problems: tuple[int, ...] = ()

    def read_query(self, written: bytes) -> dict[str, Any]:
        """Every parameter by name, None where it was left out and has no default. Errors: `BadInput`."""
        values: dict[str, Any] = {param.name: param.default for param in self.query}
        if written:
            known = {param.name: param for param in self.query}
            seen = set()
            for name, value in _pairs(written):
                if name not in known:
                    hint = nearest(name, known) if known else "It takes none."
                    raise BadInput(f"{self.method} {self.path} has no parameter {name!r}.", hint=hint)
                if name in seen:
                    raise BadInput(f"`{name}` is given twice.", hint="Give it once.")
                seen.add(name)
                values[name] = known[name].read(value)
        for param in self.query:
            if param.required and values[param.name] is None:
                raise BadInput(f"`{param.name}` is missing.", hint=f"Add `{param.name}` to the address, as ?{param.name}=…: {param.text}")
        return values


def whole_number(written: str) -> int | None:
    """The whole number from 0 to 2^63-1 that a text is, or None."""
    found = _NUMBER.fullmatch(written)
    return int(found[1]) if found and int(found[1]) <= LARGEST else None


def _pairs(written: bytes) -> list[tuple[str, str]]:
    if _PLAIN.fullmatch(written):
        return [(name, value) for name, _, value in (part.partition("=") for part in written.decode("ascii").split("&"))]
    try:
        return parse_qsl(written.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError:
        raise BadInput("The query of the address cannot be read.", hint="Percent-encode it as UTF-8.") from None


def offers(table: Iterable[Operation], handlers: object) -> list[Offer]:
    """Each operation of a table with its handler, the method of the same name."""
    return [(operation, getattr(handlers, operation.name)) for operation in table]

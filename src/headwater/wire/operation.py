"""Operations: what users can do with a part, as data. Each part has one table of them.

headwater makes the route, the checks of the parameters, the OpenAPI entry, the remote call, the local dispatch and the row in the reference
from an `Operation`. Developers write the method that does it, the typed method of the door, and the command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec

from headwater.core.errors import HeadwaterError

Kind = Literal["ask", "stream", "job"]
Runs = Literal["inline", "thread", "process"]
Place = Literal["path", "query", "header", "body"]
Schema = Mapping[str, Any]
R = TypeVar("R", bound="Request")
A = TypeVar("A")


class Role(IntEnum):
    """The role of a token. Each role may do what the roles before it may."""

    NOBODY = 0  # no token needed
    READER = 1
    WRITER = 2
    OPERATOR = 3


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The request of an operation. Fields named in the path travel there; other fields travel in the query of GET and DELETE, else in the
    body.

    A field's `Meta` describes it: `description`, bounds and pattern are checked and documented, `extra={"in": "query"}` moves it.
    """

    def check(self) -> None:
        """Raise `BadInput` for invalid values; the same error over a directory and over HTTP."""

    def waits(self) -> float:
        """Seconds that its answer may wait for something to happen. Clients wait longer for it, on a connection of its own."""
        return 0.0


def placed(where: Place, text: str, **more: Any) -> msgspec.Meta:
    """The description of a field that travels in another place than its method's default. `more`: as for `described`."""
    return described(text, **{"in": where, **more})


def described(text: str, *, least: int | None = None, most: int | None = None, pattern: str | None = None, **extra: Any) -> msgspec.Meta:
    """The description of a field. `extra`: `time=True` for milliseconds that may be written as ISO 8601; `unsigned=True` for a number of
    64 bits, in the path or the query; `segments` for a variable that takes several segments of the path, as `Segments` of
    `headwater.wire.parameter` says."""
    if pattern is not None:
        return msgspec.Meta(description=text, pattern=pattern, extra=extra or None)
    return msgspec.Meta(description=text, ge=least, le=most, extra=extra or None)


# Python, JavaScript and Rust differ in what they call white space.
NOT_BLANK = r"[^\s\u001c-\u001f\u0085\ufeff]"
DryRun = Annotated[bool, placed("query", "true: say what would be done, and do nothing.")]
Why = Annotated[str, described("The reason, for the audit.")]
Reason = Annotated[str, described("The reason, for the audit.", pattern=NOT_BLANK)]


class Paging(msgspec.Struct, frozen=True):
    """How HTTP cuts a long list into pages. `by`: the fields of its order; empty for a list that only grows at its end."""

    by: tuple[str, ...] = ()
    usual: int = 1000
    most: int = 10_000
    numbered: bool = False
    """The only field of the order is a number."""


class Reply(msgspec.Struct, Generic[A], frozen=True):
    """An answer with a status or headers (such as ETag) for HTTP, beside its value."""

    value: A
    status: int = 0
    headers: Mapping[str, str] = {}


class Operation(msgspec.Struct, Generic[R, A], frozen=True, kw_only=True, eq=False):
    """One thing that users can do. `name` is also the name of the method that does it, and of the door's."""

    part: str
    name: str
    method: str
    path: str
    request: type[R]
    answer: type[A] | None
    """A struct, a list of structs, `bytes` (as stored), None for no content; of a stream the type of one item."""
    role: Role
    says: str
    """One sentence for OpenAPI and the reference."""
    kind: Kind = "ask"
    runs: Runs | Callable[[R], Runs] = "thread"
    changes: bool = False
    """It is audited; its request then has `dry_run`, and `why` where a reason is needed."""
    errors: tuple[type[HeadwaterError], ...] = ()
    """What it raises beside what every operation of its kind may."""
    statuses: Mapping[int, str] = {}
    """The statuses of success with a sentence each; left out, 200 (204 without content) with what the answer's class says of itself."""
    paging: Paging | None = None
    continues: str = ""
    """The parameter that the answer's `next` is given as, where an answer is itself a page."""
    patience: float | None = 30.0
    """Seconds that it may take; None: as long as it takes. Clients wait half a minute longer."""
    content: Mapping[str, Schema] = {}
    """Bodies by media type, where a body is not the JSON object of the request's other fields."""
    content_required: bool = True
    """Whether a request without a body is refused."""
    sends: Callable[[R], tuple[str, bytes]] | None = None
    """Makes such a body of a request, for the client: its media type, and its bytes."""
    reads: Callable[[bytes, Mapping[str, str]], A] | None = None
    """Makes the answer of a response's body and headers (by their names in small letters), for the client; left out: its body is the
    answer as JSON."""
    rewrites: Callable[[bytes], bytes] | None = None
    """Makes the query that this one means, where an older form of it is taken, too."""
    commands: Mapping[str, str] = {}
    """Its commands behind the name of the part's group, such as `dead {queue} show {id}`, each with the query of the request that does the
    same; left out, its name and the variables of its path. A hint that names one of them names the request over HTTP."""
    events: tuple[str, ...] = ()
    """Of a stream: the names of its events, where they have names."""
    by_line: bool = False
    """Its request has `lines`, the lines of the body, and its answer has a line for each: a line that another process has to do is the
    problem of `NotOwner` there, and is sent to that one by itself."""
    media: str = "application/json"
    """The type of the answer; operations of one address differ in it, and the client's Accept chooses."""
    named: str = ""
    """The field of an item that names its event, where a stream is one of server-sent events; empty: they have no names."""

    @property
    def id(self) -> str:
        """Its unique name: part and operation."""
        return f"{self.part}_{self.name}"

    def runs_in(self, request: R) -> Runs:
        """Where this request runs."""
        return self.runs(request) if callable(self.runs) else self.runs

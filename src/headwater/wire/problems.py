"""Problems (RFC 9457): errors to problems in the server, and back to the same errors in the client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from headwater.core.errors import BadInput, Conflict, HeadwaterError, NotFound, NotOwner, Unavailable

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, rename="camel"):
    """An error over HTTP. `code` is its stable name, `hint` the next request, `error_id` finds it in the server's log.

    `command`: the hint for the command line and the door, where it names a command instead of an address.
    """

    title: str
    status: int
    code: str
    detail: str
    hint: str = ""
    error_id: str = ""
    address: str = ""  # where to ask instead
    command: str = ""
    type: str = "about:blank"


def problem_of(error: HeadwaterError, error_id: str) -> Problem:
    """The problem for an error."""
    return Problem(
        title=_title(error),
        status=error.status,
        code=error.code,
        detail=error.message,
        hint=error.hint,
        error_id=error_id,
        address=error.address if isinstance(error, NotOwner) else "",
    )


def error_of(status: int, body: bytes) -> HeadwaterError:
    """The error of a response: by its code, or by its status when a proxy answered."""
    problem = problem_in(body)
    if problem is None:
        return _by_status(status)(
            f"The answer was {status}, without saying more.", hint="Something other than headwater may have answered."
        )
    return _revived(_by_code().get(problem.code) or _by_status(status), problem)


def error_in(problem: Problem) -> HeadwaterError:
    """The error of a problem that headwater wrote."""
    return _revived(_by_code().get(problem.code, HeadwaterError), problem)


def problem_in(body: bytes) -> Problem | None:
    """The problem in a body; None where it holds none, because something else than headwater answered."""
    try:
        return msgspec.json.decode(body, type=Problem)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def error_named(code: str) -> type[HeadwaterError]:
    """The error of this code."""
    return _by_code().get(code, HeadwaterError)


def _revived(kind: type[HeadwaterError], problem: Problem) -> HeadwaterError:
    if kind is NotOwner:
        return NotOwner(problem.detail, address=problem.address, hint=problem.command or problem.hint)
    return kind(problem.detail, hint=problem.command or problem.hint)


def _title(error: HeadwaterError) -> str:
    words = error.code.replace("-", " ").replace("_", " ")
    return words[:1].upper() + words[1:]


def _by_code() -> dict[str, type[HeadwaterError]]:
    return {kind.code: kind for kind in _tree(HeadwaterError)}


def _tree(kind: type[HeadwaterError]) -> Iterator[type[HeadwaterError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _tree(child)


def _by_status(status: int) -> type[HeadwaterError]:
    exact: dict[int, type[HeadwaterError]] = {404: NotFound, 409: Conflict, 412: Conflict}
    return exact.get(status, BadInput if 400 <= status < 500 else Unavailable)


def encoded(problem: Problem) -> bytes:
    """The problem as the body of a response."""
    fields: dict[str, Any] = {name: value for name, value in msgspec.to_builtins(problem).items() if value}
    return msgspec.json.encode(fields)

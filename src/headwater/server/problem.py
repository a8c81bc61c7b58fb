"""Errors as responses: problem details (RFC 9457)."""

from __future__ import annotations

from starlette.responses import Response

from headwater.core.errors import Busy, Denied, Forbidden, HeadwaterError
from headwater.server.hints import http_problem
from headwater.wire.problems import MEDIA_TYPE, encoded

_AGAIN = "5"  # seconds: by then those who were cut off for taking nothing have made room


def problem_answer(error: HeadwaterError, error_id: str, headers: dict[str, str] | None = None) -> Response:
    """The response that stands for an error; the client's door turns it back into the same class."""
    more = dict(headers or {})
    if isinstance(error, Denied) and not isinstance(error, Forbidden):
        more["WWW-Authenticate"] = "Bearer"
    if isinstance(error, Busy):
        more["Retry-After"] = _AGAIN
    return Response(encoded(http_problem(error, error_id)), error.status, more, MEDIA_TYPE)

"""Errors as responses: problem details (RFC 9457)."""

from __future__ import annotations

from starlette.responses import Response

from headwater.core.errors import Busy, Denied, Forbidden, HeadwaterError
from headwater.server.hints import http_problem
from headwater.wire.problems import MEDIA_TYPE, encoded

_AGAIN = "5"  # seconds: by then the server has cut off clients that read nothing


def problem_answer(error: HeadwaterError, error_id: str, headers: dict[str, str] | None = None) -> Response:
    """The response for an error; the door turns it back into the same class."""
    more = dict(headers or {})
    if isinstance(error, Denied) and not isinstance(error, Forbidden):
        more["WWW-Authenticate"] = "Bearer"
    if isinstance(error, Busy):
        more["Retry-After"] = _AGAIN
    return Response(encoded(http_problem(error, error_id)), error.status, more, MEDIA_TYPE)

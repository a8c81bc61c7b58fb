"""Errors as responses: problem details (RFC 9457)."""

from __future__ import annotations

from starlette.responses import Response

from headwater.client.problems import MEDIA_TYPE, encoded, problem_of
from headwater.core.errors import Denied, Forbidden, HeadwaterError


def problem_answer(error: HeadwaterError, error_id: str, headers: dict[str, str] | None = None) -> Response:
    """The response that stands for an error; the client's door turns it back into the same class."""
    more = dict(headers or {})
    if isinstance(error, Denied) and not isinstance(error, Forbidden):
        more["WWW-Authenticate"] = "Bearer"
    return Response(encoded(problem_of(error, error_id)), error.status, more, MEDIA_TYPE)

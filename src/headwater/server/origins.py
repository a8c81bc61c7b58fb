"""Origins of other sites' pages that may ask this server: what browsers are told of them (CORS)."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response

from headwater.core.errors import BadConfig

Headers = list[tuple[bytes, bytes]]
_METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
_SENT = b"Accept, Authorization, Content-Type, Hyper-Storage-TTL, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Prefer"
_READ = b"Allow, ETag, Hyperbus-Revision, Idempotency-Replayed, Link, Location"
_AGE = b"600"  # seconds for which a browser need not ask again


class AllowedOrigins:
    """The named origins, such as https://shop.example. Without any, pages of other sites read nothing."""

    def __init__(self, origins: Iterable[str] = ()) -> None:
        """Errors: `BadConfig` for what is no origin: a page's scheme, host and port, or `*` for every page."""
        self._origins = frozenset(origin.encode() for origin in origins)
        for origin in self._origins - {b"*"}:
            if not origin.startswith((b"http://", b"https://")) or origin.count(b"/") != 2 or origin.lower() != origin:
                raise BadConfig(
                    f"`server.origins` has {origin.decode()!r:.60}, which is no origin.", hint='Write it such as "https://shop.example".'
                )

    def of(self, headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
        """The origin of a request, where it is allowed."""
        if not self._origins:
            return None
        origin = next((value for name, value in headers if name == b"origin"), None)
        return origin if origin is not None and (origin in self._origins or b"*" in self._origins) else None

    @staticmethod
    def told(origin: bytes) -> Headers:
        """The headers by which the page of an allowed origin may read an answer."""
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", _READ),
            (b"vary", b"Origin"),
        ]

    @staticmethod
    def asks_before(method: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether a browser asks if it may send a request of this page, before it sends it, and without a token."""
        return method == "OPTIONS" and any(name == b"access-control-request-method" for name, _ in headers)

    @staticmethod
    def permission() -> Response:
        """The answer to that. What the request itself needs is checked when it comes."""
        headers = {"Access-Control-Allow-Methods": _METHODS, "Access-Control-Allow-Headers": _SENT, "Access-Control-Max-Age": _AGE}
        return Response(status_code=204, headers={name: value.decode() for name, value in headers.items()})

"""Connections to one server: a request, its answer, and what every failure on the way means."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import msgspec

from headwater.core.errors import BadConfig, BadInput, Closed, HeadwaterError, OutcomeUnknown, Timeout, Unreachable, Untrusted
from headwater.wire.problems import error_of, problem_in

B = TypeVar("B")
T = TypeVar("T")
_EVENT = 128 << 20  # bytes: a record of 48 MiB as base64 fits
_CONNECT = 5.0  # seconds
_STREAM = httpx2.Timeout(60.0, connect=_CONNECT, read=45.0)  # three pings


class HttpConnection:
    """Speaks to one server. Connections are kept and shared between tasks."""

    def __init__(self, url: str, *, token: str | None, ca: Path | None = None, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        """`ca`: the authorities that the certificate of an https address is checked by; None: the system's. Errors: `BadConfig`."""
        _check(url, token)
        self._url = url.rstrip("/")
        self._http = httpx2.AsyncClient(
            base_url=self._url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=256),
            verify=_trust(ca) if self._url.startswith("https:") else True,
            transport=transport,
            trust_env=False,
        )

    @property
    def closed(self) -> bool:
        return self._http.is_closed

    async def aclose(self) -> None:
        await self._http.aclose()

    async def ask(self, method: str, path: str, *, patience: float | None = 60.0, **parts: Any) -> bytes:
        """The body of an answer. Errors: the server's, `Unreachable`, `Timeout`, and `OutcomeUnknown` for a lost answer to a change."""
        try:
            timeout = httpx2.Timeout(patience, connect=_CONNECT)
            response = await self._client().request(method, path, timeout=timeout, **parts)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise self._unreachable(error) from error
        except httpx2.TransportError as error:
            if method == "GET":
                raise self._timeout(error) if isinstance(error, httpx2.TimeoutException) else self._unreachable(error) from error
            raise OutcomeUnknown(
                f"{self._url} did not answer to {method} {path}; it may have been done or not.",
                hint="Read what is there before sending it again.",
            ) from error
        except httpx2.DecodingError as error:
            raise self.foreign(method, path, error) from error
        if not response.is_success:  # also where it leads elsewhere: no headwater server does that
            if (
                method != "GET" and response.status_code >= 500 and problem_in(response.content) is None
            ):  # a proxy's, which asked the server
                raise self.foreign(method, path, f"status {response.status_code}")
            raise error_of(response.status_code, response.content)
        return response.content

    def understood(self, method: str, path: str, read: Callable[[B], T], answer: B) -> T:
        """What an answer says. Errors: for one that no headwater server gives, `Unreachable`, or `OutcomeUnknown` to a change."""
        try:
            return read(answer)
        except (msgspec.MsgspecError, UnicodeError, RecursionError, BadInput) as error:
            raise self.foreign(method, path, error) from error

    @asynccontextmanager
    async def events(self, path: str, **parts: Any) -> AsyncIterator[AsyncIterator[httpx2.ServerSentEvent]]:
        """The events of a stream, once the server has answered. Errors: as `ask`, and those that the server sends as events."""
        headers = {"Accept": "text/event-stream", **parts.pop("headers", {})}
        try:
            async with self._client().stream("GET", path, headers=headers, timeout=_STREAM, **parts) as response:
                if response.status_code != 200:
                    raise error_of(response.status_code, await response.aread())
                yield _told(httpx2.EventSource(response, max_event_size=_EVENT))
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error
        except (httpx2.DecodingError, UnicodeError) as error:
            raise self.foreign("GET", path, error) from error

    def foreign(self, method: str, path: str, error: Exception | str) -> HeadwaterError:
        """The error for an answer that cannot be read: something else listens there, or stands between."""
        if method == "GET":
            return Unreachable(
                f"What answers at {self._url} is no headwater server, or a newer one ({error}).",
                hint="Look at the address, and at what stands between.",
            )
        return OutcomeUnknown(
            f"{self._url} gave no answer to {method} {path} that can be read ({error}); it may have been done or not.",
            hint="Look at the address, and read what is there before sending it again.",
        )

    def _client(self) -> httpx2.AsyncClient:
        if self._http.is_closed:
            raise Closed(f"The connection to {self._url} is closed.", hint="Open it again.")
        return self._http

    def _unreachable(self, error: Exception) -> HeadwaterError:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return Untrusted(
                f"The certificate of {self._url} is not trusted here: {str(error).partition('certificate verify failed: ')[2] or error}.",
                hint="Name the authority that signed it with ca=, `client.ca_file` or HEADWATER_CLIENT__CA_FILE, and use an address "
                "that the certificate names.",
            )
        return Unreachable(
            f"No headwater server answers at {self._url} ({error or type(error).__name__}).", hint="Start one with `headwater serve`."
        )

    def _timeout(self, error: Exception) -> HeadwaterError:
        return Timeout(f"{self._url} did not answer in time ({type(error).__name__}).", hint="Ask again, or look at its /readyz.")


async def _told(events: httpx2.EventSource) -> AsyncIterator[httpx2.ServerSentEvent]:
    async for event in events:
        if event.event == "error":
            raise error_of(500, event.data.encode())
        if event.event == "message" and event.data:
            yield event


def _check(url: str, token: str | None) -> None:
    """Errors: `BadConfig` for what is no address of a server, or no token; it is never shown."""
    try:
        address = httpx2.URL(url)
        good = bool(address.host) and (address.port or 0) < 1 << 16
    except httpx2.InvalidURL:
        good = False
    if not good:
        raise BadConfig(f"{url!r} is no address of a server.", hint="Write it such as http://127.0.0.1:8420.")
    if token and not re.fullmatch("[!-~]+", token):
        raise BadConfig(
            "The token holds a space, a line end or a letter that cannot be sent.",
            hint="Give it as it stands in the server's token file, behind its role.",
        )


def _trust(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise BadConfig(
            f"{ca} holds no certificates of authorities: {error.strerror or error}.",
            hint="Name a PEM file with the authority's certificate.",
        ) from None

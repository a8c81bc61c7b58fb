"""The HTTP client of one server: requests, answers, and the error for each kind of failure."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from headwater.client.events import EventReader, ServerEvent
from headwater.client.http_pool import HttpPool
from headwater.client.http_protocol import AnswerLate, AnswerMalformed, ConnectionEnded, Exchange, HttpProtocol
from headwater.core.errors import BadConfig, BadInput, Closed, HeadwaterError, OutcomeUnknown, Timeout, Unreachable, Untrusted
from headwater.wire.problems import error_of, problem_in

B = TypeVar("B")
T = TypeVar("T")
_STREAM = 45.0  # seconds: three pings
_NONE: Mapping[str, str] = {}
_UNFIT = re.compile(r"[^\t\x20-\x7e\x80-\xff]")  # characters that would end a header, or cannot stand in one


class HttpConnection:
    """A client of one server. Tasks share its kept connections.

    It repeats a request only where that is safe: a GET, or a request with an `Idempotency-Key`, whose kept connection ended before any byte
    of the answer. For every other change a lost answer is `OutcomeUnknown`.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        ca: Path | None = None,
        unix: Path | None = None,
        only_unix: bool = False,
        same: Callable[[], bool] | None = None,
    ) -> None:
        """`ca`: the authorities that sign the certificate of an https address; None: the system's. Errors: `BadConfig`.

        `unix`: the server's Unix socket, used if it is reachable; `only_unix`: use no port. `same`: tells whether the intended server still
        listens at the address; if not, a new connection is `Unreachable`.
        """
        self._pool = pool_of(url, token, ca=ca, unix=unix, only_unix=only_unix, same=same)
        self._url = url.rstrip("/")
        self._prefix = quote(urlsplit(self._url).path.rstrip("/"), safe="/%:@!$&'()*+,;=~-._")
        authorization = f"Authorization: Bearer {token}\r\n" if token else ""
        self._common = f" HTTP/1.1\r\nHost: {urlsplit(self._url).netloc}\r\n{authorization}".encode()

    @property
    def closed(self) -> bool:
        return self._pool.closed

    async def aclose(self) -> None:
        self._pool.close()

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, object] = _NONE,
        headers: Mapping[str, str] = _NONE,
        content: bytes = b"",
        patience: float | None = 60.0,
        hot: bool = False,
        seen: dict[str, str] | None = None,
    ) -> bytes:
        """The body of an answer. `hot`: a short request, which may share a connection with others. `seen`: takes the answer's headers, by
        their names in small letters.

        Errors: the server's, `Unreachable`, `Timeout`, and `OutcomeUnknown` for a lost answer to a change.
        """
        head = self.head(method, path, params, headers)
        safe = method == "GET" or "Idempotency-Key" in headers
        return await self.exchange(method, path, head, content, patience=patience, hot=hot, safe=safe, seen=seen)

    async def answers(self, *, patience: float) -> bool:
        """Whether the server says anything within `patience` seconds. A stopped one takes connections, and says nothing.

        True where no connection is made for another reason: the call that comes next says which.
        """
        try:
            await self.ask("GET", "/healthz", patience=patience)
        except HeadwaterError as error:
            return not isinstance(error.__cause__, AnswerLate | TimeoutError)
        return True

    async def exchange(
        self,
        method: str,
        path: str,
        head: bytes,
        content: bytes,
        *,
        patience: float | None = 60.0,
        hot: bool = False,
        safe: bool = False,
        seen: dict[str, str] | None = None,
    ) -> bytes:
        """`ask` with a prepared `head`. `safe`: the request may be repeated."""
        loop = asyncio.get_running_loop()
        head += b"Content-Length: %d\r\n\r\n" % len(content) if content or method != "GET" else b"\r\n"
        while True:
            kept = self._ready(hot=hot)
            protocol = kept or await self._connected(hot=hot)
            exchange = Exchange(loop, patience=patience)
            try:
                rest = protocol.send(head, content, exchange)
                if rest is not None:
                    await rest
                await exchange.done
            except ConnectionEnded as error:
                if self.closed:
                    raise self._closed() from None
                if safe and kept is not None and not exchange.status and not isinstance(error, AnswerLate | AnswerMalformed):
                    continue  # the connection was idle: the server may have closed it before the request came
                raise self._lost(method, path, error, safe=method == "GET") from error
            except asyncio.CancelledError:
                protocol.leave(exchange)
                raise
            if seen is not None:
                seen |= {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in exchange.headers}
            return self._answer(method, path, exchange)

    def _answer(self, method: str, path: str, exchange: Exchange) -> bytes:
        body, status = exchange.whole(), exchange.status
        self._check_encoding(method, path, exchange)
        if not 200 <= status < 300:  # also redirects: no headwater server sends one
            if method != "GET" and status >= 500 and problem_in(body) is None:  # of a proxy, which had forwarded the request
                raise self.foreign(method, path, f"status {status}")
            raise error_of(status, body)
        return body

    def _check_encoding(self, method: str, path: str, exchange: Exchange) -> None:
        for name, value in exchange.headers:
            if name == b"content-encoding" and value.lower() != b"identity":
                raise self.foreign(method, path, "its content is packed, which was not asked for")

    def head(self, method: str, path: str, params: Mapping[str, object] = _NONE, headers: Mapping[str, str] = _NONE) -> bytes:
        """The head of a request, up to the length of its body. Errors: `BadInput` for a header that cannot be sent."""
        query = f"?{urlencode(params)}" if params else ""
        lines = ""
        for name, value in headers.items():
            if _UNFIT.search(value):
                raise BadInput(f"The value of {name} cannot be sent as a header.", hint="Use letters, digits and signs of ASCII.")
            lines += f"{name}: {value}\r\n"
        return f"{method} {self._prefix}{path}{query}".encode("ascii") + self._common + lines.encode("latin-1")

    def understood(self, method: str, path: str, read: Callable[[B], T], answer: B) -> T:
        """The parsed answer. Errors: for an answer that is not headwater's, `Unreachable`, or `OutcomeUnknown` after a change."""
        try:
            return read(answer)
        except (msgspec.MsgspecError, UnicodeError, RecursionError, BadInput) as error:
            raise self.foreign(method, path, error) from error

    @asynccontextmanager
    async def events(
        self, path: str, *, params: Mapping[str, object] = _NONE, headers: Mapping[str, str] = _NONE, names: Collection[str] = ()
    ) -> AsyncIterator[AsyncIterator[ServerEvent]]:
        """The events of a stream, once the server has answered: those without a name, and those of these names. Errors: as `ask`, and
        those that the server sends as events."""
        head = self.head("GET", path, params, {"Accept": "text/event-stream", **headers}) + b"\r\n"
        protocol = self._ready(hot=False) or await self._connected(hot=False)
        exchange = Exchange(asyncio.get_running_loop(), patience=_STREAM, streamed=True)
        try:
            protocol.send(head, b"", exchange)
            assert exchange.headed is not None
            await exchange.headed
            self._check_encoding("GET", path, exchange)
            if exchange.status != 200:
                body = b"".join([chunk async for chunk in _chunks(protocol, exchange)])
                raise error_of(exchange.status, body)
            async with aclosing(_events(protocol, exchange, names)) as events:
                yield events
        except ConnectionEnded as error:
            raise self._closed() if self.closed else self._unreachable(error) from error
        except UnicodeError as error:
            raise self.foreign("GET", path, error) from error
        finally:
            protocol.leave(exchange)

    def foreign(self, method: str, path: str, error: Exception | str) -> HeadwaterError:
        """The error for an unreadable answer: another program listens there, or a proxy answered."""
        if method == "GET":
            return Unreachable(
                f"What answers at {self._url} is no headwater server, or a newer one ({error}).",
                hint="Look at the address, and at what stands between.",
            )
        return OutcomeUnknown(
            f"{self._url} gave no answer to {method} {path} that can be read ({error}); it may have been done or not.",
            hint="Look at the address, and read what is there before sending it again.",
        )

    def _ready(self, *, hot: bool) -> HttpProtocol | None:
        if self.closed:
            raise self._closed()
        return self._pool.ready(hot=hot)

    async def _connected(self, *, hot: bool) -> HttpProtocol:
        try:
            return await self._pool.connect(hot=hot)
        except (OSError, TimeoutError) as error:
            raise self._unreachable(error) from error

    def _closed(self) -> Closed:
        return Closed(f"The connection to {self._url} is closed.", hint="Open it again.")

    def _lost(self, method: str, path: str, error: ConnectionEnded, *, safe: bool) -> HeadwaterError:
        if isinstance(error, AnswerMalformed):
            return self.foreign(method, path, error)
        if safe:
            return self._timeout(error) if isinstance(error, AnswerLate) else self._unreachable(error)
        return OutcomeUnknown(
            f"{self._url} did not answer to {method} {path}; it may have been done or not.",
            hint="Read what is there before sending it again.",
        )

    def _unreachable(self, error: Exception) -> HeadwaterError:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return Untrusted(
                f"The certificate of {self._url} is not trusted here: {str(error).partition('certificate verify failed: ')[2] or error}.",
                hint="Name the authority that signed it with ca=, `client.ca_file` or HEADWATER_CLIENT__CA_FILE, and use an address "
                "that the certificate names.",
            )
        return Unreachable(f"No headwater server answers at {self._url} ({_reason(error)}).", hint="Start one with `headwater serve`.")

    def _timeout(self, error: Exception) -> HeadwaterError:
        return Timeout(f"{self._url} did not answer in time ({error}).", hint="Ask again, or look at its /readyz.")


def _reason(error: Exception) -> str:
    """What is wrong with a connection; Python says nothing for some of its errors."""
    silent = "no answer came in time" if isinstance(error, TimeoutError) else "it ended the connection"
    return str(error) or (silent if isinstance(error, OSError) else type(error).__name__)


async def _chunks(protocol: HttpProtocol, exchange: Exchange) -> AsyncIterator[bytes]:
    while (chunk := await protocol.chunk(exchange)) is not None:
        yield chunk


async def _events(protocol: HttpProtocol, exchange: Exchange, names: Collection[str]) -> AsyncGenerator[ServerEvent]:
    reader = EventReader()
    async for chunk in _chunks(protocol, exchange):
        for event in reader.feed(chunk):
            if event.event == "error":
                raise error_of(500, event.data.encode())
            if event.event == "message" or event.event in names:
                yield event


def pool_of(url: str, token: str | None = None, *, ca: Path | None = None, **more: Any) -> HttpPool:
    """The pool of connections to the server at an address. `more`: as for `HttpPool`. Errors: `BadConfig`."""
    host, port = _address(url, token)
    return HttpPool(host, port, trust=_trust(ca) if url.startswith("https:") else None, **more)


def _address(url: str, token: str | None) -> tuple[str, int]:
    """The host and port. Errors: `BadConfig` for an invalid address or token; the message does not show the token."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        good = bool(re.fullmatch(r"[!-~]+", parts.netloc)) and bool(host) and bool(host.encode("idna"))
        good = good and not (parts.query or parts.fragment)
    except (ValueError, UnicodeError):
        good = False
    if "@" in url:
        raise BadConfig(
            "The address of a server holds no name and no password.", hint="Give a token: token=, or HEADWATER_TOKEN on the command line."
        )
    if not good:
        raise BadConfig(f"{url!r} is no address of a server.", hint="Write it such as http://127.0.0.1:8420.")
    if token and not re.fullmatch("[!-~]+", token):
        raise BadConfig(
            "The token holds a space, a line end or a letter that cannot be sent.",
            hint="Give it as it stands in the server's token file, behind its role.",
        )
    return host, port


def _trust(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise BadConfig(
            f"{ca} holds no certificates of authorities: {error.strerror or error}.",
            hint="Name a PEM file with the authority's certificate.",
        ) from None

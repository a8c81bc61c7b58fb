"""The log of a server, over HTTP."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import msgspec

from headwater.client.log import AsyncLog, check_place, check_read
from headwater.client.problems import error_of, problem_in
from headwater.client.wire import read_shown, read_topic, send_records, send_topic, show_time
from headwater.core.clock import Clock
from headwater.core.errors import (
    BadConfig,
    BadInput,
    Closed,
    HeadwaterError,
    OutcomeUnknown,
    Timeout,
    Unavailable,
    Unreachable,
    Untrusted,
)
from headwater.log.record import Bounds, Compacted, Record, Topic, TopicSettings, check_topic_name

A = TypeVar("A", bytes, str)
T = TypeVar("T")

_EVENT = 128 << 20  # bytes: a record of 48 MiB as base64 fits
_PATIENCE = 30.0  # seconds that a tail waits for a server that restarts
_AGAIN = 0.25
_LIVED = 5.0  # seconds after which a stream that breaks was a good one: one that breaks at once, again and again, is no server of ours
_LIMIT = 10_000  # records that the server gives at once
_SHORT = httpx2.Timeout(60.0, connect=5.0)
_STREAM = httpx2.Timeout(60.0, connect=5.0, read=45.0)  # three pings


# What answers hold, beside what is of no use here.


class _Page(msgspec.Struct):
    items: list[msgspec.Raw]
    next: str | None = None


class _Topics(msgspec.Struct):
    items: list[dict[str, Any]]
    next: str | None


class _Offsets(msgspec.Struct):
    offsets: list[int]


class _Offset(msgspec.Struct):
    offset: int


class _Start(msgspec.Struct):
    start: int


class _Bounds(msgspec.Struct):
    start: int
    end: int


class RemoteLog(AsyncLog):
    """Speaks to one server. Connections are kept and shared between tasks."""

    def __init__(
        self, url: str, *, token: str | None, clock: Clock, ca: Path | None = None, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        """`ca`: the authorities that the certificate of an https address is checked by; None: the system's. Errors: `BadConfig`."""
        _check(url, token)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=256)
        self._url, self._clock = url.rstrip("/"), clock
        self._http = httpx2.AsyncClient(
            base_url=self._url,
            headers=headers,
            timeout=_SHORT,
            limits=limits,
            verify=_trust(ca) if self._url.startswith("https:") else True,
            transport=transport,
            trust_env=False,
        )

    async def create_topic(self, name: str, *, partitions: int = 1, settings: TopicSettings | None = None) -> Topic:
        return await self._asked("PUT", _topic(name), _shown_topic, content=send_topic(partitions, settings))

    async def topics(self) -> list[Topic]:
        found: list[Topic] = []
        cursor: str | None = None
        while True:
            query = {"limit": 1000, **({"cursor": cursor} if cursor else {})}
            topics, cursor = await self._asked("GET", "/log", _shown_topics, params=query)
            found += topics
            if cursor is None:
                return found

    async def topic(self, name: str) -> Topic:
        return await self._asked("GET", _topic(name), _shown_topic)

    async def delete_topic(self, name: str) -> None:
        await self.ask("DELETE", _topic(name))

    async def append(self, topic: str, partition: int, records: Sequence[Record]) -> Sequence[int]:
        path, headers = f"{_place(topic, partition)}/records", {"Content-Type": "application/x-ndjson"}
        return (await self._asked("POST", path, _of(_Offsets), content=send_records(records), headers=headers)).offsets

    async def bounds(self, topic: str, partition: int) -> Bounds:
        answer = await self._asked("GET", _place(topic, partition), _of(_Bounds))
        return Bounds(answer.start, answer.end)

    async def read(self, topic: str, partition: int, start: int, *, limit: int = 1000) -> list[Record]:
        check_read(start, limit)
        query = {"from": start, "limit": min(limit, _LIMIT), "decode": "binary"}
        return await self._asked("GET", f"{_place(topic, partition)}/records", _shown_records, params=query)

    async def tail(self, topic: str, partition: int, start: int | None = None) -> AsyncIterator[Record]:
        check_read(start)
        if start is None:
            start = (await self.bounds(topic, partition)).end
        path = f"{_place(topic, partition)}/records"
        missed: float | None = None  # since when the server has not answered
        answered: float | None = None  # when this stream began
        while True:
            try:
                async for record in self._events(path, start):
                    if record is None:
                        answered = self._clock.monotonic()
                        continue
                    assert record.offset is not None
                    start, missed = record.offset + 1, None
                    yield record
            except Unavailable as error:
                now = self._clock.monotonic()
                if answered is not None and now - answered > _LIVED:
                    missed = None
                missed, answered = now if missed is None else missed, None
                if isinstance(error, Untrusted) or self._http.is_closed or now - missed > _PATIENCE:
                    raise
            # A server that restarts ends its streams: go on where this one was, as a tail over a directory would.
            await asyncio.sleep(_AGAIN)

    async def _events(self, path: str, start: int) -> AsyncIterator[Record | None]:
        """None once the server has answered, then the records."""
        query: dict[str, str | int] = {"from": start, "decode": "binary"}
        try:
            async with self._client().stream(
                "GET", path, params=query, headers={"Accept": "text/event-stream"}, timeout=_STREAM
            ) as response:
                if response.status_code != 200:
                    raise error_of(response.status_code, await response.aread())
                yield None
                async for event in httpx2.EventSource(response, max_event_size=_EVENT):
                    if event.event == "error":
                        raise error_of(500, event.data.encode())
                    if event.event == "message" and event.data:
                        yield self.understood("GET", path, read_shown, event.data)
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error
        except (httpx2.DecodingError, UnicodeError) as error:
            raise self._foreign("GET", path, error) from error

    async def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        at = show_time(timestamp)
        return (await self._asked("GET", f"{_place(topic, partition)}/offset", _of(_Offset), params={"at": at})).offset

    async def delete_before(self, topic: str, partition: int, offset: int) -> int:
        return (await self._asked("DELETE", f"{_place(topic, partition)}/records", _of(_Start), params={"before": offset})).start

    async def compact(self, topic: str, partition: int, before: int | None = None) -> Compacted:
        query = {} if before is None else {"before": before}
        return await self._asked("POST", f"{_place(topic, partition)}/compact", _of(Compacted), params=query, timeout=None)

    async def aclose(self) -> None:
        await self._http.aclose()

    # -- one request ------------------------------------------------------------------------------------------

    async def _asked(self, method: str, path: str, read: Callable[[bytes], T], **parts: Any) -> T:
        return self.understood(method, path, read, await self.ask(method, path, **parts))

    def understood(self, method: str, path: str, read: Callable[[A], T], answer: A) -> T:
        """What an answer says. Errors: for one that no headwater server gives, `Unreachable`, or `OutcomeUnknown` to a change."""
        try:
            return read(answer)
        except (msgspec.MsgspecError, UnicodeError, RecursionError, BadInput) as error:
            raise self._foreign(method, path, error) from error

    async def ask(self, method: str, path: str, **parts: Any) -> bytes:
        """The body of an answer. Errors: the server's, `Unreachable`, `Timeout`, and `OutcomeUnknown` for a lost answer to a change."""
        try:
            response = await self._client().request(method, path, **parts)
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
            raise self._foreign(method, path, error) from error
        if not response.is_success:  # also where it leads elsewhere: no headwater server does that
            if (
                method != "GET" and response.status_code >= 500 and problem_in(response.content) is None
            ):  # a proxy's, which asked the server
                raise self._foreign(method, path, f"status {response.status_code}")
            raise error_of(response.status_code, response.content)
        return response.content

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

    def _foreign(self, method: str, path: str, error: Exception | str) -> HeadwaterError:
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

    def _timeout(self, error: Exception) -> HeadwaterError:
        return Timeout(f"{self._url} did not answer in time ({type(error).__name__}).", hint="Ask again, or look at its /readyz.")


def _of(kind: type[T]) -> Callable[[bytes], T]:
    return msgspec.json.Decoder(kind).decode


def _shown_topic(body: bytes) -> Topic:
    return read_topic(msgspec.json.decode(body, type=dict[str, Any]))


def _shown_topics(body: bytes) -> tuple[list[Topic], str | None]:
    page = msgspec.json.decode(body, type=_Topics)
    return [read_topic(item) for item in page.items], page.next


def _shown_records(body: bytes) -> list[Record]:
    return [read_shown(bytes(item)) for item in msgspec.json.decode(body, type=_Page).items]


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


def _place(topic: str, partition: int) -> str:
    check_place(topic, partition)
    return f"/log/{topic}/{partition}"


def _topic(name: str) -> str:
    check_topic_name(name)  # every name that passes is an address as it is
    return f"/log/{name}"

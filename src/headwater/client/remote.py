"""The log of a server, over HTTP."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from headwater.client.log import AsyncLog, check_place, check_read
from headwater.client.problems import error_of
from headwater.client.wire import read_shown, read_topic, send_records, send_topic, show_time
from headwater.core.clock import Clock
from headwater.core.errors import BadConfig, Closed, HeadwaterError, OutcomeUnknown, Timeout, Unavailable, Unreachable, Untrusted
from headwater.log.record import Bounds, Compacted, Record, Topic, TopicSettings, check_topic_name

_EVENT = 128 << 20  # bytes: a record of 48 MiB as base64 fits
_PATIENCE = 30.0  # seconds that a tail waits for a server that restarts
_AGAIN = 0.25
_LIMIT = 10_000  # records that the server gives at once
_SHORT = httpx2.Timeout(60.0, connect=5.0)
_STREAM = httpx2.Timeout(60.0, connect=5.0, read=45.0)  # three pings


class _Page(msgspec.Struct):
    items: list[msgspec.Raw]
    next: str | None = None


_page = msgspec.json.Decoder(_Page)


class RemoteLog(AsyncLog):
    """Speaks to one server. Connections are kept and shared between tasks."""

    def __init__(
        self, url: str, *, token: str | None, clock: Clock, ca: Path | None = None, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        """`ca`: the authorities that the certificate of an https address is checked by; None: the system's. Errors: `BadConfig`."""
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
        return read_topic(await self._json("PUT", _topic(name), content=send_topic(partitions, settings)))

    async def topics(self) -> list[Topic]:
        found: list[Topic] = []
        cursor: str | None = None
        while True:
            page = await self._json("GET", "/log", params={"limit": 1000, **({"cursor": cursor} if cursor else {})})
            found += [read_topic(item) for item in page["items"]]
            cursor = page["next"]
            if cursor is None:
                return found

    async def topic(self, name: str) -> Topic:
        return read_topic(await self._json("GET", _topic(name)))

    async def delete_topic(self, name: str) -> None:
        await self._json("DELETE", _topic(name))

    async def append(self, topic: str, partition: int, records: Sequence[Record]) -> Sequence[int]:
        answer = await self._json(
            "POST", f"{_place(topic, partition)}/records", content=send_records(records), headers={"Content-Type": "application/x-ndjson"}
        )
        offsets: list[int] = answer["offsets"]
        return offsets

    async def bounds(self, topic: str, partition: int) -> Bounds:
        answer = await self._json("GET", _place(topic, partition))
        return Bounds(answer["start"], answer["end"])

    async def read(self, topic: str, partition: int, start: int, *, limit: int = 1000) -> list[Record]:
        check_read(start, limit)
        query = {"from": start, "limit": min(limit, _LIMIT), "decode": "binary"}
        page = _page.decode(await self.ask("GET", f"{_place(topic, partition)}/records", params=query))
        return [read_shown(bytes(item)) for item in page.items]

    async def tail(self, topic: str, partition: int, start: int | None = None) -> AsyncIterator[Record]:
        check_read(start)
        if start is None:
            start = (await self.bounds(topic, partition)).end
        path = f"{_place(topic, partition)}/records"
        since = self._clock.monotonic()  # the last time the server was heard
        while True:
            try:
                async for record in self._events(path, start):
                    assert record.offset is not None
                    start = record.offset + 1
                    yield record
                since = self._clock.monotonic()
            except Unavailable as error:
                if isinstance(error, Untrusted) or self._http.is_closed or self._clock.monotonic() - since > _PATIENCE:
                    raise
            # A server that restarts ends its streams: go on where this one was, as a tail over a directory would.
            await asyncio.sleep(_AGAIN)

    async def _events(self, path: str, start: int) -> AsyncIterator[Record]:
        query: dict[str, str | int] = {"from": start, "decode": "binary"}
        try:
            async with self._client().stream(
                "GET", path, params=query, headers={"Accept": "text/event-stream"}, timeout=_STREAM
            ) as response:
                if response.status_code != 200:
                    raise error_of(response.status_code, await response.aread())
                async for event in httpx2.EventSource(response, max_event_size=_EVENT):
                    if event.event == "error":
                        raise error_of(500, event.data.encode())
                    if event.event == "message" and event.data:
                        yield read_shown(event.data)
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error

    async def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        at = show_time(timestamp)
        return int((await self._json("GET", f"{_place(topic, partition)}/offset", params={"at": at}))["offset"])

    async def delete_before(self, topic: str, partition: int, offset: int) -> int:
        return int((await self._json("DELETE", f"{_place(topic, partition)}/records", params={"before": offset}))["start"])

    async def compact(self, topic: str, partition: int, before: int | None = None) -> Compacted:
        query = {} if before is None else {"before": before}
        return msgspec.convert(await self._json("POST", f"{_place(topic, partition)}/compact", params=query, timeout=None), Compacted)

    async def aclose(self) -> None:
        await self._http.aclose()

    # -- one request ------------------------------------------------------------------------------------------

    async def _json(self, method: str, path: str, **parts: Any) -> Any:
        body = await self.ask(method, path, **parts)
        return msgspec.json.decode(body) if body else None

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
        if response.status_code >= 400:
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

    def _timeout(self, error: Exception) -> HeadwaterError:
        return Timeout(f"{self._url} did not answer in time ({type(error).__name__}).", hint="Ask again, or look at its /readyz.")


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

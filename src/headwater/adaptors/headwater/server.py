"""The log of a headwater server, over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import httpx2
import msgspec

from headwater.adaptors.headwater.connection import BYTES, HeadwaterConnection
from headwater.core.errors import BadConfig, BadInput, Denied, Forbidden, HeadwaterError, NotFound, Timeout, Unreachable
from headwater.log.json_form import ShownTopic, read_shown, read_topic, send_records
from headwater.log.record import Bounds, Record, Topic, check_topic_name
from headwater.wire.problems import error_of, problem_in

T = TypeVar("T")
_MOST = 10_000  # records that a server returns for one request
_FIRST = 500
_CONNECT = 5.0  # seconds
_JSON = {"Content-Type": "application/json"}
_LINES = {"Content-Type": "application/x-ndjson"}


class _Named(msgspec.Struct):
    name: str


class _Topics(msgspec.Struct):
    items: list[_Named]
    next: str | None = None


class _Page(msgspec.Struct):
    items: list[msgspec.Raw]


class ServerConnection(HeadwaterConnection):
    """The connection to one server. `seconds`: the timeout of one request."""

    splits = False  # the server's log may be on Kafka, where an earlier claim says which later records count
    pause = 0.25

    def __init__(self, url: str, token: str | None, seconds: float) -> None:
        self.where = url
        self._limit = _FIRST
        try:
            self._http = httpx2.Client(
                base_url=url,
                headers={"Authorization": f"Bearer {token}"} if token is not None else {},
                timeout=httpx2.Timeout(seconds, connect=min(seconds, _CONNECT)),
                trust_env=False,
                follow_redirects=False,  # the token is for this server
            )
        except ValueError:
            raise BadConfig("The token holds letters that no header can have.", hint="Look at what token= names.") from None

    def names(self) -> list[str]:
        names: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = self._understood(_decoded(_Topics), self._ask("GET", "/log", params={"limit": 1000, **cursor}))
            names += [topic.name for topic in page.items]
            if page.next is None:
                return names
            cursor = {"cursor": page.next}

    def find(self, name: str) -> Topic:
        check_topic_name(name)
        return self._understood(_topic, self._ask("GET", f"/log/{name}"))

    def create(self, name: str, partitions: int) -> Topic:
        check_topic_name(name)
        body = msgspec.json.encode({"partitions": partitions})
        return self._understood(_topic, self._ask("PUT", f"/log/{name}", content=body, headers=_JSON))

    def bounds(self, topic: str, partition: int) -> Bounds:
        return self._understood(_decoded(Bounds), self._ask("GET", f"/log/{topic}/{partition}"))

    def read(self, topic: str, partition: int, start: int, limit: int) -> list[Record]:
        query = {"from": start, "limit": min(limit, self._limit), "decode": "binary"}
        body = self._ask("GET", f"/log/{topic}/{partition}/records", params=query)
        records = self._understood(_records, body)
        if records:  # the server limits the records of a page, not its bytes: ask next time for as many as make about BYTES
            self._limit = max(1, min(_MOST, self._limit * 4, int(BYTES * len(records) / max(1, len(body)))))
        return records

    def append(self, topic: str, partition: int, records: Sequence[Record], seconds: float) -> None:
        path = f"/log/{topic}/{partition}/records"
        self._ask("POST", path, content=send_records(records), headers=_LINES, timeout=max(0.001, seconds))

    def probe(self, topic: Topic | None) -> None:
        # The server checks the role before it reads the body. It refuses an empty list, so nothing is appended.
        try:
            self._ask("POST", f"/log/{topic.name if topic is not None else 'none'}/0/records", content=b"[]", headers=_JSON)
        except (BadInput, NotFound):
            return

    def close(self) -> None:
        self._http.close()

    # -- one request ----------------------------------------------------------------------------------------

    def _ask(self, method: str, path: str, **parts: Any) -> bytes:
        """The body of the response. Errors: the server's own; `Unreachable`, `Timeout`."""
        try:
            response = self._http.request(method, path, **parts)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            # A source waits for an unreachable server and asks again. An append that timed out after the connect may have arrived.
            late = isinstance(error, httpx2.TimeoutException) and not isinstance(error, httpx2.ConnectTimeout) and method != "GET"
            if late:
                raise Timeout(f"{self.where} did not answer in time ({type(error).__name__}).", hint="Look at its /readyz.") from None
            raise Unreachable(
                f"No headwater server answers at {self.where} ({type(error).__name__}).",
                hint="See whether it runs, and whether the address is right.",
            ) from None
        if response.is_success:
            return response.content
        raise self._refused(response.status_code, response.content)

    def _refused(self, status: int, body: bytes) -> HeadwaterError:
        if problem_in(body) is None:
            return self._stranger(f" ({status})")
        error = error_of(status, body)
        if not isinstance(error, Denied):
            return type(error)(f"{self.where}: {error.message}", hint=error.hint)
        hint = 'Give a token that the server knows: headwater(..., token="${NAME}").'
        if isinstance(error, Forbidden):
            hint = 'Give a token of the role reader to read, writer to append, operator to create topics: token="${NAME}".'
        return type(error)(f"{self.where} refuses: {error.message}", hint=hint)

    def _stranger(self, more: str = "") -> Unreachable:
        return Unreachable(f"What answers at {self.where} is no headwater server{more}.", hint="Give the address that `serve` prints.")

    def _understood(self, read: Callable[[bytes], T], body: bytes) -> T:
        try:
            return read(body)
        except (msgspec.MsgspecError, BadInput):
            raise self._stranger() from None


def _decoded(kind: type[T]) -> Callable[[bytes], T]:
    return msgspec.json.Decoder(kind).decode


def _topic(body: bytes) -> Topic:
    return read_topic(msgspec.json.decode(body, type=ShownTopic))


def _records(body: bytes) -> list[Record]:
    return [read_shown(bytes(record)) for record in msgspec.json.decode(body, type=_Page).items]

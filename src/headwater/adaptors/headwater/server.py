"""The log of a headwater server, over HTTP: the addresses and forms that its /openapi.json tells."""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import msgspec

from headwater.adaptors.headwater.connection import BYTES, HeadwaterConnection
from headwater.core.errors import BadConfig, BadInput, Denied, Forbidden, HeadwaterError, NotFound, Timeout, Unavailable, Unreachable
from headwater.core.units import Size
from headwater.log.record import Bounds, Mode, Record, Topic, TopicSettings, check_topic_name

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MODES = {mode.name.lower(): mode.value for mode in Mode}
_MOST = 10_000  # records that a server gives at once
_FIRST = 500
_CONNECT = 5.0  # seconds

Binary = dict[str, str] | None


class _Shown(msgspec.Struct):
    """A record as a server shows it with decode=binary."""

    offset: int
    timestamp: int | str
    key: Binary
    value: Binary
    headers: list[tuple[str, Binary]]
    mode: int | str
    op: int


class _Page(msgspec.Struct):
    items: list[_Shown]


class _Topics(msgspec.Struct):
    items: list[dict[str, Any]]
    next: str | None = None


class _Problem(msgspec.Struct):
    code: str
    detail: str
    hint: str = ""


_page, _problem = msgspec.json.Decoder(_Page), msgspec.json.Decoder(_Problem)


class ServerLink(HeadwaterConnection):
    """One server. `seconds`: how long one answer may take."""

    splits = False  # its log may be Kafka's, where an earlier claim says which later records count
    pause = 0.25

    def __init__(self, url: str, token: str | None, seconds: float) -> None:
        self.where = url
        self._once = _FIRST
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
        found: list[str] = []
        cursor: str | None = None
        while True:
            body = self._ask("GET", "/log", params={"limit": 1000, **({"cursor": cursor} if cursor else {})})
            page = self._read(body, _Topics)
            found += [one["name"] for one in page.items]
            cursor = page.next
            if cursor is None:
                return found

    def find(self, name: str) -> Topic:
        check_topic_name(name)
        return self._topic(self._ask("GET", f"/log/{name}"))

    def create(self, name: str, partitions: int) -> Topic:
        check_topic_name(name)
        return self._topic(self._ask("PUT", f"/log/{name}", content=msgspec.json.encode({"partitions": partitions}), headers=_JSON))

    def bounds(self, topic: str, partition: int) -> Bounds:
        found: Bounds = self._read(self._ask("GET", f"/log/{topic}/{partition}"), Bounds)
        return found

    def read(self, topic: str, partition: int, start: int, limit: int) -> list[Record]:
        query = {"from": start, "limit": min(limit, self._once), "decode": "binary"}
        body = self._ask("GET", f"/log/{topic}/{partition}/records", params=query)
        try:
            records = [_record(one) for one in _page.decode(body).items]
        except (msgspec.MsgspecError, ValueError, KeyError):
            raise self._stranger() from None
        if records:  # so many that about BYTES come the next time: a page has no limit of bytes
            self._once = max(1, min(_MOST, self._once * 4, int(BYTES * len(records) / max(1, len(body)))))
        return records

    def append(self, topic: str, partition: int, records: Sequence[Record], seconds: float) -> None:
        body = msgspec.json.Encoder().encode_lines(map(_sent, records))
        self._ask("POST", f"/log/{topic}/{partition}/records", content=body, headers=_LINES, timeout=max(0.001, seconds))

    def probe(self, topic: Topic | None) -> None:
        # Who may do it is asked before what is sent is looked at: a list of nothing is refused, and appends nothing.
        try:
            self._ask("POST", f"/log/{topic.name if topic is not None else 'none'}/0/records", content=b"[]", headers=_JSON)
        except (BadInput, NotFound):
            return

    def close(self) -> None:
        self._http.close()

    # -- one request ----------------------------------------------------------------------------------------

    def _ask(self, method: str, path: str, **parts: Any) -> bytes:
        """The body of an answer. Errors: the server's own; `Unreachable`, `Timeout`."""
        try:
            answer = self._http.request(method, path, **parts)
        except (httpx2.ConnectTimeout, httpx2.ConnectError) as error:
            raise self._unreachable(error) from None
        except httpx2.TimeoutException as error:
            if method == "GET":  # a source waits for what it cannot reach, and asks again
                raise self._unreachable(error) from None
            raise Timeout(f"{self.where} did not answer in time ({type(error).__name__}).", hint="Look at its /readyz.") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise self._unreachable(error) from None
        if 200 <= answer.status_code < 300:
            return answer.content
        raise self._refused(answer.status_code, answer.content)

    def _refused(self, status: int, body: bytes) -> HeadwaterError:
        try:
            said = _problem.decode(body)
        except msgspec.MsgspecError:
            return self._stranger(f" ({status})")
        kind = next((one for one in _kinds(HeadwaterError) if one("").code == said.code), Unavailable if status >= 500 else BadInput)
        if issubclass(kind, Forbidden):
            hint = 'Reading takes a token of the role reader, writing one of the role operator: token="${NAME}".'
            return kind(f"{self.where} refuses: {said.detail}", hint=hint)
        if issubclass(kind, Denied):
            return kind(f"{self.where} refuses: {said.detail}", hint='Name a token that it knows: headwater(..., token="${NAME}").')
        return kind(f"{self.where}: {said.detail}", hint=said.hint)

    def _unreachable(self, error: Exception) -> Unreachable:
        return Unreachable(
            f"No headwater server answers at {self.where} ({type(error).__name__}).",
            hint="See whether it runs, and whether the address is right.",
        )

    def _stranger(self, more: str = "") -> Unreachable:
        return Unreachable(f"What answers at {self.where} is no headwater server{more}.", hint="Give the address that `serve` prints.")

    def _read(self, body: bytes, kind: type[Any]) -> Any:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.MsgspecError:
            raise self._stranger() from None

    def _topic(self, body: bytes) -> Topic:
        shown = self._read(body, dict[str, Any])
        try:
            settings = TopicSettings(max_record=int(Size.parse(shown["settings"]["max_record"])))
            return Topic(shown["name"], shown["partitions"], settings, shown["generation"])
        except (KeyError, TypeError, BadInput):
            raise self._stranger() from None


_JSON = {"Content-Type": "application/json"}
_LINES = {"Content-Type": "application/x-ndjson"}


def _kinds(kind: type[HeadwaterError]) -> Iterator[type[HeadwaterError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _kinds(one)


def _record(shown: _Shown) -> Record:
    return Record(
        _bytes(shown.key),
        _bytes(shown.value),
        tuple((name, _bytes(value)) for name, value in shown.headers),
        shown.timestamp if isinstance(shown.timestamp, int) else _milliseconds(shown.timestamp),
        shown.mode if isinstance(shown.mode, int) else _MODES[shown.mode],
        shown.op,
        shown.offset,
    )


def _milliseconds(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)


def _bytes(shown: Binary) -> bytes | None:
    return None if shown is None else binascii.a2b_base64(shown["$binary"])


def _sent(record: Record) -> dict[str, Any]:
    return {
        "key": _binary(record.key),
        "value": _binary(record.value),
        "headers": [(name, _binary(value)) for name, value in record.headers],
        "timestamp": record.timestamp,
        "mode": record.mode,
        "op": record.op,
    }


def _binary(data: bytes | None) -> Binary:
    return None if data is None else {"$binary": binascii.b2a_base64(data, newline=False).decode("ascii")}

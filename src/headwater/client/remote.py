"""The log of a server, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from headwater.client.http import HttpConnection
from headwater.client.log import AsyncLog
from headwater.client.remote_backend import RemoteBackend
from headwater.core.clock import Clock
from headwater.log import operations as log
from headwater.log.answers import Offsets, PartitionContent, Placed, Places, ShownBounds
from headwater.log.json_form import ShownTopic, given_settings, read_shown, read_topic, send_records, show_key, show_settings
from headwater.log.operations import ReadRecords, TopicRequest, check_read
from headwater.log.owners import new_settings
from headwater.log.record import Bounds, Compacted, Record, Topic, TopicSettings
from headwater.wire.json import decoder
from headwater.wire.operation import Operation
from headwater.wire.request import shape_of

_LIMIT = 10_000  # records that the server gives at once
_KEPT = 10_000  # partitions whose request heads are cached
_HOT = 64 << 10  # the largest append, in bytes, that shares a connection
_LINES = {"Content-Type": "application/x-ndjson"}


def remote_log(
    url: str,
    *,
    token: str | None,
    clock: Clock,
    ca: Path | None = None,
    unix: Path | None = None,
    same: Callable[[], bool] | None = None,
) -> RemoteLog:
    """The log of the server at an address. `unix`: its socket in the file system; `same`: as of `HttpConnection`. Errors: `BadConfig`."""
    return RemoteLog(RemoteBackend(HttpConnection(url, token=token, ca=ca, unix=unix, same=same), clock=clock))


class _Page(msgspec.Struct):
    items: list[msgspec.Raw]
    next: Annotated[str, msgspec.Meta(pattern="^[0-9]{1,18}$")] | None = None


class RemoteLog(AsyncLog):
    """Speaks to one server through a backend."""

    def __init__(self, backend: RemoteBackend) -> None:
        self.backend = backend
        self._places: dict[tuple[str, str, int], tuple[str, bytes]] = {}  # by operation, topic and partition

    async def create_topic(self, name: str, *, partitions: int = 1, settings: TopicSettings | Mapping[str, str] | None = None) -> Topic:
        if isinstance(settings, TopicSettings):
            settings = show_settings(new_settings(name, settings, ""))
        written = given_settings(settings) if settings else {}
        return await self.backend.raw(log.CREATE_TOPIC, log.NewTopic(topic=name, partitions=partitions, settings=written), _read_topic)

    async def topics(self) -> list[Topic]:
        shown = await self.backend.ask(log.TOPICS, log.ListTopics())
        return self.backend.http.understood(log.TOPICS.method, log.TOPICS.path, _read_topics, shown)

    async def topic(self, name: str) -> Topic:
        return await self.backend.raw(log.TOPIC, TopicRequest(topic=name), _read_topic)

    async def delete_topic(self, name: str) -> None:
        await self.backend.ask(log.DELETE_TOPIC, TopicRequest(topic=name))

    async def append(self, topic: str, partition: int, records: Sequence[Record]) -> Sequence[int]:
        body, http = send_records(records), self.backend.http
        path, head = self._place(log.APPEND, topic, partition)
        answer = await http.exchange(log.APPEND.method, path, head, body, hot=len(body) <= _HOT)
        return http.understood(log.APPEND.method, path, _read_offsets, answer).offsets

    def _place(self, operation: Operation[Any, Any], topic: str, partition: int) -> tuple[str, bytes]:
        """The path and the head of requests to a partition, cached: making them costs as much as the rest of a small call.

        Errors: `BadInput`.
        """
        fit = type(topic) is str and type(partition) is int  # True would pass for 1
        known = self._places.get((operation.name, topic, partition)) if fit else None
        if known is not None:
            return known
        request = operation.request(topic=topic, partition=partition)
        request.check()
        path = shape_of(operation).write(request).path
        if len(self._places) >= _KEPT:
            self._places.clear()
        head = self.backend.http.head(operation.method, path, headers=_LINES if operation is log.APPEND else {})
        self._places[operation.name, topic, partition] = made = (path, head)
        return made

    async def append_by_key(self, topic: str, records: Sequence[Record]) -> list[Placed]:
        body = {"content": send_records(records), "headers": _LINES}
        return (await self.backend.raw(log.APPEND_BY_KEY, log.AppendByKey(topic=topic), decoder(Places), **body)).records

    async def stats(self, topic: str) -> list[PartitionContent]:
        return await self.backend.ask(log.STATS, TopicRequest(topic=topic))

    async def bounds(self, topic: str, partition: int) -> Bounds:
        path, head = self._place(log.BOUNDS, topic, partition)
        http = self.backend.http
        answer = await http.exchange(log.BOUNDS.method, path, head, b"", safe=True)
        shown = http.understood(log.BOUNDS.method, path, _read_bounds, answer)
        return Bounds(shown.start, shown.end)

    async def read(
        self, topic: str, partition: int, start: int, *, limit: int = 1000, stop: int | None = None, key: bytes | None = None
    ) -> list[Record]:
        check_read(start, limit, stop)
        if key is None:
            path, _ = self._place(log.READ, topic, partition)
            until, http = "" if stop is None else f"&to={stop}", self.backend.http
            head = http.head(log.READ.method, f"{path}?from={start}{until}&limit={min(limit, _LIMIT)}&decode=binary")
            answer = await http.exchange(log.READ.method, path, head, b"", safe=True)
            return http.understood(log.READ.method, path, _read_page, answer)[0]
        request = ReadRecords(
            topic=topic, partition=partition, start=start, stop=stop, limit=min(limit, _LIMIT), decode="binary", key=show_key(key)
        )
        records, following = await self.backend.raw(log.READ, request, _read_page)
        while following is not None and len(records) < limit:  # a page holds the matches of a part of the log
            request = msgspec.structs.replace(request, start=following, limit=min(limit - len(records), _LIMIT))
            more, following = await self.backend.raw(log.READ, request, _read_page)
            records += more
        return records

    async def tail(self, topic: str, partition: int, start: int | None = None) -> AsyncIterator[Record]:
        check_read(start)
        if start is None:
            start = (await self.bounds(topic, partition)).end
        request = ReadRecords(topic=topic, partition=partition, start=start, decode="binary")

        def behind(record: Record) -> ReadRecords:
            return msgspec.structs.replace(request, start=(record.offset or 0) + 1)

        async for record in self.backend.raw_stream(log.TAIL, request, read_shown, behind):
            yield record

    async def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        return (await self.backend.ask(log.OFFSET_AT, log.FindOffset(topic=topic, partition=partition, at=timestamp))).offset

    async def delete_before(self, topic: str, partition: int, offset: int) -> int:
        return (await self.backend.ask(log.DELETE_BEFORE, log.DeleteRecords(topic=topic, partition=partition, before=offset))).start

    async def compact(self, topic: str, partition: int, before: int | None = None) -> Compacted:
        return await self.backend.ask(log.COMPACT, log.CompactPartition(topic=topic, partition=partition, before=before))

    async def aclose(self) -> None:
        await self.backend.http.aclose()


_read_offsets = decoder(Offsets)
_read_bounds = decoder(ShownBounds)


_read_items = decoder(_Page)


def _read_topic(body: bytes) -> Topic:
    return read_topic(decoder(ShownTopic)(body))


def _read_topics(shown: list[ShownTopic]) -> list[Topic]:
    return [read_topic(topic) for topic in shown]


def _read_page(body: bytes) -> tuple[list[Record], int | None]:
    page = _read_items(body)
    return [read_shown(bytes(item)) for item in page.items], None if page.next is None else int(page.next)

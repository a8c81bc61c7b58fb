"""Handlers of the log's hot operations: append records, read them as pages, NDJSON or events."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from headwater.client.local import SMALL_BYTES
from headwater.client.log_performer import LogPerformer
from headwater.core.errors import BadInput, Unsupported
from headwater.log.answers import Places, ShownBounds
from headwater.log.json_form import Decoder, read_records, show_record
from headwater.log.operations import LOG, AppendByKey, AppendRecords, ReadRecords, check_read
from headwater.log.record import Record
from headwater.server.call import Call, json_answer
from headwater.server.hot import HotAnswer, HotCall, HotReply
from headwater.server.paging import link_to_next
from headwater.server.stream import EventStream, LineStream
from headwater.wire import json

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from headwater.server.handlers import Handlers

_INLINE = 16  # records: appending so few takes less time than a thread's wake-up
_FEW = 100  # records: reading and encoding so few takes less time than a thread's wake-up
_MANY = 1000
_SEARCHED = 1_000_000  # offsets that one page of a search by key covers
_BATCH = 256 << 10  # bytes that a stream reads at once
_NUMBER = re.compile(r"0|[1-9][0-9]{0,3}")
_PAGE = re.compile(rb"from=([0-9]{1,18})(?:&to=([0-9]{1,18}))?&limit=([0-9]{1,3})&decode=binary")
_HOT_TYPES = (b"application/x-ndjson", b"application/json")
_LARGE = 1 << 20  # bytes: parsing a larger body would delay other requests, so a thread does it


class LogHandlers:
    """One method for each operation of the same name."""

    def __init__(self, handlers: Handlers) -> None:
        performer: LogPerformer = handlers.backend.performer(LOG.name)
        self._log, self._streams, self._stop, self._ids = performer.log, handlers.streams, handlers.stop, handlers.ids

    # -- records ----------------------------------------------------------------------------------------------

    async def append(self, call: Call) -> ASGIApp:
        request: AppendRecords = await call.request()
        records = await self._sent(call)
        return Response(_offsets(await self._log.append(request.topic, request.partition, records)), 201, media_type="application/json")

    async def append_by_key(self, call: Call) -> ASGIApp:
        request: AppendByKey = await call.request()
        return json_answer(Places(await self._log.append_by_key(request.topic, await self._sent(call))), 201)

    def append_hot(self, call: HotCall) -> HotAnswer | bytes | None:
        """`append` on the hot path, for a known partition and a valid body. Requests that come together share a sync in a thread."""
        place = _place(call)
        appender = None if place is None or call.query else self._log.appender(*place)
        if appender is None or call.content_type not in _HOT_TYPES:
            return None
        try:
            records = read_records(call.body, lines=call.content_type == _HOT_TYPES[0])
        except BadInput:
            return None
        offsets = appender.append_inline(records) if call.alone and len(records) <= _INLINE else None
        return HotAnswer(appender.append(records), _offsets) if offsets is None else _offsets(offsets)

    def bounds_hot(self, call: HotCall) -> bytes | None:
        """`bounds` on the hot path, for a known partition."""
        place = _place(call)
        log = None if place is None or call.query or call.body else self._log.ready(*place)
        if place is None or log is None:
            return None
        bounds = log.bounds(*place)
        return json.encode(ShownBounds(place[1], bounds.start, bounds.end))

    def read_hot(self, call: HotCall) -> HotReply | bytes | None:
        """`read` on the hot path: a few records of a known partition, in the form that our client asks for."""
        place, match = _place(call), _PAGE.fullmatch(call.query)
        if place is None or match is None or call.body:
            return None
        start, stop, limit = int(match[1]), None if match[2] is None else int(match[2]), int(match[3])
        log = self._log.ready(*place)
        if log is None or not 1 <= limit <= _FEW or (stop is not None and stop < start):
            return None
        records = log.read(*place, start, limit=limit, max_bytes=SMALL_BYTES)
        records, following = _following(records, stop, log.bounds(*place).end)
        body = json.encode({"items": [show_record(record, "binary") for record in records], "next": following})
        query = {"from": start, "to": stop, "limit": limit, "decode": "binary"}
        link = link_to_next(f"/log/{place[0]}/{place[1]}/records", query, "from", following)
        return body if link is None else HotReply(body, b"link: %b\r\n" % link["Link"].encode())

    async def _sent(self, call: Call) -> list[Record]:
        """The records of the body. Errors: `BadInput`."""
        if call.header(b"idempotency-key") is not None:
            # The server does not keep the key: accepting it would promise that a retry does not append twice.
            raise Unsupported(
                "Appends to the log keep no Idempotency-Key.", hint="After a lost answer, read what is there before sending it again."
            )
        lines, body = call.body_kind() == "lines", await call.body()
        if len(body) > _LARGE:
            return await asyncio.to_thread(read_records, body, lines=lines)
        return read_records(body, lines=lines)

    async def read(self, call: Call) -> ASGIApp:
        request: ReadRecords = await call.request()
        topic, partition, stop, decode = request.topic, request.partition, request.stop, request.decode
        if request.wanted is not None:
            return await self._search(call, request, request.wanted)
        records = await self._log.read(topic, partition, await self._start(request), limit=request.limit or 100)
        end = (await self._log.bounds(topic, partition)).end if records else 0
        records, following = _following(records, stop, end)
        if len(records) > _FEW:
            return await asyncio.to_thread(_page, call, records, decode, following)
        return _page(call, records, decode, following)

    async def _search(self, call: Call, request: ReadRecords, key: bytes) -> ASGIApp:
        """A page of the records with a key. Searches a part of the partition, so that a rare key makes no request slow."""
        topic, partition, limit = request.topic, request.partition, request.limit or 100
        start = await self._start(request)
        records, upto = await self._log.search(topic, partition, start, request.stop, key, limit=limit, most=_SEARCHED)
        end = (await self._log.bounds(topic, partition)).end
        following = str(upto) if upto < (end if request.stop is None else min(request.stop, end)) else None
        return await asyncio.to_thread(_page, call, records, request.decode, following)

    async def scan(self, call: Call) -> ASGIApp:
        request: ReadRecords = await call.request()
        return LineStream(self._lines(request, request.wanted, await self._start(request)), streams=self._streams)

    async def _start(self, request: ReadRecords) -> int:
        """The first offset of the request. Errors: `BadBounds` for a range in the wrong order."""
        start = request.start if request.after is None else request.after + 1
        if start is None:
            start = (await self._log.bounds(request.topic, request.partition)).start
        check_read(start, stop=request.stop)
        return start

    async def _lines(self, request: ReadRecords, key: bytes | None, start: int) -> AsyncGenerator[bytes]:
        topic, partition, stop, limit = request.topic, request.partition, request.stop, request.limit
        end = (await self._log.bounds(topic, partition)).end
        if start > end:
            await self._log.read(topic, partition, start, limit=1)  # raises the errors of a page
        stop = end if stop is None else min(stop, end)

        def lines(records: list[Record]) -> bytes:
            return msgspec.json.Encoder().encode_lines([show_record(record, request.decode) for record in records])

        left = limit if limit is not None else _MANY
        while start < stop and left > 0:
            most = _MANY if key is not None else min(left, _MANY)
            chunk, start, count = await self._batch(topic, partition, start, stop, most, lines, key, left)
            if chunk:
                yield chunk
            del chunk
            left -= count if limit is not None else 0

    # -- streams ----------------------------------------------------------------------------------------------

    async def tail(self, call: Call) -> ASGIApp:
        request: ReadRecords = await call.request()
        for name, bound in (("to", request.stop), ("limit", request.limit)):
            if bound is not None:
                raise BadInput(
                    f"A stream has no `{name}`: it goes on until you leave.",
                    hint="Leave it out, or read without Accept: text/event-stream.",
                )
        topic, partition = request.topic, request.partition
        bounds = await self._log.bounds(topic, partition)
        start, reset = request.start, False
        last = request.after if request.last_event is None else int(request.last_event)
        if last is not None:
            # Below the start, records between are gone. Beyond the end the topic was created again or restored from a backup: its records
            # are not those that the client saw, and sending all of them would make the client process them again.
            start = min(max(last + 1, bounds.start), bounds.end)
            reset = start != last + 1
        elif start is None:
            start = bounds.end
        else:
            await self._log.read(topic, partition, start, limit=1)  # a start outside of the bounds is an error answer, not a stream
        chunks = self._chunks(request, request.wanted, start, reset)
        return EventStream(chunks, streams=self._streams, stop=self._stop, ids=self._ids)

    async def _chunks(self, request: ReadRecords, key: bytes | None, start: int, reset: bool) -> AsyncGenerator[bytes]:
        topic, partition = request.topic, request.partition
        if reset:
            yield b"event: reset\ndata: " + msgspec.json.encode({"start": start}) + b"\n\n"

        def events(records: list[Record]) -> bytes:
            return b"".join(_event(record, request.decode) for record in records)

        async with self._log.watched(topic, partition) as watch:
            while True:
                end = await watch.beyond(start)
                chunk, start, _ = await self._batch(topic, partition, start, end, _MANY, events, key)
                if chunk:
                    yield chunk
                del chunk

    async def _batch(
        self,
        topic: str,
        partition: int,
        start: int,
        stop: int,
        limit: int,
        encode: Callable[[list[Record]], bytes],
        key: bytes | None = None,
        most: int = _MANY,
    ) -> tuple[bytes, int, int]:
        """The next records below `stop`, encoded: a small batch, or one record. Also returns the offset after them, and their number.

        Reads `limit` records and keeps the first `most` with the `key`, or all without one. Reads few records here, and a backlog in a
        thread: it may wait for the disk, and encoding takes time.
        """

        def encoded(records: list[Record]) -> tuple[bytes, int, int]:
            wanted = [record for record in records if _offset(record) < stop]
            # With no record left below `stop`, the offsets up to it hold none: brokers' own, or compacted away.
            behind = _offset(wanted[-1]) + 1 if wanted else stop
            if key is not None:
                wanted = [record for record in wanted if record.key == key][:most]
            return encode(wanted) if wanted else b"", behind, len(wanted)

        async with self._streams.turn():
            if stop - start > _FEW:
                return await self._log.work(lambda log: encoded(log.read(topic, partition, start, limit=limit, max_bytes=_BATCH)))
            records = await self._log.read(topic, partition, start, limit=min(limit, _FEW))
            if sum(len(record.value or b"") for record in records) > _BATCH:
                return await asyncio.to_thread(encoded, records)
            return encoded(records)


def _offsets(offsets: Sequence[int]) -> bytes:
    return b'{"offsets":%b}' % msgspec.json.encode(list(offsets))


def _event(record: Record, decode: Decoder) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (_offset(record), msgspec.json.encode(show_record(record, decode)))


def _offset(record: Record) -> int:
    assert record.offset is not None
    return record.offset


def _place(call: HotCall) -> tuple[str, int] | None:
    """The topic and partition of a hot request, if they are written as our client writes them."""
    number = call.variables["partition"]
    return (call.variables["topic"], int(number)) if _NUMBER.fullmatch(number) else None


def _following(records: list[Record], stop: int | None, end: int) -> tuple[list[Record], str | None]:
    """The records of a page below `stop`, and the offset at which the next page begins; None after the last."""
    if not records:
        return records, None
    upto = _offset(records[-1]) + 1
    if stop is not None:
        records = [record for record in records if _offset(record) < stop]
    return records, str(upto) if upto < (end if stop is None else min(stop, end)) else None


def _page(call: Call, records: list[Record], decode: Decoder, following: str | None) -> Response:
    items: list[Any] = [show_record(record, decode) for record in records]
    link = link_to_next(call.scope["path"], call.query, "from", following)
    return json_answer({"items": items, "next": following}, headers=link)

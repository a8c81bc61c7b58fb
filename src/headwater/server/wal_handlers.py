"""Handlers of the operations on regions that are hot, or that stream: write payloads, read them as NDJSON or events, follow a region."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from headwater.client.wal_events import RegionFollower
from headwater.client.wal_performer import WalPerformer
from headwater.core.errors import BadInput, Unsupported
from headwater.log.json_form import Decoder
from headwater.server.call import Call
from headwater.server.hot import HotAnswer, HotCall
from headwater.server.stream import EventStream, LineStream
from headwater.wal.answers import RegionEvent, ShownEntry
from headwater.wal.entries import EntryReader, LogEntry
from headwater.wal.layout import MAX_ID
from headwater.wal.operations import VERIFY, WAL, WRITE
from headwater.wal.payloads import RAW, PayloadForm, check_payloads, read_payloads
from headwater.wal.requests import FollowRegion, ReadEntries, RegionRequest, ScanRegion, WriteEntries
from headwater.wal.view import show_entry
from headwater.wire import json

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from headwater.server.handlers import Handlers

_NUMBER = re.compile(r"0|[1-9][0-9]{0,19}")
_HOT_FORMS: dict[bytes, PayloadForm] = {RAW.encode(): "raw", b"application/x-ndjson": "lines", b"application/json": "json"}
_LARGE = 1 << 20  # bytes: parsing a larger body would delay other requests, so a thread does it
_BATCH = 100  # payloads that a stream reads at once
_FEW = 16
_LONG = 256 << 10  # bytes of a chunk


class WalHandlers:
    """One method for each operation of the same name."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._performer: WalPerformer = handlers.backend.performer(WAL.name)

    # -- writing ----------------------------------------------------------------------------------------------

    async def write(self, call: Call) -> ASGIApp:
        if call.header(b"idempotency-key") is not None:
            raise Unsupported(
                "Writes to a region keep no Idempotency-Key.", hint="After a lost answer, read what is there before sending it again."
            )
        request: WriteEntries = await call.request()
        raw = (call.header(b"content-type") or "").partition(";")[0].strip().lower() == RAW
        form: PayloadForm = "raw" if raw else call.body_kind()
        body = await call.body()
        payloads = await asyncio.to_thread(read_payloads, body, form) if len(body) > _LARGE else read_payloads(body, form)
        answer = await self._handlers.backend.perform(WRITE, msgspec.structs.replace(request, payloads=payloads), who=call.who)
        return self._handlers.answered(WRITE, call, answer)

    def write_hot(self, call: HotCall) -> HotAnswer | None:
        """`write` on the hot path, for a region that is open and a valid body."""
        form, place = _HOT_FORMS.get(call.content_type), _place(call)
        if form is None or place is None or call.query:
            return None
        namespace, region, table = place
        write = self._performer.writes(namespace, region)
        if write is None:
            return None
        try:
            payloads = read_payloads(call.body, form)
            check_payloads(payloads)
        except BadInput:
            return None
        return HotAnswer(asyncio.ensure_future(write(region, table, payloads)), _written)

    # -- reading ----------------------------------------------------------------------------------------------

    async def read_lines(self, call: Call) -> ASGIApp:
        return await self._lines(await call.request())

    async def scan_lines(self, call: Call) -> ASGIApp:
        return await self._lines(await call.request())

    async def read(self, call: Call) -> ASGIApp:
        return await self._events(await call.request())

    async def scan(self, call: Call) -> ASGIApp:
        return await self._events(await call.request())

    async def _lines(self, request: ReadEntries | ScanRegion) -> ASGIApp:
        reader = await self._performer.reader(request, batch=_BATCH)
        return LineStream(self._chunks(reader, request, _line), streams=self._handlers.streams)

    async def _events(self, request: ReadEntries | ScanRegion) -> ASGIApp:
        reader, handlers = await self._performer.reader(request, batch=_BATCH), self._handlers
        chunks = self._chunks(reader, request, _data)
        return EventStream(chunks, streams=handlers.streams, stop=handlers.stop, ids=handlers.ids, finite=True)

    async def _chunks(
        self, reader: EntryReader, request: ReadEntries | ScanRegion, encode: Callable[[ShownEntry], bytes]
    ) -> AsyncGenerator[bytes]:
        left = request.limit if isinstance(request, ReadEntries) else None
        while left is None or left > 0:
            async with self._handlers.streams.turn():
                entries = (await reader.next_batch())[:left]
                if not entries:
                    return
                if len(entries) > _FEW or sum(len(entry.payload) for entry in entries) > _LONG:
                    chunk = await asyncio.to_thread(_encoded, entries, request.decode, encode)
                else:
                    chunk = _encoded(entries, request.decode, encode)
            left = None if left is None else left - len(entries)
            yield chunk
            del chunk, entries

    async def verify(self, call: Call) -> ASGIApp:
        request: RegionRequest = await call.request()
        request.check()
        await self._performer.check(request)  # an unknown region is an error answer, not a job that fails
        return await self._handlers.job(VERIFY, call)

    # -- events -----------------------------------------------------------------------------------------------

    async def events(self, call: Call) -> ASGIApp:
        request: FollowRegion = await call.request()
        request.check()
        await self._performer.check(request)  # an unknown region is an error answer, not a stream
        follower = self._performer.follower(request)
        handlers = self._handlers
        return EventStream(_followed(follower, request.last), streams=handlers.streams, stop=handlers.stop, ids=handlers.ids)


async def _followed(follower: RegionFollower, last: int | None) -> AsyncGenerator[bytes]:
    async for identity, event in follower.follow(last):
        if event is None:
            yield b"event: reset\ndata: " + json.encode({"start": identity}) + b"\n\n"
        else:
            yield _event(identity, event)


def _event(identity: int | None, event: RegionEvent) -> bytes:
    head = b"" if identity is None else b"id: %d\n" % identity
    return b"%bdata: %b\n\n" % (head, json.encode(event))


def _encoded(entries: list[LogEntry], decode: Decoder, encode: Callable[[ShownEntry], bytes]) -> bytes:
    return b"".join(map(encode, map(partial(show_entry, decode=decode), entries)))


def _line(entry: ShownEntry) -> bytes:
    return json.encode(entry) + b"\n"


def _data(entry: ShownEntry) -> bytes:
    return b"data: %b\n\n" % json.encode(entry)


def _written(sequence: int) -> bytes:
    return b'{"sequence":%d}' % sequence


def _place(call: HotCall) -> tuple[str, int, int] | None:
    """The namespace, region and table of a hot request, if they are written as our client writes them."""
    region, table = call.variables["region"], call.variables["table"]
    if not _NUMBER.fullmatch(region) or not _NUMBER.fullmatch(table) or int(table) > MAX_ID:
        return None
    return call.variables["namespace"], int(region), int(table)

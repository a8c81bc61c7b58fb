"""Handlers of the operations on journals that are hot, that stream, or that have bodies of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from headwater.client.journal_performer import JournalPerformer
from headwater.core.errors import BadInput, BadType
from headwater.journal.bodies import BulkLine, draft_of, read_append, read_line
from headwater.journal.care_operations import BASE, FORKS, REBUILD, VERIFY
from headwater.journal.change import EventRow
from headwater.journal.operations import APPEND, APPEND_MANY, JOURNAL
from headwater.journal.requests import AppendEvents, AppendMany, FollowJournals, JournalsRequest, LookAtJournals, ReadEvents
from headwater.journal.shown import encode_event, show_followed
from headwater.journal.snapshot_operations import SNAPSHOTS_SAVE
from headwater.journal.snapshot_requests import SaveSnapshot, read_snapshot_body
from headwater.journal.transfer_operations import IMPORT_LINES
from headwater.journal.transfer_requests import ExportJournals, ImportLines
from headwater.journal.write import Outcome
from headwater.server.call import Call
from headwater.server.hot import HotAnswer, HotCall
from headwater.server.stream import EventStream, LineStream
from headwater.wire import json
from headwater.wire.operation import Operation

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from headwater.server.handlers import Handlers

_LARGE = 1 << 20  # bytes: parsing a larger body would delay other requests, so a thread does it
_PAGE = 200  # events that a stream reads at once
_FEW = 16


class JournalHandlers:
    """One method for each operation of the same name."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._performer: JournalPerformer = handlers.backend.performer(JOURNAL.name)

    # -- writing ----------------------------------------------------------------------------------------------

    async def append(self, call: Call) -> ASGIApp:
        request: AppendEvents = await call.request()
        call.body_kind()
        body = await call.body()
        read = await asyncio.to_thread(read_append, body) if len(body) > _LARGE else read_append(body)
        full_request = msgspec.structs.replace(request, body=read)
        return self._handlers.answered(APPEND, call, await self._handlers.backend.perform(APPEND, full_request, who=call.who))

    async def snapshots_save(self, call: Call) -> ASGIApp:
        request: SaveSnapshot = await call.request()
        call.body_kind()
        body = await call.body()
        read = await asyncio.to_thread(read_snapshot_body, body) if len(body) > _LARGE else read_snapshot_body(body)
        full_request = msgspec.structs.replace(request, body=read)
        return self._handlers.answered(
            SNAPSHOTS_SAVE, call, await self._handlers.backend.perform(SNAPSHOTS_SAVE, full_request, who=call.who)
        )

    async def verify(self, call: Call) -> ASGIApp:
        return await self._job(VERIFY, call)

    async def forks(self, call: Call) -> ASGIApp:
        return await self._job(FORKS, call)

    async def base(self, call: Call) -> ASGIApp:
        return await self._job(BASE, call)

    async def rebuild(self, call: Call) -> ASGIApp:
        return await self._job(REBUILD, call)

    async def _job(self, operation: Operation[Any, Any], call: Call) -> ASGIApp:
        request: JournalsRequest = await call.request()
        request.check()
        await self._performer.topics_open.find(request.topic)  # an unknown topic is an error answer, not a job that fails
        return await self._handlers.job(operation, call, request=request)

    def append_hot(self, call: HotCall) -> HotAnswer | None:
        """`append` on the hot path, for a topic that is open and a valid body."""
        opened = (
            None if call.query or call.content_type != b"application/json" else self._performer.topics_open.known(call.variables["topic"])
        )
        if opened is None:
            return None
        try:
            body = read_append(call.body)
            draft = draft_of(call.variables["id"], body, self._performer.by)
            condition = self._performer.condition(draft, body.expected, None)
        except BadInput:
            return None
        return HotAnswer(asyncio.ensure_future(self._performer.write(call.variables["topic"], draft, condition)), _appended)

    async def append_many(self, call: Call) -> ASGIApp:
        request: AppendMany = await call.request()
        if call.body_kind() != "lines":
            raise BadType("Appends to many journals are lines.", hint="Add the header Content-Type: application/x-ndjson")
        lines = await asyncio.to_thread(_lines, await call.body())
        full_request = msgspec.structs.replace(request, lines=lines)
        return self._handlers.answered(APPEND_MANY, call, await self._handlers.backend.perform(APPEND_MANY, full_request, who=call.who))

    # -- reading ----------------------------------------------------------------------------------------------

    async def id_lines(self, call: Call) -> ASGIApp:
        request: LookAtJournals = await call.request()
        request.check()
        await self._performer.topics_open.find(request.topic)

        async def lines() -> AsyncGenerator[bytes]:
            after = request.after
            while True:
                page = await self._performer.ids(msgspec.structs.replace(request, view="ids", after=after))
                if page.items:
                    yield b"".join(json.encode(id) + b"\n" for id in page.items)
                if page.next is None:
                    return
                after = page.next

        return LineStream(lines(), streams=self._handlers.streams)

    async def read_lines(self, call: Call) -> ASGIApp:
        return LineStream(self._chunks(await self._read(call), lambda row: encode_event(row) + b"\n"), streams=self._handlers.streams)

    async def read(self, call: Call) -> ASGIApp:
        handlers, request = self._handlers, await self._read(call)
        chunks = self._chunks(request, lambda row: b"id: %d\ndata: %b\n\n" % (row.seq_nr, encode_event(row)))
        return EventStream(chunks, streams=handlers.streams, stop=handlers.stop, ids=handlers.ids, finite=True)

    async def _read(self, call: Call) -> ReadEvents:
        request: ReadEvents = await call.request()
        request.check()
        await self._performer.topics_open.find(request.topic)  # an unknown topic is an error answer, not a stream
        return request

    async def _chunks(self, request: ReadEvents, encode: Callable[[EventRow], bytes]) -> AsyncGenerator[bytes]:
        pages = self._performer.pages(request, _PAGE)
        async for rows in pages:
            async with self._handlers.streams.turn():
                yield await asyncio.to_thread(_joined, rows, encode) if len(rows) > _FEW else _joined(rows, encode)

    async def export_lines(self, call: Call) -> ASGIApp:
        return LineStream(self._exported(await self._export(call), lambda line: line + b"\n"), streams=self._handlers.streams)

    async def export(self, call: Call) -> ASGIApp:
        handlers = self._handlers
        chunks = self._exported(await self._export(call), lambda line: b"data: %b\n\n" % line)
        return EventStream(chunks, streams=handlers.streams, stop=handlers.stop, ids=handlers.ids, finite=True)

    async def _export(self, call: Call) -> ExportJournals:
        request: ExportJournals = await call.request()
        request.check()
        await self._performer.topics_open.find(request.topic)
        return request

    async def _exported(self, request: ExportJournals, framed: Callable[[bytes], bytes]) -> AsyncGenerator[bytes]:
        async for line in self._performer.transfer.export(request):
            yield framed(json.encode(line))

    async def import_lines(self, call: Call) -> ASGIApp:
        request: ImportLines = await call.request()
        if call.body_kind() != "lines":
            raise BadType("An import is lines.", hint="Add the header Content-Type: application/x-ndjson")
        full_request = msgspec.structs.replace(request, lines=(await call.body()).splitlines())
        return self._handlers.answered(IMPORT_LINES, call, await self._handlers.backend.perform(IMPORT_LINES, full_request, who=call.who))

    async def follow(self, call: Call) -> ASGIApp:
        request: FollowJournals = await call.request()
        request.check()
        await self._performer.topics_open.find(request.topic)
        handlers = self._handlers
        return EventStream(self._followed(request), streams=handlers.streams, stop=handlers.stop, ids=handlers.ids)

    async def _followed(self, request: FollowJournals) -> AsyncGenerator[bytes]:
        async for id, row, position in self._performer.followed(request):
            place = str(position)
            yield b"id: %b\ndata: %b\n\n" % (place.encode(), json.encode(show_followed(row, id, place)))


def _lines(body: bytes) -> list[BulkLine | BadInput]:
    """The Appends of lines; for one that cannot be read the error, with its number."""
    lines: list[BulkLine | BadInput] = []
    for number, line in enumerate(body.splitlines(), 1):
        if line.strip():
            try:
                lines.append(read_line(line))
            except BadInput as error:
                lines.append(BadInput(f"Line {number}: {error.message}", hint=error.hint))
    return lines


def _joined(rows: list[EventRow], encode: Callable[[EventRow], bytes]) -> bytes:
    return b"".join(map(encode, rows))


def _appended(outcome: Outcome) -> bytes:
    return json.encode(outcome)

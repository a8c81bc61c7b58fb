"""Handlers of the operations on queues that are hot, or that have bodies of their own: create a queue, put and claim rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec
from starlette.responses import Response

from headwater.client.queue_performer import QueuePerformer, show_put
from headwater.core.errors import BadInput
from headwater.queue.answer import RecalledAnswer
from headwater.queue.answers import ShownEvent
from headwater.queue.bodies import read_claim, read_done, read_settings_body
from headwater.queue.claim_json import encode_claimed
from headwater.queue.follow_request import FollowQueue
from headwater.queue.json_form import is_list, read_rows
from headwater.queue.operations import CREATE, DONE, LISTEN, QUEUE, RESULT
from headwater.queue.requests import ClaimRows, CreateQueue, DoneClaim, FindResult, PutRows
from headwater.queue.result_form import show_result, told_done
from headwater.queue.values import Claimed, Put
from headwater.server.call import Call, ClientGone
from headwater.server.hot import HotAnswer, HotCall
from headwater.server.stream import EventStream
from headwater.wire import json
from headwater.wire.operation import Reply

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from headwater.server.handlers import Handlers

T = TypeVar("T")
_JSON, _LINES = b"application/json", b"application/x-ndjson"
_LARGE = 1 << 20  # bytes: parsing a larger body would delay other requests, so a thread does it


class QueueHandlers:
    """One method for each operation of the same name."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._performer: QueuePerformer = handlers.backend.performer(QUEUE.name)
        self._stopping: asyncio.Task[None] | None = None

    async def create(self, call: Call) -> ASGIApp:
        request: CreateQueue = await call.request()
        call.body_kind()
        settings, declaration = read_settings_body(await call.body())
        full_request = msgspec.structs.replace(request, settings=settings, declaration=declaration)
        return self._handlers.answered(CREATE, call, await self._handlers.backend.perform(CREATE, full_request, who=call.who))

    async def listen(self, call: Call) -> ASGIApp:
        request: FollowQueue = await call.request()
        request.check()
        await self._performer.count(request)  # an unknown queue is an error answer, not a stream
        handlers = self._handlers
        return EventStream(_told(self._performer.stream(LISTEN, request)), streams=handlers.streams, stop=handlers.stop, ids=handlers.ids)

    # -- putting ----------------------------------------------------------------------------------------------

    async def put(self, call: Call) -> ASGIApp:
        request: PutRows = await call.request()
        lines, body = call.body_kind() == "lines", await call.body()
        rows = await asyncio.to_thread(read_rows, body, lines=lines) if len(body) > _LARGE else read_rows(body, lines=lines)
        full_request = msgspec.structs.replace(request, rows=rows)
        full_request.check()
        puts = await self._performer.put_rows(full_request)
        written = _many_put(puts) if is_list(body, lines=lines) else _one_put(puts)
        return Response(written, 201, {"Idempotency-Replayed": "true"} if puts[0].replayed else None, "application/json")

    def put_hot(self, call: HotCall) -> HotAnswer | None:
        """`put` on the hot path, for a queue that is open and valid rows."""
        queue = None if call.query else self._performer.opened(call.variables["queue"])
        if queue is None or call.content_type not in (_JSON, _LINES):
            return None
        lines = call.content_type == _LINES
        try:
            rows = read_rows(call.body, lines=lines)
            if not rows:
                return None
            answer = self._performer.put_here(queue, rows)
        except BadInput:
            return None
        return _hot(answer, _many_put if is_list(call.body, lines=lines) else _one_put)

    # -- claiming ---------------------------------------------------------------------------------------------

    async def claim(self, call: Call) -> ASGIApp:
        request: ClaimRows = await call.request()
        call.body_kind()
        full_request = msgspec.structs.replace(request, body=read_claim(await call.body()))
        if self._handlers.stop.is_set():
            full_request = msgspec.structs.replace(full_request, prefer=None, body=msgspec.structs.replace(full_request.body, wait=None))
        full_request.check()
        self._watch()
        disconnect = asyncio.create_task(call.gone())
        claiming = asyncio.create_task(self._performer.claim_rows(full_request))
        try:
            await asyncio.wait({disconnect, claiming}, return_when=asyncio.FIRST_COMPLETED)
            if not claiming.done():
                raise ClientGone
            claimed = claiming.result()
        finally:
            disconnect.cancel()
            claiming.cancel()  # what would be claimed for a client that is gone is released
        return (
            Response(_claimed(claimed), 200, media_type="application/json")
            if claimed.claims or claimed.stale
            else Response(status_code=204)
        )

    async def done(self, call: Call) -> ASGIApp:
        request: DoneClaim = await call.request()
        call.body_kind()
        full_request = msgspec.structs.replace(request, result=read_done(await call.body()))
        return self._handlers.answered(DONE, call, await self._handlers.backend.perform(DONE, full_request, who=call.who))

    async def result(self, call: Call) -> ASGIApp:
        request: FindResult = await call.request()
        request.check()
        finding = asyncio.ensure_future(self._handlers.backend.perform(RESULT, request, who=call.who))
        waits = [finding] if not request.waits() else [finding, *map(asyncio.ensure_future, (call.gone(), self._handlers.stop.wait()))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if not finding.done() and not self._handlers.stop.is_set():
                raise ClientGone
            result = (
                finding.result() if finding.done() else Reply(show_result(request.id, None), 202)
            )  # a server that stops waits for nobody
            return self._handlers.answered(RESULT, call, result)
        finally:
            for wait in waits:
                wait.cancel()

    def claim_hot(self, call: HotCall) -> HotAnswer | None:
        """`claim` on the hot path, for a queue that is open and a valid body."""
        name = call.variables["queue"]
        queue = None if call.query else self._performer.opened(name)
        if queue is None or call.content_type != _JSON:
            return None
        try:
            request = ClaimRows(queue=name, body=read_claim(call.body))
            request.check()
            body, wait = request.body, request.wait_ms
            failures = [failed_row.failure() for failed_row in body.fail]
            done, results = told_done(body.done)
            if wait and self._handlers.stop.is_set():
                return None
            if wait:
                self._watch()
            claim = self._performer.begin_claim(
                queue, body.n, lease=request.lease_ms, wait=wait, group=body.group, worker=body.worker,
                done=done, results=results, fail=failures, extend=body.extend, release=body.release,
            )  # fmt: skip
        except BadInput:
            return None
        hot = _hot(claim, _claimed)
        recalled = hot.forsaken is None and body.n and (wait or isinstance(claim, asyncio.Task))  # a task reads the data of the rows
        return hot._replace(forsaken=hot.future.cancel) if recalled else hot

    def _watch(self) -> None:
        """End the claims that wait when the server stops: they would keep it waiting."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())

    async def _stop(self) -> None:
        await self._handlers.stop.wait()
        self._performer.waits.end_all()


def _hot(answer: Awaitable[T], encode: Callable[[T], bytes]) -> HotAnswer:
    """A call's answer on the hot path, without a task where the call needs none. What nobody gets is called back."""
    if isinstance(answer, RecalledAnswer):
        return HotAnswer(answer.future, encode, answer.recall)
    if isinstance(answer, asyncio.Future):
        return HotAnswer(answer, encode)
    return HotAnswer(asyncio.ensure_future(answer), encode)


def _one_put(puts: Sequence[Put]) -> bytes:
    return json.encode(show_put(puts[0]))


def _many_put(puts: Sequence[Put]) -> bytes:
    return json.encode({"puts": [show_put(put) for put in puts]})


def _claimed(claimed: Claimed) -> bytes:
    if not claimed.claims and not claimed.stale:
        return b""
    return encode_claimed(claimed)


async def _told(events: AsyncIterator[ShownEvent]) -> AsyncGenerator[bytes]:
    """Events of a queue as server-sent ones: each under the name of its kind; its id is its position."""
    async for event in events:
        yield b"id: %d\nevent: %b\ndata: %b\n\n" % (event.position, event.kind.encode(), json.encode(event))

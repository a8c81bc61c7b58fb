"""The log over HTTP: topics, and the records of their partitions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from headwater.client.wire import Decoder, read_records, read_sent_topic, show_record, show_topic
from headwater.core.errors import BadInput, Forbidden, Unsupported
from headwater.core.ids import Ids
from headwater.log.record import Bounds, Record
from headwater.server.call import Call, json_answer
from headwater.server.operation import Offer, offers
from headwater.server.routes.log_table import TABLE
from headwater.server.stream import EventStream, LineStream

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from headwater.client.local import LocalLog


class LogRoutes:
    """Handlers; what they are called for is the table in `log_table`."""

    def __init__(self, *, log: LocalLog, stop: asyncio.Event, ids: Ids) -> None:
        self._log, self._stop, self._ids = log, stop, ids

    def offers(self) -> list[Offer]:
        return offers(TABLE, self)

    # -- topics -----------------------------------------------------------------------------------------------

    async def list_topics(self, call: Call) -> ASGIApp:
        cursor, limit = call.query["cursor"] or "", call.query["limit"]
        after = [topic for topic in await self._log.topics() if topic.name > cursor]
        following = after[limit - 1].name if len(after) > limit else None
        return _page(call, [show_topic(topic) for topic in after[:limit]], following, "cursor")

    async def create_topic(self, call: Call) -> ASGIApp:
        name = call.path["topic"]
        call.body_kind()
        partitions, settings = read_sent_topic(await call.body())
        topic, new = await self._log.make_topic(name, partitions=partitions, settings=settings)
        return json_answer(show_topic(topic), 201 if new else 200)

    async def describe_topic(self, call: Call) -> ASGIApp:
        topic = await self._log.topic(call.path["topic"])
        bounds = await self._log.all_bounds(topic)
        return json_answer({**show_topic(topic), "bounds": [_bounds(number, one) for number, one in enumerate(bounds)]})

    async def delete_topic(self, call: Call) -> ASGIApp:
        await self._log.delete_topic(call.path["topic"])
        return Response(status_code=204)

    # -- partitions -------------------------------------------------------------------------------------------

    async def show_bounds(self, call: Call) -> ASGIApp:
        topic, partition = _place(call)
        return json_answer(_bounds(partition, await self._log.bounds(topic, partition)))

    async def find_offset(self, call: Call) -> ASGIApp:
        topic, partition = _place(call)
        return json_answer({"offset": await self._log.offset_at(topic, partition, call.query["at"])})

    async def compact(self, call: Call) -> ASGIApp:
        topic, partition = _place(call)
        return json_answer(await self._log.compact(topic, partition, call.query["before"]))

    # -- records ----------------------------------------------------------------------------------------------

    async def append(self, call: Call) -> ASGIApp:
        topic, partition = _place(call)
        if topic.startswith("pipeline-") and topic.endswith("-offsets"):
            # It names the file that stepping and replaying run: what is appended there would choose a program to run on this machine.
            raise Forbidden(
                f"{topic} holds the positions of a pipeline: nothing is appended to it over HTTP.",
                hint=f"Change them through /pipelines/{topic.removeprefix('pipeline-').removesuffix('-offsets')}.",
            )
        if call.header(b"idempotency-key") is not None:
            # Taken and then not kept, the key would promise what does not happen: a retry would append twice.
            raise Unsupported(
                "Appends to the log keep no Idempotency-Key.", hint="After a lost answer, read what is there before sending it again."
            )
        lines = call.body_kind() == "lines"
        records = read_records(await call.body(), lines=lines)
        return json_answer({"offsets": list(await self._log.append(topic, partition, records))}, 201)

    async def delete_records(self, call: Call) -> ASGIApp:
        topic, partition = _place(call)
        return json_answer({"start": await self._log.delete_before(topic, partition, call.query["before"])})

    async def read_records(self, call: Call) -> ASGIApp:
        topic, partition = _place(call)
        if call.accepts("text/event-stream") and call.scope["method"] == "GET":
            return await self._events(call, topic, partition)
        if call.query["after"] is not None:
            raise BadInput("`after` is for streams.", hint="Use from=, or send Accept: text/event-stream.")
        start, stop, decode = call.query["from"], call.query["to"], call.query["decode"]
        if start is None:
            start = (await self._log.bounds(topic, partition)).start
        if stop is not None and stop < start:
            raise BadInput(f"`to` {stop} lies before `from` {start}.", hint="Give the lower one as from.")
        if call.accepts("application/x-ndjson"):
            return LineStream(self._lines(topic, partition, start, stop, call.query["limit"], decode))
        limit = call.query["limit"] or 100
        records = await self._log.read(topic, partition, start, limit=limit)
        following = None
        if records:
            upto = _offset(records[-1]) + 1
            if stop is not None:
                records = [record for record in records if _offset(record) < stop]
            if (stop is None or upto < stop) and upto < (await self._log.bounds(topic, partition)).end:
                following = str(upto)
        return _page(call, [show_record(record, decode) for record in records], following, "from")

    async def _lines(
        self, topic: str, partition: int, start: int, stop: int | None, limit: int | None, decode: Decoder
    ) -> AsyncGenerator[bytes]:
        end = (await self._log.bounds(topic, partition)).end
        stop = end if stop is None else min(stop, end)
        left = limit if limit is not None else -1
        while start < stop and left:
            records = await self._log.read(topic, partition, start, limit=1000 if left < 0 else min(left, 1000))
            wanted = [record for record in records if _offset(record) < stop]
            if not wanted:
                return
            yield msgspec.json.Encoder().encode_lines([show_record(record, decode) for record in wanted])
            left -= len(wanted) if left > 0 else 0
            start = _offset(wanted[-1]) + 1

    # -- streams ----------------------------------------------------------------------------------------------

    async def _events(self, call: Call, topic: str, partition: int) -> ASGIApp:
        for name in ("to", "limit"):
            if call.query[name] is not None:
                raise BadInput(
                    f"A stream has no `{name}`: it goes on until you leave.",
                    hint="Leave it out, or read without Accept: text/event-stream.",
                )
        bounds = await self._log.bounds(topic, partition)
        last, start, reset = _resumed(call), call.query["from"], False
        if last is not None:
            start = last + 1
            reset = not bounds.start <= start <= bounds.end  # what was between is gone, or the topic is another one by now
            start = bounds.start if reset else start
        elif start is None:
            start = bounds.end
        else:
            await self._log.read(topic, partition, start, limit=1)  # a start that is gone, or not yet there, is an answer and no stream
        return EventStream(self._chunks(topic, partition, start, reset, call.query["decode"]), stop=self._stop, ids=self._ids)

    async def _chunks(self, topic: str, partition: int, start: int, reset: bool, decode: Decoder) -> AsyncGenerator[bytes]:
        if reset:
            yield b"event: reset\ndata: " + msgspec.json.encode({"start": start}) + b"\n\n"
        async for records in self._log.follow(topic, partition, start):
            yield b"".join(_event(record, decode) for record in records)


def _event(record: Record, decode: Decoder) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (_offset(record), msgspec.json.encode(show_record(record, decode)))


def _resumed(call: Call) -> int | None:
    """The last offset that a stream's client has seen: `?after=`, or the header that browsers send by themselves."""
    written = call.header(b"last-event-id")
    after: int | None = call.query["after"]
    if after is not None or written is None:
        return after
    if not (written.isascii() and written.isdigit() and len(written) < 19):
        raise BadInput(f"Last-Event-ID {written!r} is no offset.", hint="Send the id of the last event that was seen.")
    return int(written)


def _place(call: Call) -> tuple[str, int]:
    return call.path["topic"], call.number("partition")


def _offset(record: Record) -> int:
    assert record.offset is not None
    return record.offset


def _bounds(partition: int, bounds: Bounds) -> dict[str, int]:
    return {"partition": partition, "start": bounds.start, "end": bounds.end}


def _page(call: Call, items: list[dict[str, Any]], following: str | None, cursor: str) -> Response:
    headers = None
    if following is not None:
        query = "&".join(f"{name}={value}" for name, value in {**call.query, cursor: following}.items() if value is not None)
        headers = {"Link": f'<{call.scope["path"]}?{query}>; rel="next"'}  # numbers and names: nothing in them needs encoding
    return json_answer({"items": items, "next": following}, headers=headers)

"""The log over HTTP: topics, and the records of their partitions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from headwater.client.wire import Decoder, read_records, read_sent_topic, show_record, show_topic
from headwater.core.errors import BadBounds, BadInput, Forbidden, Unsupported
from headwater.core.ids import Ids
from headwater.log.record import Bounds, Record
from headwater.server.call import Call, json_answer
from headwater.server.operation import Offer, offers
from headwater.server.routes.log_table import EVENT_ID, TABLE
from headwater.server.stream import EventStream, LineStream
from headwater.server.streams import Streams

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from headwater.client.local import LocalLog

_FEW = 100  # records: reading and encoding so few takes less time than handing the work to a thread
_MANY = 1000
_BATCH = 256 << 10  # bytes that a stream reads at once
_LARGE = 1 << 20  # bytes of a body whose parsing would keep other requests waiting


class LogRoutes:
    """Handlers; what they are called for is the table in `log_table`."""

    def __init__(self, *, log: LocalLog, streams: Streams, stop: asyncio.Event, ids: Ids) -> None:
        self._log, self._streams, self._stop, self._ids = log, streams, stop, ids

    def offers(self) -> list[Offer]:
        return offers(TABLE, self)

    # -- topics -----------------------------------------------------------------------------------------------

    async def list_topics(self, call: Call) -> ASGIApp:
        cursor, limit = call.query["cursor"] or "", call.query["limit"]
        after = [topic for topic in await self._log.topics() if topic.name > cursor]
        following = after[limit - 1].name if len(after) > limit else None
        return _page(call, lambda: [show_topic(topic) for topic in after[:limit]], following, "cursor")

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
        lines, body = call.body_kind() == "lines", await call.body()
        if len(body) > _LARGE:
            records = await asyncio.to_thread(read_records, body, lines=lines)
        else:
            records = read_records(body, lines=lines)
        return json_answer({"offsets": list(await self._log.append(topic, partition, records))}, 201)

    async def delete_records(self, call: Call) -> ASGIApp:
        topic, partition = _place(call)
        return json_answer({"start": await self._log.delete_before(topic, partition, call.query["before"])})

    async def read_records(self, call: Call) -> ASGIApp:
        topic, partition = _place(call)
        last = _last_event(call)
        if call.accepts("text/event-stream") and call.scope["method"] == "GET":
            return await self._events(call, topic, partition, last if call.query["after"] is None else call.query["after"])
        after, start, stop, decode = (call.query[name] for name in ("after", "from", "to", "decode"))
        if after is not None:
            start = after + 1
        if start is None:
            start = (await self._log.bounds(topic, partition)).start
        if stop is not None and stop < start:
            raise BadBounds(f"`to` {stop} lies before `from` {start}.", hint="Give the lower one as from.")
        if call.accepts("application/x-ndjson"):
            return LineStream(self._lines(topic, partition, start, stop, call.query["limit"], decode), streams=self._streams)
        limit = call.query["limit"] or 100
        records = await self._log.read(topic, partition, start, limit=limit)
        following = None
        if records:
            upto = _offset(records[-1]) + 1
            if stop is not None:
                records = [record for record in records if _offset(record) < stop]
            if (stop is None or upto < stop) and upto < (await self._log.bounds(topic, partition)).end:
                following = str(upto)
        if len(records) > _FEW:
            return await asyncio.to_thread(_page, call, lambda: [show_record(record, decode) for record in records], following, "from")
        return _page(call, lambda: [show_record(record, decode) for record in records], following, "from")

    async def _lines(
        self, topic: str, partition: int, start: int, stop: int | None, limit: int | None, decode: Decoder
    ) -> AsyncGenerator[bytes]:
        end = (await self._log.bounds(topic, partition)).end
        if start > end:
            await self._log.read(topic, partition, start, limit=1)  # raises what a page of it would
        stop = end if stop is None else min(stop, end)

        def lines(records: list[Record]) -> bytes:
            return msgspec.json.Encoder().encode_lines([show_record(record, decode) for record in records])

        left = limit if limit is not None else _MANY
        while start < stop and left > 0:
            chunk, following, count = await self._batch(topic, partition, start, stop, min(left, _MANY), lines)
            if not chunk:
                return
            yield chunk
            del chunk
            start = following
            left -= count if limit is not None else 0

    # -- streams ----------------------------------------------------------------------------------------------

    async def _events(self, call: Call, topic: str, partition: int, last: int | None) -> ASGIApp:
        for name in ("to", "limit"):
            if call.query[name] is not None:
                raise BadInput(
                    f"A stream has no `{name}`: it goes on until you leave.",
                    hint="Leave it out, or read without Accept: text/event-stream.",
                )
        bounds = await self._log.bounds(topic, partition)
        start, reset = call.query["from"], False
        if last is not None:
            # Below the start, what was between is gone. Beyond the end the topic is another one by now, or came out of a backup: its
            # records are not those that were seen, and sending all of them would do them again.
            start = min(max(last + 1, bounds.start), bounds.end)
            reset = start != last + 1
        elif start is None:
            start = bounds.end
        else:
            await self._log.read(topic, partition, start, limit=1)  # a start that is gone, or not yet there, is an answer and no stream
        chunks = self._chunks(topic, partition, start, reset, call.query["decode"])
        return EventStream(chunks, streams=self._streams, stop=self._stop, ids=self._ids)

    async def _chunks(self, topic: str, partition: int, start: int, reset: bool, decode: Decoder) -> AsyncGenerator[bytes]:
        if reset:
            yield b"event: reset\ndata: " + msgspec.json.encode({"start": start}) + b"\n\n"

        def events(records: list[Record]) -> bytes:
            return b"".join(_event(record, decode) for record in records)

        async with self._log.watched(topic, partition) as watch:
            while True:
                end = await watch.beyond(start)
                chunk, start, _ = await self._batch(topic, partition, start, end, _MANY, events)
                if chunk:
                    yield chunk
                del chunk

    async def _batch(
        self, topic: str, partition: int, start: int, stop: int, limit: int, encode: Callable[[list[Record]], bytes]
    ) -> tuple[bytes, int, int]:
        """The next records below `stop`, encoded: a batch of few bytes, or one record. With it the offset behind them, and their number.

        What is few is read here, a backlog in a thread: reading it may wait for the disk, and encoding it takes time.
        """

        def encoded(records: list[Record]) -> tuple[bytes, int, int]:
            wanted = [record for record in records if _offset(record) < stop]
            # Where nothing is left below `stop`, what lies before it holds no records: brokers' own, or compacted away.
            return encode(wanted), _offset(wanted[-1]) + 1 if wanted else stop, len(wanted)

        async with self._streams.turn():
            if stop - start > _FEW:
                return await self._log.work(lambda log: encoded(log.read(topic, partition, start, limit=limit, max_bytes=_BATCH)))
            records = await self._log.read(topic, partition, start, limit=min(limit, _FEW))
            if sum(len(record.value or b"") for record in records) > _BATCH:
                return await asyncio.to_thread(encoded, records)
            return encoded(records)


def _event(record: Record, decode: Decoder) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (_offset(record), msgspec.json.encode(show_record(record, decode)))


def _last_event(call: Call) -> int | None:
    """The last offset that a stream's client has seen, as browsers say it by themselves."""
    written = call.header(b"last-event-id")
    if written is None:
        return None
    if not re.fullmatch(EVENT_ID, written, re.ASCII):
        raise BadInput(f"Last-Event-ID {written!r} is no offset.", hint="Send the id of the last event that was seen.")
    return int(written)


def _place(call: Call) -> tuple[str, int]:
    return call.path["topic"], call.number("partition")


def _offset(record: Record) -> int:
    assert record.offset is not None
    return record.offset


def _bounds(partition: int, bounds: Bounds) -> dict[str, int]:
    return {"partition": partition, "start": bounds.start, "end": bounds.end}


def _page(call: Call, items: Callable[[], list[dict[str, Any]]], following: str | None, cursor: str) -> Response:
    headers = None
    if following is not None:
        query = "&".join(f"{name}={value}" for name, value in {**call.query, cursor: following}.items() if value is not None)
        headers = {"Link": f'<{call.scope["path"]}?{query}>; rel="next"'}  # numbers and names: nothing in them needs encoding
    return json_answer({"items": items(), "next": following}, headers=headers)

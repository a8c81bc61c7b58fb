from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest
from starlette.types import Message

from headwater.core.errors import Busy, UnknownTopic
from headwater.core.metrics import HttpMetrics
from headwater.server.stream import EventStream, LineStream
from headwater.server.streams import PIECE, Streams

pytestmark = pytest.mark.anyio


class Client:
    """The far end of a connection."""

    def __init__(self, *, reads: bool = True) -> None:
        self.messages: list[Message] = []
        self.left, self.got = asyncio.Event(), asyncio.Event()
        self._reads = reads

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.messages.append(message)
        self.got.set()
        if not self._reads and message["type"] == "http.response.body" and message["more_body"]:
            await asyncio.Event().wait()

    async def has(self, text: bytes) -> None:
        while text not in self.body:
            self.got.clear()
            await self.got.wait()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)

    @property
    def ended(self) -> bool:
        return self.messages[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def chunks(*parts: bytes, then: Any = None) -> AsyncGenerator[bytes]:
    for part in parts:
        yield part
    if isinstance(then, Exception):
        raise then
    if then is not None:
        await then.wait()


async def run(stream: EventStream | LineStream, client: Client) -> None:
    async with asyncio.timeout(10):
        await stream({"method": "GET"}, client.receive, client.send)


def some_streams(metrics: HttpMetrics | None = None, *, most: int = 10) -> Streams:
    return Streams(most=most, memory=1 << 20, metrics=metrics or HttpMetrics(), now=lambda: 0.0)


def events(
    source: AsyncGenerator[bytes], *, streams: Streams | None = None, stop: asyncio.Event | None = None, ping: float = 60
) -> EventStream:
    return EventStream(source, streams=streams or some_streams(), stop=stop or asyncio.Event(), ids=lambda: "id-1", ping=ping)


def lines(source: AsyncGenerator[bytes]) -> LineStream:
    return LineStream(source, streams=some_streams())


async def test_events_go_out_in_order_and_the_answer_ends_whole() -> None:
    client = Client()
    await run(events(chunks(b"id: 1\ndata: a\n\n", b"id: 2\ndata: b\n\n")), client)
    assert client.messages[0]["status"] == 200
    assert client.body == b"retry: 1000\n\nid: 1\ndata: a\n\nid: 2\ndata: b\n\n"
    assert client.ended


async def test_a_stopping_server_ends_the_stream_whole() -> None:
    client, stop, never = Client(), asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(run(events(chunks(b"data: a\n\n", then=never), stop=stop), client))
    await client.has(b"data: a")
    stop.set()
    await running
    assert client.ended


async def test_a_stopping_server_cuts_a_stream_whose_end_counts() -> None:
    for parts, then in (((b"data: a\n\n",), asyncio.Event()), ((b"data: a\n\n",), None)):
        client, stop = Client(), asyncio.Event()
        stream = EventStream(chunks(*parts, then=then), streams=some_streams(), stop=stop, ids=lambda: "id-1", finite=True)
        running = asyncio.create_task(run(stream, client))
        await client.has(b"data: a")
        if then is None:  # all of it was sent
            await running
            assert client.ended
            continue
        stop.set()
        await running
        assert not client.ended


async def test_a_client_that_does_not_read_does_not_hold_up_the_stop() -> None:
    client, stop = Client(reads=False), asyncio.Event()
    running = asyncio.create_task(run(events(chunks(b"data: a\n\n"), stop=stop), client))
    await client.has(b"retry")
    stop.set()
    await running
    assert client.ended


async def test_when_the_client_leaves_nothing_more_is_sent_and_the_source_is_closed() -> None:
    client, never, closed = Client(), asyncio.Event(), asyncio.Event()

    async def source() -> AsyncGenerator[bytes]:
        try:
            yield b"data: a\n\n"
            await never.wait()
        finally:
            closed.set()

    running = asyncio.create_task(run(events(source()), client))
    await client.has(b"data: a")
    client.left.set()
    await running
    assert closed.is_set()
    assert not client.ended


async def test_a_silent_stream_pings() -> None:
    client, stop, never = Client(), asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(run(events(chunks(then=never), stop=stop, ping=0.001), client))
    await client.has(b": ping\n\n: ping\n\n")
    stop.set()
    await running


async def test_an_error_of_the_source_is_an_event() -> None:
    client = Client()
    await run(events(chunks(b"data: a\n\n", then=UnknownTopic("There is no topic t."))), client)
    data = client.body.partition(b"event: error\ndata: ")[2].strip()
    assert msgspec.json.decode(data)["code"] == "unknown-topic"
    assert client.ended


async def test_a_fault_of_the_source_is_raised_and_the_answer_does_not_end_whole() -> None:
    client, metrics = Client(), HttpMetrics()
    with pytest.raises(OSError, match="disk"):
        await run(events(chunks(b"data: a\n\n", then=OSError("disk")), streams=some_streams(metrics)), client)
    assert client.body.endswith(b"data: a\n\n")
    assert not client.ended


async def test_lines_go_out_until_they_end() -> None:
    client = Client()
    await run(lines(chunks(b"1\n", b"2\n")), client)
    assert client.body == b"1\n2\n"
    assert client.ended


async def test_no_lines_are_an_empty_answer() -> None:
    client = Client()
    await run(lines(chunks()), client)
    assert client.body == b""
    assert client.ended


async def test_what_is_wrong_at_once_is_raised_before_the_status() -> None:
    client = Client()
    with pytest.raises(UnknownTopic):
        await run(lines(chunks(then=UnknownTopic("There is no topic t."))), client)
    assert client.messages == []


async def test_what_goes_wrong_on_the_way_leaves_the_answer_without_its_end() -> None:
    client = Client()
    with pytest.raises(UnknownTopic):
        await run(lines(chunks(b"1\n", then=UnknownTopic("There is no topic t."))), client)
    assert not client.ended


async def test_large_chunks_go_out_in_pieces() -> None:
    client = Client()
    await run(events(chunks(bytes(PIECE * 2 + 1))), client)
    assert [len(message["body"]) for message in client.messages[2:-1]] == [PIECE, PIECE, 1]


async def test_a_stream_too_many_is_refused_before_its_status() -> None:
    metrics, stop, never = HttpMetrics(), asyncio.Event(), asyncio.Event()
    streams, first, second = some_streams(metrics, most=1), Client(), Client()
    running = asyncio.create_task(run(events(chunks(b"data: a\n\n", then=never), streams=streams, stop=stop), first))
    await first.has(b"data: a")
    assert metrics.streams == 1
    with pytest.raises(Busy, match=r"server\.max_streams"):
        await run(events(chunks(), streams=streams), second)
    with pytest.raises(Busy):
        await run(LineStream(chunks(), streams=streams), second)
    assert (second.messages, metrics.streams_refused.value) == ([], 2)
    stop.set()
    await running
    assert metrics.streams == 0
    await run(events(chunks(), streams=streams), second)
    assert second.ended


async def test_how_streams_ended_is_counted() -> None:
    metrics = HttpMetrics()
    streams = some_streams(metrics)
    await run(events(chunks(), streams=streams), Client())
    await run(events(chunks(then=UnknownTopic("There is no topic t.")), streams=streams), Client())
    gone = Client()
    gone.left.set()
    await run(events(chunks(then=asyncio.Event()), streams=streams), gone)
    await run(LineStream(chunks(b"1\n"), streams=streams), Client())
    [family] = [one for one in metrics.families() if one.name == "headwater_http_streams_ended"]
    counts = {sample.labels["reason"]: sample.value for sample in family.samples if sample.name.endswith("_total")}
    assert counts == {"whole": 2, "error": 1, "left": 1}


async def test_an_export_ends_when_its_client_leaves() -> None:
    async def endless() -> AsyncGenerator[bytes]:
        while True:
            yield b"1\n"
            await asyncio.sleep(0)

    client = Client()
    running = asyncio.create_task(run(lines(endless()), client))
    await client.has(b"1\n1\n")
    client.left.set()
    await running
    assert not client.ended


async def test_a_head_of_an_export_reads_no_further_than_its_first_lines() -> None:
    async def two() -> AsyncGenerator[bytes]:
        yield b"1\n"
        raise AssertionError

    client = Client()
    await lines(two())({"method": "HEAD"}, client.receive, client.send)
    assert client.ended

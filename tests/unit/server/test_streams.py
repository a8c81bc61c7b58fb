"""Whose turn it is, and who is cut off when too much waits in memory."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from starlette.types import Message

from headwater.core.metrics import HttpMetrics
from headwater.server.connection import CONNECTION, Connection
from headwater.server.connections import STUCK, Reason
from headwater.server.streams import PIECE, Stream, Streams

pytestmark = pytest.mark.anyio


class Far:
    """A client that takes nothing until it is told to, and remembers that it was cut off."""

    def __init__(self) -> None:
        self.takes, self.cut_off = asyncio.Event(), list[Reason]()

    def cut(self, reason: Reason) -> None:
        self.cut_off.append(reason)
        self.takes.set()

    @property
    def scope(self) -> dict[str, Any]:
        return {"state": {CONNECTION: cast(Connection, self)}}

    async def send(self, message: Message) -> None:
        await self.takes.wait()


class Room:
    """Streams with room for three pieces, and the time."""

    def __init__(self) -> None:
        self.time = 0.0
        self.streams = Streams(most=10, memory=3 * PIECE, metrics=HttpMetrics(), now=lambda: self.time)
        self.tasks: list[asyncio.Task[None]] = []

    async def sends(self, far: Far, pieces: int) -> None:
        """A stream to this client waits with so much of it in memory."""

        async def run() -> None:
            with self.streams.open(far.scope) as stream:
                await stream.send(far.send, bytes(pieces * PIECE))

        self.tasks.append(asyncio.create_task(run()))
        await asyncio.sleep(0)

    async def turns(self) -> None:
        async with asyncio.timeout(30), self.streams.turn():
            pass


async def test_who_is_stuck_for_longest_is_cut_off_when_room_is_needed() -> None:
    room, first, second = Room(), Far(), Far()
    await room.sends(first, 2)
    room.time = 1.0
    await room.sends(second, 2)
    room.time = STUCK + 0.5
    await room.turns()
    assert (first.cut_off, second.cut_off) == (["memory"], [])
    await room.turns()
    assert second.cut_off == [], "there is room now"
    second.takes.set()
    await asyncio.gather(*room.tasks)


async def test_who_is_slow_is_waited_for() -> None:
    room, far = Room(), Far()
    await room.sends(far, 3)
    waiting = asyncio.create_task(room.turns())
    await asyncio.sleep(0)
    assert not waiting.done()
    far.takes.set()
    await waiting
    assert far.cut_off == []
    await asyncio.gather(*room.tasks)


async def test_nobody_reads_without_a_pause() -> None:
    """A thousand streams that wake at once do not keep others from running: few of them run between two turns of the loop."""
    room, ran, most = Room(), 0, 0

    async def stream() -> None:
        nonlocal ran
        async with room.streams.turn():
            ran += 1

    tasks = [asyncio.create_task(stream()) for _ in range(1000)]
    while ran < 1000:
        before = ran
        await asyncio.sleep(0)
        most = max(most, ran - before)
    await asyncio.gather(*tasks)
    assert most <= 4


async def test_what_was_sent_is_held_no_more() -> None:
    room, far = Room(), Far()
    far.takes.set()
    stream = Stream(room.streams, None)
    await stream.send(far.send, bytes(5 * PIECE))
    assert stream.held == 0

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.until import until

from headwater.core.errors import Closed
from headwater.wal.thread_turns import ThreadTurns

pytestmark = pytest.mark.anyio


def nothing() -> None:
    pass


async def test_the_turn_of_a_caller_that_gave_up_ends_with_its_thread() -> None:
    turns, go, seen = ThreadTurns(), threading.Event(), list[str]()

    def slow() -> None:
        seen.append("begins")
        assert go.wait(60)
        seen.append("ends")
        raise ZeroDivisionError

    given_up = asyncio.create_task(turns.take(slow, first=nothing))
    await until(lambda: seen)
    waiting = [asyncio.create_task(turns.take(lambda: seen.append("next"), first=nothing)) for _ in range(2)]
    given_up.cancel()
    waiting[0].cancel()  # who has not begun does nothing
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert turns.lock.locked()
    go.set()
    await waiting[1]
    assert seen == ["begins", "ends", "next"]
    assert not turns.lock.locked()


async def test_what_fails_lets_the_next_one_in() -> None:
    turns = ThreadTurns()

    def closed() -> None:
        raise Closed("It is closed.", hint="")

    with pytest.raises(Closed):
        await turns.take(lambda: 1, first=closed)
    with pytest.raises(IndexError):
        await turns.take(lambda: [][0], first=nothing)
    assert await turns.take(lambda: 1, first=nothing) == 1

from __future__ import annotations

import asyncio

import pytest

from headwater.queue.events import QueueEvents
from headwater.queue.values import QueueEvent

pytestmark = pytest.mark.anyio


async def test_listeners_hear_what_comes_after_their_call_although_they_read_later() -> None:
    events = QueueEvents()
    listening = aiter(events.listen(due=2))
    events.due(1000, 2)  # nothing more than before
    events.due(1001, 5)
    events.due(1002, 1)
    events.due(1003, 2)
    assert [await anext(listening), await anext(listening)] == [QueueEvent("due", 1001, count=3), QueueEvent("due", 1003, count=1)]
    events.close()
    with pytest.raises(StopAsyncIteration):
        await anext(listening)
    assert len(events) == 0


async def test_a_listener_that_does_not_keep_up_misses_events_and_ends_all_the_same() -> None:
    events = QueueEvents()
    listening = events.listen(due=0)
    for number in range(1, 2001):
        events.due(number, number)
    events.close()
    async with asyncio.timeout(30):
        found = [event.date async for event in listening]
    assert found[0] == 2  # the end took the place of the oldest
    assert len(found) == 999

"""Several tails in one: what comes, an error, and a follower that gives up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from headwater.client.merge import merged

pytestmark = pytest.mark.anyio


async def _endless() -> AsyncIterator[str]:
    yield "first"
    await asyncio.Event().wait()


async def _failing() -> AsyncIterator[str]:
    yield "last"
    raise ValueError("broken")


async def test_a_follower_that_is_cancelled_leaves_no_task() -> None:
    """A task that nobody ends is destroyed some time later, in the midst of something else, and says so to its loop."""
    before = asyncio.all_tasks()
    tails = merged({0: _endless()})
    assert await anext(tails) == [(0, "first")]
    waiting = asyncio.create_task(anext(tails))
    while len(asyncio.all_tasks() - before) < 3:  # the tail, the caller, and the wait for an item
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_what_comes_before_an_error_is_given() -> None:
    async with aclosing(merged({0: _failing()})) as tails:
        assert await anext(tails) == [(0, "last")]
        with pytest.raises(ValueError, match="broken"):
            while True:
                assert await anext(tails) == []

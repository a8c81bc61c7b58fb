"""A call of a thread that waits: its answer, its error, its end, and what is left of it when the interpreter exits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headwater.client.blocking_call import BlockingCall

pytestmark = pytest.mark.anyio


def call(function: Callable[..., Awaitable[Any]], *args: Any) -> tuple[BlockingCall, set[BlockingCall]]:
    running = set[BlockingCall]()
    return BlockingCall(asyncio.get_running_loop(), running, function, args=args), running


async def echo(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value


async def test_its_result_or_its_error_reaches_the_thread() -> None:
    good, running = call(echo, 5)
    good.start()
    assert running == {good}
    assert await asyncio.to_thread(good.result) == 5
    assert not running
    bad, _ = call(echo, ValueError("no"))
    bad.start()
    with pytest.raises(ValueError, match="no"):
        await asyncio.to_thread(bad.result)


async def test_one_that_is_given_up_is_cancelled() -> None:
    waiting, running = call(asyncio.Event().wait)
    waiting.start()
    waiting.give_up()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.to_thread(waiting.result)
    assert not running


async def test_one_that_is_abandoned_never_answers() -> None:
    waiting, _ = call(asyncio.Event().wait)
    waiting.start()
    waiting.abandon()
    assert waiting.task is not None
    waiting.task.cancel()
    await asyncio.wait([waiting.task])
    assert waiting._done.locked()

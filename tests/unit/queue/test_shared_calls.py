"""Calls that share a record are told together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headwater.core.errors import DiskFull
from headwater.queue.shared_calls import SharedCalls

pytestmark = pytest.mark.anyio


def made(count: int) -> list[asyncio.Future[Any]]:
    return [asyncio.get_running_loop().create_future() for _ in range(count)]


async def test_each_call_gets_its_own_answer_but_one_that_has_given_up() -> None:
    futures = made(3)
    calls = SharedCalls(futures, ["first", "second", "third"])
    futures[1].cancel()
    assert not calls.done()
    calls.set_result(None)
    assert (await futures[0], futures[1].cancelled(), await futures[2], calls.done()) == ("first", True, "third", True)


async def test_a_record_that_was_not_written_fails_all_calls_that_wait() -> None:
    futures = made(3)
    calls = SharedCalls(futures, [1, 2, 3])
    futures[0].cancel()
    calls.set_exception(DiskFull("full"))
    assert (futures[0].cancelled(), calls.done()) == (True, True)
    for future in futures[1:]:
        with pytest.raises(DiskFull):
            await future

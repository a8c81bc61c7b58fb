"""Answers that must reach their callers."""

from __future__ import annotations

import asyncio

import pytest

from headwater.core.errors import OutcomeUnknown
from headwater.queue.answer import KnownAnswer, RecalledAnswer

pytestmark = pytest.mark.anyio


async def awaited(answer: RecalledAnswer[str]) -> str:
    return await answer


def made() -> tuple[asyncio.Future[str], RecalledAnswer[str], list[str]]:
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    recalled: list[str] = []
    return future, KnownAnswer(future, "rows", recalled.append), recalled


async def test_an_answer_comes_once_its_record_is_durable() -> None:
    future, answer, recalled = made()
    task = asyncio.create_task(awaited(answer))
    await asyncio.sleep(0)
    assert not task.done()
    future.set_result("rows")
    assert (await task, await answer, recalled) == ("rows", "rows", [])


async def test_an_answer_whose_caller_has_given_up_is_recalled_once() -> None:
    _, answer, recalled = made()
    task = asyncio.create_task(awaited(answer))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert recalled == ["rows"]


async def test_an_answer_that_nobody_takes_up_again_is_recalled() -> None:
    _, answer, recalled = made()
    waiting = answer.__await__()
    next(waiting)
    waiting.close()
    assert recalled == ["rows"]


async def test_the_failure_of_the_record_is_that_of_the_answer() -> None:
    future, answer, recalled = made()
    future.set_exception(OutcomeUnknown("Nobody knows.", hint="Look."))
    with pytest.raises(OutcomeUnknown):
        await answer
    assert recalled == []

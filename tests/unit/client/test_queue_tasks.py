"""Tasks, and the queue for tests of programs."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater
from headwater.client.queue_running import WorkerReport
from headwater.client.queue_tasks import Tasks
from headwater.core.errors import BadInput
from headwater.queue.handling import Backoff
from headwater.queue.settings import QueueSettings
from headwater.testing.queue_program import queue_for_tests

pytestmark = pytest.mark.anyio


async def test_tasks_are_put_merged_and_run() -> None:
    tasks, built = Tasks(), list[object]()

    @tasks.task(key=lambda path, **more: f"page:{path}", priority=10)
    async def rebuild(path: str, why: str = "") -> None:
        built.append((path, why))

    @tasks.task(retry=Backoff("5s", "5s"))
    def fails(number: int) -> None:
        raise ValueError(f"not {number}")

    with pytest.raises(BadInput, match="bind"):
        rebuild.put("/about")
    with pytest.raises(BadInput, match="two tasks"):
        tasks.task(name="rebuild")(print)
    async with queue_for_tests("pages") as test:
        tasks.bind(test.queue)
        assert (await rebuild.put("/about")).outcome == "inserted"
        assert (await rebuild.put("/about", why="menu")).outcome == "merged"
        await rebuild.put_with({"delay": "10s"}, "/later")
        await fails.put(7)
        row = await test.assert_put("page:/about", {"task": "rebuild", "args": ["/about"], "named": {"why": "menu"}}, priority=10)
        assert row.status == "W"
        with pytest.raises(AssertionError, match="No row 'page:/none'"):
            await test.assert_put("page:/none")
        with pytest.raises(AssertionError, match="priority"):
            await test.assert_put("page:/about", priority=11)
        await test.queue.put("stray", {"n": 1})
        assert await test.drain(tasks) == WorkerReport(done=1, failed=1, given_up=1)
        assert built == [("/about", "menu")]
        failed = await test.assert_put("fails(7)", error="ValueError: not 7")
        assert 2500 <= failed.process_date - test.clock.now_ms() <= 5000
        await test.advance("10s")
        assert (await test.drain(tasks)).done == 1
        assert built[1:] == [("/later", "")]
    await rebuild("/here")
    assert built[2:] == [("/here", "")]


async def test_leases_end_when_the_clock_of_a_test_moves() -> None:
    async with queue_for_tests("pages", QueueSettings(lease="60s")) as test:  # type: ignore[arg-type]
        await test.queue.put("k", 1)
        await test.queue.claim(wait="0s")
        await test.advance("61s")
        assert (await test.assert_put("k", 1, timeout_counter=1)).status == "W"


def test_tasks_of_the_blocking_door(tmp_path: Path) -> None:
    tasks = Tasks()

    @tasks.task()
    def rebuild(path: str) -> None:
        """Build a page."""

    with headwater.open_blocking(tmp_path, create=True) as hw:
        tasks.bind(hw.queue("pages", create=True).open())
        assert rebuild.put("/about").outcome == "inserted"

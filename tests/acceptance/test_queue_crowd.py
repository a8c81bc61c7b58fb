"""Many workers on one queue, servers that are killed behind each call, and servers that are stopped under load."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.client.queue_running import WorkerReport
from headwater.core.errors import HeadwaterError, StaleClaim
from headwater.queue.settings import QueueSettings
from headwater.server.spawned import SpawnedServer

ROWS = 10_000


@pytest.mark.parametrize("workers", [2, 16])
def test_each_of_ten_thousand_rows_runs_once_among_the_workers_of_a_process(tmp_path: Path, workers: int) -> None:
    ran, running = Counter[str](), set[str]()

    async def run(row: Any) -> None:
        assert row.key not in running
        running.add(row.key)
        await asyncio.sleep(0)
        running.remove(row.key)
        ran[row.key] += 1

    async def work() -> list[WorkerReport]:
        async with headwater.open(tmp_path, create=True) as hw:
            queue = await hw.queue("pages", create=True)
            for first in range(0, ROWS, 1000):
                await queue.put_many([(f"k{number}", number) for number in range(first, first + 1000)])
            crew = [queue.worker(run, concurrency=8, drain=True) for _ in range(workers)]
            reports = await asyncio.gather(*(worker.run() for worker in crew))
            assert sum(vars_of(await queue.count())) == 0
            return reports

    reports = asyncio.run(work())
    assert sum(report.done for report in reports) == ROWS
    assert sum(report.failed + report.released + report.lost + report.given_up for report in reports) == 0
    assert ran == Counter(f"k{number}" for number in range(ROWS))


def vars_of(counts: Any) -> list[int]:
    return [counts.due, counts.future, counts.held, counts.processing, counts.dead]


class Restarts:
    """A server that is killed, and another one in its place."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.server = SpawnedServer(data)
        self.server.start()

    def killed_after(self, call: Callable[[Any], Any]) -> Any:
        """What a call returns, behind which the server is killed at once and started again."""
        with headwater.open_blocking(self.server.url) as hw:
            answer = call(hw.queue("pages"))
            self.server.kill()
        self.server = SpawnedServer(self.data)
        self.server.start()
        return answer

    def look(self, see: Callable[[Any], Any]) -> Any:
        with headwater.open_blocking(self.server.url) as hw:
            return see(hw.queue("pages"))


def test_a_server_that_is_killed_behind_each_call_has_kept_it(tmp_path: Path) -> None:
    restarts = Restarts(tmp_path / "data")
    with headwater.open_blocking(restarts.server.url) as hw:
        hw.queue("pages", create=QueueSettings(lease="10m", max_attempts=2)).open()
    try:
        put = restarts.killed_after(lambda pages: pages.put("a", {"n": 1}, priority=7))
        row = restarts.look(lambda pages: pages.get("a"))
        assert (row.id, row.data, row.priority, row.status) == (put.id, {"n": 1}, 7, "W")
        (claim,) = restarts.killed_after(lambda pages: pages.claim(wait="0s"))
        token = claim.token
        row = restarts.look(lambda pages: pages.get("a"))
        assert (row.status, row.attempts) == ("P", 1)
        assert restarts.look(lambda pages: pages.claim(wait="0s")) == [], "nobody else gets it"
        assert restarts.killed_after(lambda pages: pages.extend(token, lease="30m")) == []
        assert [one.change for one in restarts.look(lambda pages: pages.history("a"))][-1] == "extend"
        restarts.killed_after(lambda pages: pages.fail(token, "no", retry_after="1h"))
        row = restarts.look(lambda pages: pages.get("a"))
        assert (row.status, row.failures, row.error) == ("W", 1, "no")
        with pytest.raises(StaleClaim):
            restarts.look(lambda pages: pages.fail(token, "again"))
        restarts.killed_after(lambda pages: pages.put("b"))
        (claim,) = restarts.look(lambda pages: pages.claim(wait="0s"))
        second = claim.token
        assert restarts.killed_after(lambda pages: pages.done(second)) == []
        assert restarts.look(lambda pages: pages.done(second)) == [second], "it is gone"
        assert [row.key for row in restarts.look(lambda pages: list(pages.rows()))] == ["a"]
    finally:
        restarts.server.kill()


def test_a_server_that_is_stopped_under_load_has_kept_what_it_answered(tmp_path: Path) -> None:
    """Each caller has one call under way: of its last, nobody knows; every other one holds."""
    server = SpawnedServer(tmp_path / "data")
    server.start()
    put, done, unsure, numbers, loaded = set[str](), set[str](), set[str](), count(), threading.Event()

    def load(url: str) -> None:
        with headwater.open_blocking(url) as hw:
            pages = hw.queue("pages")
            while True:
                key = f"k{next(numbers)}"
                try:
                    pages.put(key, 1)
                    put.add(key)
                    for claim in pages.claim(1, wait="0s"):
                        key = claim.key
                        if not pages.done(claim.token):
                            done.add(key)
                except HeadwaterError:
                    unsure.add(key)
                    return
                if len(done) > 300:
                    loaded.set()

    with headwater.open_blocking(server.url) as hw:
        hw.queue("pages", create=QueueSettings(lease="10m")).open()
    with ThreadPoolExecutor(8) as threads:
        callers = [threads.submit(load, server.url) for _ in range(8)]
        assert loaded.wait(240)
        assert server.stop() == 0
        for caller in callers:
            caller.result(60)
    assert "Traceback" not in server.errors()
    with SpawnedServer(tmp_path / "data") as again, headwater.open_blocking(again.url) as hw:
        there = {row.key for row in hw.queue("pages").rows()}
    assert len(done) > 300
    assert done & there - unsure == set(), "what was done is gone"
    assert put - done - unsure - there == set(), "what was put is there"
    assert there - put - unsure == set(), "nothing else is"

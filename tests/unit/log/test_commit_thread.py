from __future__ import annotations

import asyncio
import threading

import pytest

from headwater.log.commit_thread import CommitThread

pytestmark = pytest.mark.anyio


class Doubling(CommitThread[tuple[int, "asyncio.Future[int]"]]):
    """Answers numbers with twice of them, at most three at once."""

    def __init__(self) -> None:
        self.commits: list[list[int]] = []
        self.entered, self.go = threading.Semaphore(0), threading.Semaphore(0)
        super().__init__(name="test")

    def ask(self, number: int) -> asyncio.Future[int]:
        future = self._future()
        self._queue.append((number, future))
        if self._idle:
            self._rouse()
        return future

    def _commit(self) -> None:
        waiting = self._queue[:3]
        del self._queue[:3]
        self.entered.release()
        assert self.go.acquire(timeout=60)
        self.commits.append([number for number, _ in waiting])
        self._tell(lambda: [future.set_result(2 * number) for number, future in waiting])  # type: ignore[func-returns-value, arg-type]


async def test_what_comes_during_a_commit_is_the_next_one() -> None:
    thread = Doubling()
    first = thread.ask(1)
    await asyncio.to_thread(thread.entered.acquire)
    rest = [thread.ask(number) for number in (2, 3, 4, 5)]
    thread.go.release(3)
    assert await asyncio.gather(first, *rest) == [2, 4, 6, 8, 10]
    assert thread.commits == [[1], [2, 3, 4], [5]]
    thread.go.release()
    assert await thread.ask(6) == 12, "it wakes up again"
    await thread.aclose()


async def test_closing_waits_for_what_is_queued() -> None:
    thread = Doubling()
    asked = [thread.ask(number) for number in range(5)]
    thread.go.release(5)
    await thread.aclose()
    assert await asyncio.gather(*asked) == [0, 2, 4, 6, 8]


def test_it_outlives_a_loop_that_is_closed_before_it() -> None:
    made: list[Doubling] = []

    async def ask() -> None:
        made.append(Doubling())
        made[0].ask(1)

    asyncio.run(ask())
    made[0].go.release(5)
    asyncio.run(made[0].aclose())
    assert made[0].commits == [[1]]

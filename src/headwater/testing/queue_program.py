"""A queue for tests of programs that use one: in a temporary directory, without a server, with a clock that tests move.

async with queue_for_tests("pages") as test:
    tasks.bind(test.queue)
    await rebuild.put("/about")
    await test.assert_put("page:/about")
    await test.advance("10s")
    assert (await test.drain(tasks)).done == 1

with blocking_queue_for_tests("pages") as test: the same without `await`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headwater.client.blocking import open_blocking
from headwater.client.door import Headwater
from headwater.client.queue import OneQueue
from headwater.client.queue_claim import QueueRow
from headwater.client.queue_running import WorkerReport
from headwater.queue.handling import duration_of
from headwater.queue.settings import QueueSettings
from headwater.testing.clock import ManualClock

_TURNS = 50  # of the loop, in which what has become due is done


class QueueTest:
    """A queue whose time a test moves."""

    def __init__(self, queue: OneQueue, clock: ManualClock) -> None:
        self.queue, self.clock = queue, clock

    async def advance(self, duration: str) -> None:
        """Let so much time pass: dates come, leases end."""
        self.clock.advance(duration_of(duration, "duration") / 1000)
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    async def drain(self, function: Callable[[Any], Any], *, concurrency: int = 1) -> WorkerReport:
        """Run a function for each row that is due, here and now, until none is. What it raises becomes a failure of its row."""
        return await self.queue.worker(function, concurrency=concurrency, drain=True, clock=self.clock).run()

    async def rows(self) -> dict[str | bytes, QueueRow]:
        """The rows that are there, by key."""
        return {row.key: row async for row in self.queue.rows()}

    async def assert_put(self, key: str | bytes, data: Any = ..., **fields: Any) -> QueueRow:
        """The row of a key; with `data` and other fields, such as priority=10, as given.

        Errors: `AssertionError`, which says what is there.
        """
        return _checked(await self.rows(), key, data, fields)

    async def assert_not_put(self, key: str | bytes) -> None:
        """Errors: `AssertionError`, which shows the row of the key."""
        _refuse(await self.rows(), key)


class BlockingQueueTest:
    """The same for code without asyncio. `queue` is one of the blocking door's."""

    def __init__(self, queue: Any, clock: ManualClock) -> None:
        self.queue, self.clock = queue, clock

    def advance(self, duration: str) -> None:
        """Let so much time pass: dates come, leases end."""
        self.clock.advance(duration_of(duration, "duration") / 1000)
        for _ in range(_TURNS):
            self.queue.count()

    def drain(self, function: Callable[[Any], Any], *, concurrency: int = 1) -> WorkerReport:
        """Run a function for each row that is due, until none is: a plain one in a thread, as workers do."""
        report: WorkerReport = self.queue.worker(function, concurrency=concurrency, drain=True, clock=self.clock).run()
        return report

    def rows(self) -> dict[str | bytes, QueueRow]:
        """The rows that are there, by key."""
        return {row.key: row for row in self.queue.rows()}

    def assert_put(self, key: str | bytes, data: Any = ..., **fields: Any) -> QueueRow:
        """The row of a key, as `QueueTest.assert_put` has it."""
        return _checked(self.rows(), key, data, fields)

    def assert_not_put(self, key: str | bytes) -> None:
        """Errors: `AssertionError`, which shows the row of the key."""
        _refuse(self.rows(), key)


@asynccontextmanager
async def queue_for_tests(name: str, settings: QueueSettings | None = None) -> AsyncIterator[QueueTest]:
    """A new queue in a directory that is removed at the end."""
    clock = ManualClock()
    with TemporaryDirectory(prefix="headwater-test-") as folder:
        async with Headwater(Path(folder), create=True, clock=clock) as hw:
            queue = await hw.queue(name, create=settings or True)
            yield QueueTest(queue, clock)


@contextmanager
def blocking_queue_for_tests(name: str, settings: QueueSettings | None = None) -> Iterator[BlockingQueueTest]:
    """`queue_for_tests` for code without asyncio."""
    clock = ManualClock()
    with TemporaryDirectory(prefix="headwater-test-") as folder, open_blocking(folder, create=True, clock=clock) as hw:
        yield BlockingQueueTest(hw.queue(name, create=settings or True).open(), clock)


def _checked(rows: Mapping[str | bytes, QueueRow], key: str | bytes, data: Any, fields: Mapping[str, Any]) -> QueueRow:
    assert key in rows, f"No row {key!r} was put; there are: {', '.join(map(repr, rows)) or 'none'}."
    row = rows[key]
    wanted = fields if data is ... else {"data": data, **fields}
    differing = {name: getattr(row, name) for name, value in wanted.items() if getattr(row, name) != value}
    assert not differing, f"Row {key!r} has {differing}, not { {name: wanted[name] for name in differing} }."
    return row


def _refuse(rows: Mapping[str | bytes, QueueRow], key: str | bytes) -> None:
    assert key not in rows, f"Row {key!r} was put, with {rows[key].data!r}."

"""What tests of queues stand on: processes over one log, each with its queues, on a clock that is moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from headwater.cluster import Ownership
from headwater.log import Log
from headwater.queue.manager import QueueManager
from headwater.queue.queue import Queue
from headwater.queue.row import NewRow
from headwater.queue.values import ClaimedRow
from headwater.testing.clock import ManualClock
from headwater.wal.manager import RegionManager
from headwater.wal.metrics import WalMetrics
from headwater.wal.settings import WalSettings


class QueueProcess:
    """What one process has open. `stop` closes it in order."""

    def __init__(self, log: Log, owners: Ownership, clock: ManualClock, *, namespace: str, serves: bool) -> None:
        self._owners = owners
        self.regions = RegionManager(
            log, lambda: owners, namespace, settings=WalSettings(), clock=clock, random=Random(1), metrics=WalMetrics()
        )
        self.queues = QueueManager(log, self.regions, clock=clock, serves=serves)

    async def stop(self) -> None:
        await self.queues.aclose()
        await self.regions.aclose()
        await asyncio.to_thread(self._owners.close)


class QueueGround:
    """Processes over one log. Those that run at the end are stopped by `close`."""

    def __init__(self, log: Log, join: Callable[[], Ownership], namespace: str) -> None:
        self.log, self.clock = log, ManualClock()
        self._join, self._namespace = join, namespace
        self._processes: list[QueueProcess] = []

    @property
    def now(self) -> int:
        return self.clock.now_ms()

    def process(self, *, serves: bool = False) -> QueueProcess:
        """One more process."""
        self._processes.append(QueueProcess(self.log, self._join(), self.clock, namespace=self._namespace, serves=serves))
        return self._processes[-1]

    async def queue(self, **settings: Any) -> Queue:
        """A new queue `pages`, open in a process of its own."""
        queues = self.process().queues
        await queues.create("pages", {"lease": "60s", **settings})
        return await queues.open("pages")

    async def restarted(self) -> Queue:
        """`pages`, open in another process, after all others have stopped."""
        await self.close()
        return await self.process().queues.open("pages")

    async def close(self) -> None:
        processes, self._processes = self._processes, []
        for process in processes:
            await process.stop()


def row(key: str | bytes = "k", data: bytes = b"null", **how: Any) -> NewRow:
    return NewRow(key=key if isinstance(key, bytes) else key.encode(), data=data, **how)


async def keys(queue: Queue) -> list[str]:
    """The keys of all rows, by id."""
    return [stored_row.key.decode() for stored_row in await queue.rows(limit=10_000)]


async def claim_one(queue: Queue, **how: Any) -> ClaimedRow:
    """A claim that must bring a row."""
    (claim,) = (await queue.claim(1, **how)).claims
    return claim


async def claimed_keys(queue: Queue, n: int = 100, **how: Any) -> list[str]:
    """The keys of what a claim brings, in its order."""
    return [claim.row.key.decode() for claim in (await queue.claim(n, **how)).claims]

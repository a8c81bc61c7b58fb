"""A queue on three brokers: the loss of one loses and doubles nothing; after the loss of two, puts are refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from random import Random

import pytest
from tools.services.private import PrivateServers

from headwater.cluster.kafka import KafkaOwnership
from headwater.core.clock import SystemClock
from headwater.core.errors import Closed, Fenced, HeadwaterError, NotOwner, Unavailable
from headwater.log.kafka.log import KafkaLog
from headwater.queue.manager import QueueManager
from headwater.queue.queue import Queue
from headwater.queue.row import NewRow
from headwater.testing.log_ground import PATIENCE, fresh
from headwater.wal.manager import RegionManager
from headwater.wal.metrics import WalMetrics
from headwater.wal.settings import WalSettings


@asynccontextmanager
async def opened(log: KafkaLog, group: str) -> AsyncIterator[QueueManager]:
    """The queues of one process."""
    clock = SystemClock()
    owners = await asyncio.to_thread(KafkaOwnership, log, group=group, session=6.0)
    regions = RegionManager(log, lambda: owners, "queue", settings=WalSettings(), clock=clock, random=Random(1), metrics=WalMetrics())
    queues = QueueManager(log, regions, clock=clock)
    try:
        yield queues
    finally:
        await queues.aclose()
        await regions.aclose()
        await asyncio.to_thread(owners.close)


async def given(queues: QueueManager) -> Queue:
    """The queue, once the group gives it to this process: its former owner may have told a broker that is dead, and a group that hears
    nothing of its member while it gets another coordinator takes away what that one had."""
    async with asyncio.timeout(2 * PATIENCE):
        while True:
            try:
                return await queues.open("pages")
            except (NotOwner, Unavailable, Fenced, Closed):
                await asyncio.sleep(0.05)


class Load:
    """Callers that put, claim and finish rows, and remember what was answered."""

    def __init__(self, queues: QueueManager) -> None:
        self._queues, self._numbers, self._over = queues, count(), False
        self.put, self.done, self.unsure, self.running = set[bytes](), set[bytes](), set[bytes](), set[bytes]()
        self._callers = [asyncio.ensure_future(self._call()) for _ in range(8)]

    async def _call(self) -> None:
        while not self._over:
            queue, key = await given(self._queues), b"%d" % next(self._numbers)
            try:
                await queue.put([NewRow(key=key)])
                self.put.add(key)
                for claim in (await queue.claim(1, wait=1000)).claims:
                    key = claim.row.key
                    assert key not in self.done | self.running, "it has run, or runs"
                    self.running.add(key)
                    stale = await queue.done([claim.token])
                    self.running.remove(key)
                    assert not stale, "its claim counts"
                    self.done.add(key)
            except HeadwaterError:
                self.unsure.add(key)

    async def more(self, rows: int = 200) -> None:
        """Until so many more rows are done."""
        wanted = len(self.done) + rows
        async with asyncio.timeout(2 * PATIENCE):
            while len(self.done) < wanted:
                await asyncio.wait(self._callers, timeout=0.02, return_when=asyncio.FIRST_EXCEPTION)
                for caller in self._callers:
                    if caller.done():
                        caller.result()

    async def stop(self) -> None:
        self._over = True
        async with asyncio.timeout(2 * PATIENCE):
            await asyncio.gather(*self._callers)

    async def check(self, queue: Queue) -> None:
        """What was put is there, unless it was done; and what was done is not."""
        there = {row.key for row in await queue.rows(limit=10_000)}
        assert self.put - self.done - self.unsure - there == set()
        assert self.done & there == set()
        assert there - self.put - self.unsure == set()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_one_broker_lost_loses_and_doubles_nothing_and_two_refuse_puts(private_servers: PrivateServers) -> None:
    cluster, group = private_servers.up("kafka", brokers=3), fresh("owners")
    with KafkaLog(cluster.kafka, timeout=10.0) as log:
        async with opened(log, group) as queues:
            await queues.create("pages", {"replication": 3, "lease": "10m"})
            load = Load(queues)
            await load.more()
            await asyncio.to_thread(cluster.kill, "broker-2")
            await load.more()
            await load.stop()
            await load.check(await given(queues))
        async with opened(log, group) as queues:
            queue = await given(queues)
            await load.check(queue)
            await queue.put([NewRow(key=b"last")])
            await asyncio.to_thread(cluster.kill, "broker-3")
            puts = [queue.put([NewRow(key=key)]) for key in (b"refused", b"refused as well")]
            told = await asyncio.gather(*puts, return_exceptions=True)
            assert all(isinstance(one, Unavailable) for one in told), told
        for broker in ("broker-2", "broker-3"):
            await asyncio.to_thread(cluster.restart, broker)
    load.put.add(b"last")
    load.unsure |= {b"refused", b"refused as well"}  # an answer that did not come in time says neither
    with KafkaLog(cluster.kafka) as log:
        async with opened(log, group) as queues:
            queue = await given(queues)
            await load.check(queue)
            assert (await queue.put([NewRow(key=b"again")]))[0].outcome == "inserted"

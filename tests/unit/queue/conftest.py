"""What unit tests of queues stand on: a queue in a region of an embedded log, and a clock that tests move."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.core.timers import Timers
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.queue.dead_notices import Post
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.queue import Queue, open_queue
from headwater.testing.clock import ManualClock
from headwater.wal.region import Region, open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import RegionTopics

TOPICS = RegionTopics("queue", 1)
TABLE = 1
OpenQueue = Callable[..., Awaitable[Queue]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def region(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Region]:
    with EmbeddedLog(tmp_path) as log, LocalOwnership(log, tmp_path / "owners") as owners:
        create_region(log, TOPICS)
        region = await open_region(log, owners, TOPICS)
        yield region
        await region.close()


@pytest.fixture
async def opened(region: Region, clock: ManualClock) -> AsyncIterator[OpenQueue]:
    """Opens the queue; what is open at the end is closed. Opening it again is a restart."""
    timers, queues = Timers(clock), list[Queue]()

    async def open(post: Post | None = None, **settings: Any) -> Queue:
        for queue in queues:
            await queue.aclose()
        made = EffectiveSettings(**settings)
        queues.append(await open_queue("pages", region, TABLE, settings=made, clock=clock, timers=timers, post=post))
        return queues[-1]

    yield open
    for queue in queues:
        await queue.aclose()
    timers.close()


class FailingAppends:
    """A Writer whose next append fails, after or before its records are in the log."""

    def __init__(self, region: Region, error: Exception, *, arrives: bool) -> None:
        self._owned = cast(Any, region)._owned
        self._writer, self._error, self._arrives = self._owned.writer, error, arrives
        self._owned.writer = self

    def append(self, records: Sequence[Record]) -> Sequence[int]:
        if self._arrives:
            self._writer.append(records)
        raise self._error

    def __getattr__(self, name: str) -> object:
        return getattr(self._writer, name)

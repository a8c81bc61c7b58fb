from __future__ import annotations

import asyncio

import pytest

from headwater.client.jobs import Jobs
from headwater.core.clock import SystemClock
from headwater.core.errors import Busy
from headwater.core.ids import random_id
from headwater.wal.operations import VERIFY

pytestmark = pytest.mark.anyio


async def test_so_many_jobs_run_at_once_and_no_more() -> None:
    jobs, over = Jobs(clock=SystemClock(), ids=random_id), asyncio.Event()
    started = [jobs.start(VERIFY, over.wait) for _ in range(100)]
    with pytest.raises(Busy, match="100 jobs run"):
        jobs.start(VERIFY, over.wait)
    assert (await jobs.cancel(started[0].id)).state == "cancelled"  # before it has begun
    jobs.start(VERIFY, over.wait)
    over.set()
    assert (await jobs.wait(started[1].id, None)).state == "done"
    await jobs.aclose()

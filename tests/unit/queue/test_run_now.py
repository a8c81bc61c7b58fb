"""A waiting row runs now, whatever its date; its schedule stays."""

from __future__ import annotations

import pytest
from tests.unit.queue.conftest import OpenQueue

from headwater.core.errors import Conflict, NotFound
from headwater.queue.row import NewRow
from headwater.queue.schedule import Schedule
from headwater.queue.values import FailedClaim
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio
HOUR = 3_600_000


@pytest.mark.parametrize("schedule", [Schedule(every=HOUR), Schedule(cron="0 * * * *"), None], ids=str)
async def test_a_future_row_runs_once_more_and_the_run_that_it_waited_for_comes(
    opened: OpenQueue, clock: ManualClock, schedule: Schedule | None
) -> None:
    queue = await opened()
    [put] = await queue.put([NewRow(key=b"k", data=b"1", process_date=clock.now_ms() // HOUR * HOUR + HOUR, schedule=schedule)])
    assert (await queue.claim()).claims == []
    row = await queue.run(b"k")
    assert (row.process_date, row.id, row.data) == (clock.now_ms(), put.id, b"1")
    queue = await opened()
    [claim] = (await queue.claim()).claims
    await queue.done([claim.token])
    if schedule is None:
        with pytest.raises(NotFound):
            await queue.get(b"k")
        return
    after = await queue.get(b"k")
    assert (after.process_date, after.schedule) == (put.process_date, str(schedule))
    clock.advance((put.process_date - clock.now_ms()) / 1000)
    [claim] = (await queue.claim()).claims
    await queue.done([claim.token])
    assert (await queue.get(b"k")).process_date == put.process_date + HOUR


async def test_a_row_that_waits_to_be_tried_again_is_tried_now(opened: OpenQueue) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"k")])
    [claim] = (await queue.claim()).claims
    with pytest.raises(Conflict, match="being processed"):
        await queue.run(b"k")
    await queue.fail([FailedClaim(claim.token, "busy", HOUR)])
    await queue.run(b"k")
    [claim] = (await queue.claim()).claims
    assert (claim.row.failures, claim.row.error) == (1, "busy")


async def test_a_row_that_is_due_stays_as_it_is_and_an_unknown_one_is_told(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"k")])
    due = await queue.get(b"k")
    clock.advance(5)
    assert await queue.run(b"k") == due
    with pytest.raises(NotFound):
        await queue.run(b"none")


async def test_a_claim_that_waits_gets_it(opened: OpenQueue) -> None:
    import asyncio

    queue = await opened()
    await queue.put([NewRow(key=b"k", delay=HOUR)])
    waiting = asyncio.ensure_future(queue.claim(wait=60_000))
    await asyncio.sleep(0)
    await queue.run(b"k")
    assert [claim.row.key for claim in (await waiting).claims] == [b"k"]

"""What an open queue does around its calls: large rows never stop it, claims that reach nobody come back, an idle queue wakes nobody."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.queue.conftest import OpenQueue

from headwater.core.errors import Closed, TooLarge
from headwater.core.units import Duration
from headwater.queue.checks import MAX_ERROR
from headwater.queue.row import NewRow
from headwater.queue.values import Counts, FailedClaim
from headwater.testing.clock import ManualClock
from headwater.wal.region import Region

pytestmark = pytest.mark.anyio
KEYS = [b"a", b"b", b"c", b"d"]


async def test_leases_of_rows_with_large_follow_ups_end(opened: OpenQueue, region: Region, clock: ManualClock) -> None:
    """Their rows would not fit into one record together."""
    queue = await opened(lease=Duration(1000))
    await queue.put([NewRow(key=key) for key in KEYS])
    await queue.claim(4)
    for key in KEYS:
        await queue.put([NewRow(key=key, data=bytes(region.limit // 3), form=1)])
    await clock.run(2)
    assert await queue.count() == Counts(4, 0, 0, 0, 0)
    assert not queue.statistics().paused


async def test_large_dead_rows_are_put_again_together(opened: OpenQueue, region: Region) -> None:
    queue = await opened()
    for key in KEYS:
        await queue.put([NewRow(key=key, data=bytes(region.limit // 3), form=1)])
    claims = (await queue.claim(4)).claims
    await queue.fail([FailedClaim(claimed.token, give_up=True) for claimed in claims])
    assert [put.outcome for put in await queue.dead_retry()] == ["inserted"] * 4
    assert await queue.count() == Counts(4, 0, 0, 0, 0)


async def test_the_largest_row_can_fail_and_be_put_again(opened: OpenQueue, region: Region) -> None:
    queue = await opened()
    largest = region.limit
    while True:
        row = NewRow(key=b"k" * 1024, data=bytes(largest), form=1, lane=b"l" * 255)
        try:
            await queue.put([row])
            break
        except TooLarge:
            largest -= 1024
    [claimed] = (await queue.claim(group="g" * 255, worker="w" * 255)).claims
    await queue.fail([FailedClaim(claimed.token, "e" * MAX_ERROR)])
    assert (await queue.put([row]))[0].outcome == "merged"


@pytest.mark.parametrize("restarts", [False, True])
async def test_an_idempotency_key_lasts_24_hours_also_where_its_answer_was_carried(
    opened: OpenQueue, clock: ManualClock, restarts: bool
) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"a")], idempotency="first")
    clock.advance(60)
    await queue.put([NewRow(key=b"b")], idempotency="second")
    runtime = queue._runtime
    decisions = runtime.begin(clock.now_ms())
    assert decisions is not None
    decisions.carry([], 10_000, before=1)  # from now on it stands behind the second
    await runtime.commit(None, lambda: runtime.log.ready())
    if restarts:
        queue = await opened()
    clock.advance(86_400 - 60)
    assert not (await queue.put([NewRow(key=b"a")], idempotency="first"))[0].replayed
    assert (await queue.put([NewRow(key=b"b")], idempotency="second"))[0].replayed


async def test_rows_that_were_claimed_for_nobody_come_back(opened: OpenQueue) -> None:
    queue = await opened()
    waiting = asyncio.ensure_future(queue.claim(wait=60_000))
    await asyncio.sleep(0)
    put = queue.put([NewRow(key=b"a")])
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await put
    [claimed] = (await queue.claim(wait=60_000)).claims
    assert claimed.row.key == b"a"


async def test_a_waiting_claim_gets_a_row_at_its_date_and_not_before(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"a", delay=5000)])
    waiting = asyncio.ensure_future(queue.claim(wait=60_000))
    await clock.run(4.999)
    assert not waiting.done()
    await clock.run(0.001)
    assert [claimed.row.key for claimed in (await waiting).claims] == [b"a"]


async def test_waiting_claims_and_calls_end_with_the_queue(opened: OpenQueue) -> None:
    queue = await opened()
    waiting = asyncio.ensure_future(queue.claim(wait=60_000))
    await asyncio.sleep(0)
    await queue.aclose()
    for call in (waiting, queue.put([NewRow(key=b"a")]), queue.claim(), queue.count()):
        with pytest.raises(Closed):
            await call

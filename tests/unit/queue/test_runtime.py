"""What an open queue does around its calls: large rows never stop it, claims that reach nobody come back, an idle queue wakes nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.unit.queue.conftest import FailingAppends, OpenQueue

from headwater.core.clock import Alarm
from headwater.core.errors import Closed, OutcomeUnknown, TooLarge
from headwater.core.units import Duration
from headwater.queue import put_decisions
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


@pytest.mark.parametrize("n", [1, 2], ids=["quick", "general"])
async def test_rows_of_a_claim_whose_outcome_nobody_knows_come_back_at_once(opened: OpenQueue, region: Region, n: int) -> None:
    """Its record is in the log, and its token has reached nobody: no lease must end first."""
    queue = await opened()
    await queue.put([NewRow(key=key) for key in KEYS])
    [held] = (await queue.claim()).claims
    FailingAppends(region, OutcomeUnknown("?"), arrives=True)
    with pytest.raises(OutcomeUnknown):
        await queue.claim(n)
    again = (await queue.claim(4)).claims
    assert [(claimed.row.key, claimed.row.timeout_counter) for claimed in again] == [(key, 0) for key in KEYS[1:]]
    assert await queue.done([held.token]) == [], "a claim that was answered lasts"


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


async def test_a_put_after_the_date_was_set_back_is_not_stale(opened: OpenQueue, clock: ManualClock) -> None:
    """Its date is the queue's own: no client has an older one."""
    queue = await opened()
    await queue.put([NewRow(key=b"waits", data=b"1"), NewRow(key=b"runs", data=b"1", priority=1)])
    await queue.claim()
    clock.jump(-3600)
    puts = await queue.put([NewRow(key=b"waits", data=b"2"), NewRow(key=b"runs", data=b"2")])
    assert [put.outcome for put in puts] == ["merged", "follow-up"]
    [put] = await queue.put([NewRow(key=b"runs", data=b"3")])
    assert put.outcome == "merged"
    assert sorted((row.key, row.data) for row in await queue.rows()) == [(b"runs", b"1"), (b"runs", b"3"), (b"waits", b"2")]
    [put] = await queue.put([NewRow(key=b"waits", data=b"0", insertion_date=clock.now_ms() - 1)])
    assert put.outcome == "stale"


@pytest.mark.parametrize("jump", [-3600, 3600])
async def test_a_claim_waits_as_long_as_it_says_whatever_the_date(opened: OpenQueue, clock: ManualClock, jump: float) -> None:
    queue = await opened()
    claim = asyncio.ensure_future(queue.claim(wait=20_000))
    await clock.run(1)
    clock.jump(jump)
    await clock.run(18)
    assert not claim.done()
    await clock.run(2)
    assert claim.done()
    assert (await claim).claims == []


async def test_a_rate_goes_on_after_the_date_was_set_back(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened(rate=2, rate_period=Duration(1000))
    await queue.put([NewRow(key=key) for key in KEYS])
    assert len((await queue.claim(4)).claims) == 2
    clock.jump(-3600)
    assert (await queue.claim(4)).claims == []
    claim = asyncio.ensure_future(queue.claim(4, wait=20_000))
    await clock.run(2)
    assert len((await asyncio.wait_for(claim, 30)).claims) == 2


async def test_a_listener_of_a_queue_with_a_rate_wakes_nobody(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened(rate=2, rate_period=Duration(1000))
    events = queue.listen()
    await queue.put([NewRow(key=key) for key in KEYS])
    await queue.claim(4)
    rings, at = 0, clock.call_later

    def counted(seconds: float, call: Callable[[], None]) -> Alarm:
        nonlocal rings
        rings += 1
        assert rings < 100, "it rings and rings"
        return at(seconds, call)

    clock.call_later = counted  # type: ignore[method-assign]
    await clock.run(3)
    assert rings < 10
    assert events is not None


async def test_a_call_of_several_records_is_answered_once_and_all_of_it_lasts(opened: OpenQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(put_decisions, "MOST_BYTES", 0)  # each row fills a record
    queue = await opened()
    await queue.put([NewRow(key=b"%d" % number) for number in range(3)])
    tokens = [one.token for one in (await queue.claim(3)).claims]
    before = queue.statistics().log_records
    assert await queue.fail([FailedClaim(token, "no", 9_000_000) for token in [*tokens, "none"]]) == ["none"]
    assert queue.statistics().log_records == before + 3
    queue = await opened()
    assert [row.error for row in await queue.rows()] == ["no"] * 3


async def test_a_call_of_several_records_whose_last_is_not_written_has_an_unknown_outcome(
    opened: OpenQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(put_decisions, "MOST_BYTES", 0)
    queue = await opened()
    await queue.put([NewRow(key=b"%d" % number) for number in range(3)])
    tokens = [one.token for one in (await queue.claim(2)).claims]
    log, left = queue._runtime.log, [2]
    append = log.append

    def refusing(value: bytes, answer: object) -> object:
        left[0] -= 1
        if left[0] >= 0:
            return append(value, answer)
        log._break()
        return None

    monkeypatch.setattr(log, "append", refusing)
    with pytest.raises(OutcomeUnknown, match="A part of the call"):
        await queue.claim(1, fail=[FailedClaim(token, "no", 9_000_000) for token in tokens])
    monkeypatch.setattr(log, "append", append)
    assert [(row.error, row.status) for row in await queue.rows()] == [("no", "W"), ("no", "W"), ("", "W")]
    assert await queue.fail([FailedClaim(token) for token in tokens]) == tokens

"""What an open queue does around its calls: large rows never stop it, claims that reach nobody come back, an idle queue wakes nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.unit.queue.conftest import FailingAppends, OpenQueue

from headwater.core.clock import Alarm
from headwater.core.errors import Closed, DiskFull, HeadwaterError, NotFound, OutcomeUnknown, TooLarge
from headwater.core.period import Period
from headwater.core.units import Duration
from headwater.queue import put_decisions
from headwater.queue.checks import MAX_ERROR, CheckedRow
from headwater.queue.decisions import Decisions
from headwater.queue.put_decisions import PutDecisions
from headwater.queue.row import NewRow
from headwater.queue.values import Counts, FailedClaim, Put, QueueEvent
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
    assert len((await asyncio.wait_for(claim, 60)).claims) == 2


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
        log.break_fold()
        return None

    monkeypatch.setattr(log, "append", refusing)
    with pytest.raises(OutcomeUnknown, match="A part of the call"):
        await queue.claim(1, fail=[FailedClaim(token, "no", 9_000_000) for token in tokens])
    monkeypatch.setattr(log, "append", append)
    assert [(row.error, row.status) for row in await queue.rows()] == [("no", "W"), ("no", "W"), ("", "W")]
    assert await queue.fail([FailedClaim(token) for token in tokens]) == tokens


async def test_an_idle_queue_needs_no_record_of_an_answer_that_is_over(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened(period=Period("0ms"))
    await queue.put([NewRow(key=b"a")], idempotency="once")
    await queue.cancel(b"a")
    assert queue.statistics().log_records == 2
    clock.jump(86_400)  # not second by second
    await clock.run(11)
    assert queue.statistics().log_records == 0


@pytest.mark.parametrize("look", ["count", "statistics", "claim nothing"])
async def test_a_row_that_somebody_sees_at_its_date_is_told_to_be_due_nevertheless(
    opened: OpenQueue, clock: ManualClock, look: str
) -> None:
    queue = await opened()
    events = queue.listen()
    await queue.put([NewRow(key=b"later", delay=5000)])
    await clock.run(3)
    clock.jump(2.5)  # the date has come, and the alarm has not rung yet
    if look == "count":
        assert (await queue.count()).due == 1
    elif look == "statistics":
        assert queue.statistics().counts.due == 1
    else:
        assert (await queue.claim(0)).claims == []
    told = list[str]()
    await clock.run(10)
    await queue.aclose()
    async for event in events:
        told.append(event.kind)
    assert told.count("due") == 1


async def dead_events(events: AsyncIterator[QueueEvent]) -> list[tuple[bytes, str]]:
    return [(event.key, event.reason) async for event in events if event.kind == "dead"]


@pytest.mark.parametrize("how", ["fail", "claim", "lease"])
async def test_a_death_is_told_once_its_record_is_durable(opened: OpenQueue, clock: ManualClock, how: str) -> None:
    queue = await opened(max_timeouts=0)
    await queue.put([NewRow(key=b"a")])
    [claimed] = (await queue.claim()).claims
    events, told = queue.listen(), list[QueueEvent]()
    queue._runtime.events.tell = told.append  # type: ignore[method-assign]
    failed = [FailedClaim(claimed.token, "why", give_up=True)]
    if how == "lease":
        clock.advance(7200)
        call: Awaitable[object] = asyncio.ensure_future(queue.count())
    else:
        call = queue.fail(failed) if how == "fail" else queue.claim(0, fail=failed)
    while not queue._runtime.decisions.fold.deaths:
        await asyncio.sleep(0)
    assert queue._runtime.log.durable < queue._runtime.decisions.fold.sequence
    assert [event for event in told if event.kind == "dead"] == []
    await call
    [dead] = [event for event in told if event.kind == "dead"]
    assert (dead.key, dead.id, dead.reason) == (b"a", claimed.row.id, "timeouts" if how == "lease" else "given-up")
    assert events is not None


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_death_whose_record_fails_is_told_if_it_is_in_the_log(opened: OpenQueue, region: Region, arrives: bool) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"a")])
    [claimed] = (await queue.claim()).claims
    events = queue.listen()
    FailingAppends(region, DiskFull("It is full.", hint="Make room."), arrives=arrives)
    with pytest.raises(HeadwaterError):
        await queue.fail([FailedClaim(claimed.token, "why", give_up=True)])
    assert (await queue.count()).dead == arrives
    await queue.aclose()
    assert await dead_events(events) == ([(b"a", "given-up")] if arrives else [])


async def test_a_death_is_told_although_the_row_is_retried_before_its_record_is_durable(opened: OpenQueue) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"a")])
    [claimed] = (await queue.claim()).claims
    events = queue.listen()
    failed, dropped = queue.fail([FailedClaim(claimed.token, "why", give_up=True)]), queue._tell(lambda made: made.retry(claimed.row.id))
    await failed
    await dropped
    await queue.aclose()
    assert await dead_events(events) == [(b"a", "given-up")]


class Broken(str):
    """A text that cannot be encoded."""

    def encode(self, *given: object, **named: object) -> bytes:  # type: ignore[override]
        raise RuntimeError("never")


@pytest.mark.parametrize("how", ["fail", "claim", "put", "named put"])
async def test_a_call_that_raises_in_its_midst_changes_nothing(opened: OpenQueue, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"a"), NewRow(key=b"b"), NewRow(key=b"c")])
    claims = (await queue.claim(2)).claims
    before, put, puts = await queue.rows(), PutDecisions.put, list[object]()

    def second_raises(self: PutDecisions, new: CheckedRow) -> Put:
        puts.append(new)
        if len(puts) == 2:
            raise RuntimeError("never")
        return put(self, new)

    with pytest.raises(RuntimeError, match="never"):
        if how == "fail":
            await queue.fail([FailedClaim(claims[0].token, "why"), FailedClaim(claims[1].token, Broken("why"))])
        elif how == "claim":
            await queue.claim(done=[claims[0].token], fail=[FailedClaim(claims[1].token, Broken("why"))])
        else:
            monkeypatch.setattr(PutDecisions, "put", second_raises)
            await queue.put([NewRow(key=b"d"), NewRow(key=b"e")], idempotency="name" if how == "named put" else "")
    assert await queue.rows() == before
    assert await queue.done([claim.token for claim in claims]) == []
    monkeypatch.setattr(PutDecisions, "put", put)
    assert [one.outcome for one in await queue.put([NewRow(key=b"d"), NewRow(key=b"e")], idempotency="name")] == ["inserted", "inserted"]
    rows = await queue.rows()
    assert await (await opened()).rows() == rows


async def test_what_comes_by_itself_and_raises_is_tried_again(
    opened: OpenQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = await opened(lease=Duration(1000))
    await queue.put([NewRow(key=b"a"), NewRow(key=b"b")])
    await queue.claim(2)
    advance, raised = Decisions.advance, list[int]()

    def once(self: Decisions, most: int) -> bool:
        more = advance(self, 1 if not raised else most)
        if not raised:
            raised.append(1)
            raise RuntimeError("never")
        return more

    monkeypatch.setattr(Decisions, "advance", once)
    clock.advance(2)
    with pytest.raises(RuntimeError, match="never"):
        await queue.count()
    assert (await queue.count()).due == 2
    assert [row.timeout_counter for row in await (await opened()).rows()] == [1, 1]


async def test_a_refusal_leaves_the_fold_as_it_is(opened: OpenQueue) -> None:
    queue = await opened()
    fold = queue._runtime.decisions.fold
    with pytest.raises(NotFound):
        await queue.cancel(b"none")
    assert queue._runtime.decisions.fold is fold
    assert not queue._runtime.log.broken
    await queue.put([NewRow(key=b"a")])
    assert queue._runtime.decisions.fold is fold

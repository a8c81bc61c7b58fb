from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.unit.queue.conftest import TABLE, FailingAppends, OpenQueue
from tests.until import until

from headwater.core.errors import BadInput, Closed, Conflict, DiskFull, Fenced, NotFound, OutcomeUnknown, Paused, TooLarge
from headwater.core.period import Period
from headwater.core.units import Duration
from headwater.queue.queue import Queue
from headwater.queue.row import NewRow
from headwater.queue.values import Claimed, Counts, FailedClaim
from headwater.testing.clock import ManualClock
from headwater.wal.region import Region

pytestmark = pytest.mark.anyio


async def put(queue: Queue, key: bytes, data: bytes = b"1", **given: Any) -> str:
    [put] = await queue.put([NewRow(key=key, data=data, **given)])
    return put.outcome


async def claim(queue: Queue, n: int = 1, **given: Any) -> list[str]:
    """The tokens of claimed rows."""
    return [claimed.token for claimed in (await queue.claim(n, **given)).claims]


async def keys(queue: Queue, n: int = 10, **given: Any) -> list[bytes]:
    return [claimed.row.key for claimed in (await queue.claim(n, **given)).claims]


# -- putting and claiming ---------------------------------------------------------------------------------------------------


async def test_a_row_is_put_claimed_and_done(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    now = clock.now_ms()
    [inserted] = await queue.put([NewRow(key=b"a", data=b'{"why": 1}')])
    assert (inserted.outcome, inserted.process_date, inserted.raised) == ("inserted", now, False)
    [claimed] = (await queue.claim(worker="w", lease=1000)).claims
    assert (claimed.row.id, claimed.row.key, claimed.row.data, claimed.row.status) == (inserted.id, b"a", b'{"why": 1}', "P")
    assert (claimed.row.attempts, claimed.row.worker, claimed.lease_until) == (1, "w", now + 1000)
    assert await queue.done([claimed.token]) == []
    assert await queue.done([claimed.token]) == [claimed.token]
    assert await queue.count() == Counts(0, 0, 0, 0, 0)


async def test_rows_come_by_priority_then_process_date_then_insertion(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    now = clock.now_ms()
    rows = [("later", 10, 5), ("d", 100, 0), ("c", 10, 0), ("b", 10, 0), ("first", 10, 0), ("a", 0, 0)]
    for name, priority, delay in rows:
        date = now + delay if name != "first" else now - 7
        await queue.put([NewRow(key=name.encode(), priority=priority, process_date=date, insertion_date=now - 10)])
    assert await keys(queue) == [b"a", b"first", b"c", b"b", b"d"]
    clock.advance(0.005)
    assert await keys(queue) == [b"later"]


async def test_puts_of_one_key_merge_and_a_put_while_it_is_processed_follows(opened: OpenQueue) -> None:
    queue = await opened()
    assert [await put(queue, b"a", data) for data in (b"1", b"2")] == ["inserted", "merged"]
    [token] = await claim(queue)
    assert [await put(queue, b"a", data) for data in (b"3", b"4")] == ["follow-up", "merged"]
    assert await keys(queue) == []
    assert await queue.count() == Counts(0, 0, 1, 1, 0)
    assert await queue.done([token]) == []
    [claimed] = (await queue.claim()).claims
    assert (claimed.row.data, claimed.row.attempts) == (b"4", 1)


async def test_a_put_of_many_rows_is_one_record(opened: OpenQueue, region: Region) -> None:
    queue = await opened()
    puts = await queue.put([NewRow(key=b"%d" % (number % 40)) for number in range(500)])
    assert [put.outcome for put in puts].count("inserted") == 40
    assert region.sequence_num(1) == 1
    assert len(await keys(queue, 100)) == 40


async def test_an_older_put_changes_nothing(opened: OpenQueue, clock: ManualClock, region: Region) -> None:
    queue = await opened()
    now = clock.now_ms()
    await put(queue, b"a", b"new")
    assert await put(queue, b"a", b"old", insertion_date=now - 1) == "stale"
    assert await put(queue, b"a", b"same", insertion_date=now) == "merged"
    assert (await queue.get(b"a")).data == b"same"
    assert region.sequence_num(1) == 2


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (NewRow(key=b""), "needs a key"),
        (NewRow(key=b"a", priority=256), "priority 256"),
        (NewRow(key=b"a", process_date=5, delay=5), "a process date and a delay"),
        (NewRow(key=b"a", insertion_date=1_700_000_300_001), "ahead of the server's clock"),
        (NewRow(key=b"a", expiration_date=-1), "expiration_date -1"),
    ],
)
async def test_one_bad_row_refuses_all(opened: OpenQueue, row: NewRow, said: str) -> None:
    queue = await opened()
    with pytest.raises(BadInput, match=said):
        await queue.put([NewRow(key=b"good"), row])
    with pytest.raises(NotFound, match="good"):
        await queue.get(b"good")


async def test_rows_that_the_log_cannot_take_are_refused(opened: OpenQueue, region: Region) -> None:
    queue = await opened()
    with pytest.raises(TooLarge, match="bytes"):
        await queue.put([NewRow(key=b"a", data=bytes(region.limit))])
    assert await put(queue, b"a", bytes(region.limit - 17_000)) == "inserted"


# -- leases -------------------------------------------------------------------------------------------------------------------


async def test_at_the_end_of_its_lease_a_claim_counts_and_behind_it_not(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    await put(queue, b"a")
    [token] = await claim(queue, lease=1000)
    await clock.run(1)
    assert (await queue.get(b"a")).status == "P"
    assert await queue.extend([token], 1000) == []
    await clock.run(1.001)
    row = await queue.get(b"a")
    assert (row.status, row.timeout_counter) == ("W", 1)
    assert await queue.extend([token], 1000) == [token]
    assert await queue.done([token]) == [token]
    assert (await queue.get(b"a")).status == "W"


async def test_the_date_decides_also_where_no_alarm_has_rung(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    await put(queue, b"a")
    [token] = await claim(queue, lease=1000)
    clock._now += 2  # type: ignore[attr-defined]  # as when the machine's date is set
    assert await queue.done([token]) == [token]


async def test_a_row_that_loses_its_lease_too_often_dies_once(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened(max_timeouts=2)
    heard = queue.listen()
    events = (event async for event in heard if event.kind != "counts")
    await put(queue, b"a", b"poison")
    for _ in range(3):
        assert await claim(queue, lease=10, worker="w")
        await clock.run(0.011)
    [dead] = await queue.dead_list()
    assert (dead.row.data, dead.reason, dead.row.timeout_counter, dead.worker) == (b"poison", "timeouts", 3, "w")
    while (event := await anext(events)).kind == "due":
        assert event.count == 1
    assert (event.kind, event.key, event.reason) == ("dead", b"a", "timeouts")
    assert await keys(queue) == []
    assert (await queue.count()).dead == 1


async def test_failures_retry_later_and_give_up_at_last(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened(max_attempts=2)
    await put(queue, b"a")
    [token] = await claim(queue)
    assert await queue.fail([FailedClaim(token, "no network", 1000)]) == []
    row = await queue.get(b"a")
    assert (row.status, row.error, row.failures, row.process_date) == ("W", "no network", 1, clock.now_ms() + 1000)
    clock.advance(1)
    assert await queue.fail([FailedClaim(token, "late")]) == [token]
    assert await queue.fail([FailedClaim((await claim(queue))[0], "again")]) == []
    [dead] = await queue.dead_list(reason="attempts")
    assert (dead.error, dead.row.failures) == ("again", 2)
    [again] = await queue.dead_retry([dead.row.id])
    assert again.outcome == "inserted"
    assert (await queue.get(b"a")).failures == 0
    assert await queue.dead_list() == []


async def test_dead_rows_are_shown_dropped_and_retried_by_filter(opened: OpenQueue) -> None:
    queue = await opened()
    await queue.put([NewRow(key=key) for key in (b"a:1", b"a:2", b"b:1")])
    await queue.fail([FailedClaim(token, "no", give_up=True) for token in await claim(queue, 3)])
    dead = await queue.dead_list()
    assert [one.reason for one in dead] == ["given-up"] * 3
    assert (await queue.dead_get(dead[0].row.id)) == dead[0]
    assert await queue.dead_drop(prefix=b"a:") == 2
    with pytest.raises(NotFound, match="no dead row"):
        await queue.dead_drop([dead[0].row.id, dead[2].row.id])
    await put(queue, b"b:1", b"newer")
    assert [put.outcome for put in await queue.dead_retry()] == ["merged"]
    assert (await queue.get(b"b:1")).timeout_counter == 0


async def test_an_expired_row_is_hidden_from_its_date_on(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    now = clock.now_ms()
    for key in (b"a", b"b", b"taken"):
        await put(queue, key, expiration_date=now + 1000, priority=0 if key == b"taken" else 100)
    [token] = await claim(queue, lease=3000)
    clock._now += 0.999  # type: ignore[attr-defined]
    assert (await queue.get(b"a")).key == b"a"
    clock._now += 0.001  # type: ignore[attr-defined]
    with pytest.raises(NotFound):
        await queue.get(b"a")
    assert [row.key for row in await queue.rows()] == [b"taken"]
    assert await put(queue, b"b") == "inserted"
    assert await queue.release([token]) == []  # it was its owner's; now it is gone
    assert [row.key for row in await queue.rows()] == [b"b"]
    assert queue.statistics().expired == 3


async def test_slow_rows_wait_while_their_group_has_others(opened: OpenQueue) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"slow", priority=200), NewRow(key=b"fast", priority=199)])
    [fast] = (await queue.claim(2)).claims
    assert fast.row.key == b"fast"
    assert await keys(queue) == []
    assert await keys(queue, group="other") == [b"slow"]
    await put(queue, b"slower", priority=255)
    assert await keys(queue, done=[fast.token]) == [b"slower"]


# -- one call for many things ---------------------------------------------------------------------------------------------------


async def test_a_claim_tells_what_became_of_others_and_a_stale_token_spoils_nothing(opened: OpenQueue, region: Region) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"%d" % number) for number in range(5)])
    tokens = await claim(queue, 4)
    before = region.sequence_num(1)
    claimed = await queue.claim(
        1, done=[tokens[0], "0-77"], fail=[FailedClaim(tokens[1], "no", 1000)], extend=[tokens[2], "x"], release=[tokens[3]], lease=500
    )
    assert claimed.stale == ["0-77", "x"]
    assert [one.row.key for one in claimed.claims] == [b"3"]
    assert region.sequence_num(1) == before + 1
    states = {row.key: (row.status, row.failures) for row in await queue.rows()}
    assert states == {b"1": ("W", 1), b"2": ("P", 0), b"3": ("P", 0), b"4": ("W", 0)}


async def test_a_claim_waits_for_a_put_a_date_a_release_and_a_lost_lease(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    waiting = asyncio.ensure_future(queue.claim(wait=10_000, lease=2000))
    await asyncio.sleep(0)
    await put(queue, b"a", delay=500)
    await clock.run(0.499)
    assert not waiting.done()
    await clock.run(0.001)
    [first] = (await waiting).claims
    waiting = asyncio.ensure_future(queue.claim(wait=10_000, lease=50))
    await clock.run(0.1)
    await queue.release([first.token])
    [second] = (await waiting).claims
    assert second.row.attempts == 2
    waiting = asyncio.ensure_future(queue.claim(wait=10_000))
    await clock.run(0.05)
    assert not waiting.done()
    await clock.run(0.002)
    assert [one.row.timeout_counter for one in (await waiting).claims] == [1]


async def test_waiting_claims_are_served_in_their_order_by_one_record(opened: OpenQueue, region: Region) -> None:
    queue = await opened()
    waiting = [asyncio.ensure_future(queue.claim(wait=10_000, worker=f"{number}")) for number in range(4)]
    await asyncio.sleep(0)
    await queue.put([NewRow(key=b"%d" % number) for number in range(3)])
    served = [await one for one in waiting[:3]]
    assert [[one.row.key for one in claimed.claims] for claimed in served] == [[b"0"], [b"1"], [b"2"]]
    assert region.sequence_num(1) == 2
    waiting[3].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert queue.statistics().waiting_claims == 0


async def test_a_wait_that_is_over_brings_nothing(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    waiting = asyncio.ensure_future(queue.claim(wait=1000))
    await clock.run(1)
    assert await waiting == Claimed([], [])
    assert await queue.claim() == Claimed([], [])


async def test_a_claim_whose_caller_has_gone_is_released(opened: OpenQueue) -> None:
    queue = await opened()
    waiting = asyncio.ensure_future(queue.claim(wait=10_000))
    await asyncio.sleep(0)
    await put(queue, b"a")
    waiting.cancel()  # the claim may be under way
    await asyncio.gather(waiting, return_exceptions=True)
    assert await keys(queue, wait=60_000) == [b"a"]
    await put(queue, b"b")

    async def call() -> Claimed:
        return await queue.claim()

    direct = asyncio.ensure_future(call())
    await asyncio.sleep(0)
    direct.cancel()
    await asyncio.gather(direct, return_exceptions=True)
    assert await keys(queue, wait=60_000) == [b"b"]


async def test_idle_and_with_nothing_dated_a_queue_sets_no_alarm(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    await queue.mark()
    waiting = asyncio.ensure_future(queue.claim(wait=10_000))
    await asyncio.sleep(0)
    await put(queue, b"a")
    [claimed] = (await waiting).claims
    await queue.done([claimed.token])
    await queue.mark()
    await clock.run(30)
    assert not [alarm for _, _, alarm in clock._alarms if not alarm.cancelled]


# -- pausing -------------------------------------------------------------------------------------------------------------------


async def test_a_paused_queue_takes_rows_and_gives_out_none(opened: OpenQueue) -> None:
    queue = await opened()
    await put(queue, b"a")
    [token] = await claim(queue)
    await queue.pause()
    await put(queue, b"b")
    with pytest.raises(Paused, match="resume pages"):
        await queue.claim(done=[token])
    assert [row.key for row in await queue.rows()] == [b"b"]
    queue = await opened()
    assert queue.paused
    waiting = asyncio.ensure_future(queue.claim(wait=10_000))
    await asyncio.sleep(0)
    await queue.resume()
    assert [one.row.key for one in (await waiting).claims] == [b"b"]


# -- by hand -------------------------------------------------------------------------------------------------------------------


async def test_rows_are_cancelled_listed_and_their_history_is_told(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    ids = [put.id for put in await queue.put([NewRow(key=b"a"), NewRow(key=b"b", delay=5000), NewRow(key=b"ab")])]
    assert [row.key for row in await queue.rows(prefix=b"a")] == [b"a", b"ab"]
    assert [row.key for row in await queue.rows(after=ids[0], limit=1)] == [b"b"]
    assert [row.key for row in await queue.rows(state="future")] == [b"b"]
    assert (await queue.get(ids[2])).key == b"ab"
    assert (await queue.cancel(b"b")).id == ids[1]
    with pytest.raises(NotFound):
        await queue.cancel(b"b")
    [token] = await claim(queue)
    with pytest.raises(Conflict, match="being processed"):
        await queue.cancel(b"a")
    await queue.done([token])
    assert [entry.change for entry in await queue.history(b"a")] == ["insert", "claim", "done"]
    assert [entry.change for entry in await queue.history(b"b")] == ["insert", "cancel"]
    with pytest.raises(NotFound):
        await queue.get(ids[0])


# -- restarts and failures -------------------------------------------------------------------------------------------------------


async def test_a_restart_finds_everything(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"%d" % number, priority=number) for number in range(5)])
    tokens = await claim(queue, 3, lease=1000)
    await queue.done(tokens[:1])
    await put(queue, b"1", b"follows")
    rows = await queue.rows()
    queue = await opened()
    assert await queue.rows() == rows
    assert await queue.done(tokens[1:2]) == []
    await clock.run(1.001)
    assert {row.key: row.timeout_counter for row in await queue.rows()} == {b"1": 0, b"2": 1, b"3": 0, b"4": 0}


@pytest.mark.parametrize("arrives", [False, True])
async def test_after_a_failed_append_the_queue_is_what_the_log_says(opened: OpenQueue, region: Region, arrives: bool) -> None:
    queue = await opened()
    await put(queue, b"before")
    waiting = asyncio.ensure_future(queue.claim(2, wait=60_000, group="g", done=["0-0"]))
    first = (await waiting).claims
    waiting = asyncio.ensure_future(queue.claim(2, wait=60_000))
    await asyncio.sleep(0)
    FailingAppends(region, OutcomeUnknown("?"), arrives=arrives)
    calls = [asyncio.ensure_future(put(queue, key)) for key in (b"a", b"b")]
    looking = asyncio.ensure_future(queue.rows())
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(outcome, Exception) for outcome in outcomes)
    found = {row.key for row in await looking}
    assert found >= {b"before"}
    assert (b"a" in found) == arrives
    assert await queue.done([first[0].token]) == []
    await put(queue, b"after")
    served = (await waiting).claims
    assert served[0].row.key == (b"a" if arrives else b"after")
    again = await opened()
    assert {row.key for row in await again.rows()} == ({b"a", b"b", b"after"} & found | {b"after"})


async def test_a_full_disk_changes_nothing(opened: OpenQueue, region: Region) -> None:
    queue = await opened()
    FailingAppends(region, DiskFull("full"), arrives=False)
    with pytest.raises(DiskFull):
        await put(queue, b"a")
    assert await queue.rows() == []
    assert await put(queue, b"a") == "inserted"


async def test_a_queue_that_another_process_has_taken_is_fenced(opened: OpenQueue, region: Region) -> None:
    queue = await opened()
    waiting = asyncio.ensure_future(queue.claim(wait=60_000))
    await asyncio.sleep(0)
    FailingAppends(region, Fenced("taken"), arrives=False)
    with pytest.raises(Fenced):
        await put(queue, b"a")
    with pytest.raises(Fenced):
        await waiting
    with pytest.raises(Fenced):
        await queue.rows()
    with pytest.raises(Fenced):
        await put(queue, b"b")


async def test_a_closed_queue_refuses_calls_and_ends_waits(opened: OpenQueue) -> None:
    queue = await opened()
    waiting = asyncio.ensure_future(queue.claim(wait=60_000))
    await asyncio.sleep(0)
    await queue.aclose()
    with pytest.raises(Closed):
        await waiting
    for call in (queue.put([NewRow(key=b"a")]), queue.claim(), queue.rows(), queue.done(["0-1"])):
        with pytest.raises(Closed):
            await call
    await queue.aclose()
    assert cast(Any, queue)._runtime.log.broken


async def test_more_rows_than_one_record_claims_are_refused_at_once(opened: OpenQueue) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"a")])
    for n in (10_001, 2_000_000, -1):
        with pytest.raises(BadInput, match="cannot be claimed"):
            await queue.claim(n)
    assert len((await queue.claim(10_000)).claims) == 1


async def test_a_declaration_that_is_none_is_refused_and_costs_nothing(opened: OpenQueue) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"a")])
    free = len(queue._runtime.decisions.fold.columns.free)
    for version in (-1, 65_536, "1"):
        for rows in ([NewRow(key=b"b", declaration=version)], [NewRow(key=b"b"), NewRow(key=b"c", declaration=version)]):  # type: ignore[arg-type]
            with pytest.raises(BadInput, match="declaration"):
                await queue.put(rows)
    assert len(queue._runtime.decisions.fold.columns.free) == free
    assert len(await queue.rows()) == 1


@pytest.mark.parametrize("again", ["opened", "folded anew"])
async def test_a_rate_goes_on_where_it_was(opened: OpenQueue, region: Region, clock: ManualClock, again: str) -> None:
    limits = {"rate": 3, "rate_period": Duration(3_600_000), "period": Period("hour")}
    queue = await opened(**limits)
    await queue.put([NewRow(key=b"%d" % number) for number in range(9)])
    await queue.done([claim.token for claim in (await queue.claim(2)).claims])
    await clock.run(1800)
    [late] = (await queue.claim(5)).claims
    await queue.done([late.token])
    await clock.run(60)
    await queue.mark()
    await region.clean()
    if again == "opened":
        queue = await opened(**limits)
    else:
        queue._runtime.log.break_fold()
    assert (await queue.claim(5)).claims == []
    await clock.run(1739)
    assert (await queue.claim(5)).claims == []
    await clock.run(1)
    assert len((await queue.claim(5)).claims) == 2
    assert (await queue.claim(5)).claims == []
    await clock.run(1800)
    assert len((await queue.claim(5)).claims) == 1


async def test_a_drained_queue_with_a_rate_keeps_its_records_for_the_period_of_the_rate_only(
    opened: OpenQueue, region: Region, clock: ManualClock
) -> None:
    queue = await opened(rate=3, rate_period=Duration(3_600_000))
    marked = lambda: region.look(lambda meta: meta.tables[TABLE].marked)  # noqa: E731
    await queue.put([NewRow(key=b"a")])
    await queue.done([(await queue.claim()).claims[0].token])
    await clock.run(60)
    await until(lambda: marked() == 2)
    await clock.run(3600)
    await until(lambda: marked() == 4)

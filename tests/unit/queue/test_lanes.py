from __future__ import annotations

import asyncio

import pytest
from tests.unit.queue.conftest import OpenQueue

from headwater.core.units import Duration
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.queue import Queue
from headwater.queue.row import NewRow
from headwater.queue.schedule import Schedule
from headwater.queue.values import FailedClaim
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio


async def put(queue: Queue, *names: str) -> None:
    """Rows of the lanes that begin their names; `-` is no lane."""
    await queue.put([NewRow(key=name.encode(), lane=b"" if name[0] == "-" else name[:1].encode()) for name in names])


async def claim(queue: Queue, n: int = 10) -> dict[str, str]:
    """Tokens by keys."""
    return {claimed.row.key.decode(): claimed.token for claimed in (await queue.claim(n)).claims}


async def test_rows_of_a_lane_come_in_their_order_one_after_the_other(opened: OpenQueue) -> None:
    queue = await opened()
    await put(queue, "a1", "a2", "a3", "b1")
    first = await claim(queue)
    assert list(first) == ["a1", "b1"]
    assert await claim(queue) == {}
    assert (await queue.count()).due == 2
    await queue.release([first["b1"]])
    await queue.done([first["a1"]])
    assert set(await claim(queue)) == {"a2", "b1"}


async def test_so_many_rows_of_a_lane_as_the_settings_say(opened: OpenQueue) -> None:
    queue = await opened(lane_concurrency=2)
    await put(queue, "a1", "a2", "a3")
    assert list(await claim(queue)) == ["a1", "a2"]
    queue.change_settings(queue._runtime.decisions.settings.__class__(lane_concurrency=3))
    assert list(await claim(queue)) == ["a3"]


async def test_lanes_of_one_priority_come_in_turn_and_rows_without_a_lane_are_one_of_them(opened: OpenQueue) -> None:
    queue = await opened(lane_concurrency=100)
    await put(queue, *(f"a{number}" for number in range(6)), "b0", "-0", "b1", "-1", "b2", "-2")
    order = list(await claim(queue, 12))
    assert [sorted(name[0] for name in order[at : at + 3]) for at in (0, 3, 6)] == [["-", "a", "b"]] * 3
    assert [name for name in order if name[0] == "a"] == [f"a{number}" for number in range(6)]


async def test_a_smaller_priority_comes_first_whosever_turn_it_is(opened: OpenQueue) -> None:
    queue = await opened()
    await put(queue, "a1", "b1")
    await queue.put([NewRow(key=b"c1", lane=b"c", priority=5), NewRow(key=b"b2", lane=b"b", priority=1), NewRow(key=b"-1", priority=7)])
    assert list(await claim(queue)) == ["b2", "c1", "-1", "a1"]


async def test_lanes_are_as_they_were_after_a_restart_and_none_stays_without_rows(opened: OpenQueue) -> None:
    queue = await opened()
    await put(queue, "a1", "a2", "b1")
    taken = await claim(queue)
    queue = await opened()
    assert await claim(queue) == {}
    await queue.done(list(taken.values()))
    taken = await claim(queue)
    assert set(taken) == {"a2"}
    await queue.done(list(taken.values()))
    assert queue._runtime.decisions.fold.order.lanes.by_name == {}


async def test_a_queue_processes_no_more_rows_at_once_than_its_concurrency(opened: OpenQueue) -> None:
    queue = await opened(concurrency=2)
    await put(queue, "-1", "-2", "-3")
    first = await claim(queue)
    assert list(first) == ["-1", "-2"]
    waiting = asyncio.ensure_future(queue.claim(wait=60_000))
    await asyncio.sleep(0)
    await queue.done([first["-1"]])
    assert [claimed.row.key for claimed in (await waiting).claims] == [b"-3"]


async def test_a_queue_gives_out_no_more_rows_in_a_period_than_its_rate(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened(rate=2)
    await put(queue, *(f"-{number}" for number in range(5)))
    assert list(await claim(queue)) == ["-0", "-1"]
    await clock.run(0.5)
    assert await claim(queue) == {}
    waiting = asyncio.ensure_future(queue.claim(5, wait=60_000))
    await clock.run(0.499)
    assert not waiting.done()
    await clock.run(0.002)
    assert [claimed.row.key for claimed in (await waiting).claims] == [b"-2", b"-3"]


async def test_a_row_that_goes_over_to_another_lane_stands_in_that_one_alone(opened: OpenQueue) -> None:
    queue = await opened(lane_concurrency=10)
    await put(queue, "-1", "-2", "a1", "a2")
    first = await claim(queue, 2)
    assert list(first) == ["-1", "a1"]
    await queue.release(list(first.values()))  # they come before the others, which wait already
    await queue.put([NewRow(key=b"-1", lane=b"a")])
    assert sorted(await claim(queue)) == ["-1", "-2", "a1", "a2"]
    assert (await queue.count()).due == 0


@pytest.mark.parametrize("how", ["fail", "release", "lease"])
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_row_that_comes_back_keeps_its_place_in_its_lane(opened: OpenQueue, clock: ManualClock, how: str, restarts: bool) -> None:
    queue = await opened(lease=Duration(10_000))
    await put(queue, "a1", "a2", "b1")
    await queue.put([NewRow(key=b"first", lane=b"a", priority=1, delay=1000)])
    taken = await claim(queue)
    assert set(taken) == {"a1", "b1"}
    await queue.done([taken["b1"]])
    if how == "fail":
        await queue.fail([FailedClaim(taken["a1"], "no", 5000)])
    elif how == "release":
        await queue.release([taken["a1"]], 5000)
    else:
        clock.advance(11)
    if how != "lease":
        assert await claim(queue) == {}
        clock.advance(4)
        if restarts:
            queue = await opened()
        assert await claim(queue) == {}
        clock.advance(1)
    elif restarts:
        queue = await opened()
    taken = await claim(queue)
    assert list(taken) == ["a1"]
    await queue.done(list(taken.values()))
    assert list(await claim(queue)) == ["first"]


@pytest.mark.parametrize("how", ["dead", "cancelled", "expired", "other lane", "at once", "more at once"])
async def test_a_lane_goes_on_without_the_row_that_it_waited_for(opened: OpenQueue, clock: ManualClock, how: str) -> None:
    queue, now = await opened(), clock.now_ms()
    await queue.put([NewRow(key=b"a1", lane=b"a", expiration_date=now + 2000 if how == "expired" else 0), NewRow(key=b"a2", lane=b"a")])
    [token] = (await claim(queue)).values()
    await queue.fail([FailedClaim(token, "no", 5000, give_up=how == "dead")])
    if how == "cancelled":
        await queue.cancel(b"a1")
    elif how == "expired":
        clock.advance(2)
    elif how == "other lane":
        await queue.put([NewRow(key=b"a1", lane=b"b", delay=10_000)])
    elif how == "at once":
        await queue.run(b"a1")
    elif how == "more at once":
        assert await claim(queue) == {}
        queue.change_settings(EffectiveSettings(lane_concurrency=2))
    assert list(await claim(queue)) == (["a1"] if how == "at once" else ["a2"])


async def test_the_next_run_of_a_row_keeps_no_lane_back(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"a1", lane=b"a", schedule=Schedule(every=60_000)), NewRow(key=b"a2", lane=b"a", delay=70_000)])
    clock.advance(60)
    for failed in (True, False):
        [token] = (await claim(queue)).values()
        await (queue.fail([FailedClaim(token)]) if failed else queue.done([token]))
    clock.advance(10)
    assert list(await claim(queue)) == ["a2"]


async def test_with_several_at_once_the_others_of_a_lane_go_on(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened(lane_concurrency=2)
    await put(queue, "a1", "a2", "a3")
    taken = await claim(queue)
    await queue.fail([FailedClaim(taken["a1"], "no", 5000)])
    assert list(await claim(queue)) == ["a3"]
    await queue.done([taken["a2"]])
    clock.advance(5)
    queue.change_settings(EffectiveSettings(lane_concurrency=1))
    await queue.release(list((await claim(queue)).values()))
    await put(queue, "a4")
    queue.change_settings(EffectiveSettings(lane_concurrency=2))
    assert list(await claim(queue)) == ["a1"]

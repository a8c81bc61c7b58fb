"""Rows that wait for others: the graph, and rows with `after` in an open queue. The model has the rest, in `test_fold`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.queue.conftest import OpenQueue

from headwater.core.errors import BadInput, NotFound
from headwater.queue import carry
from headwater.queue.dependencies import DOOMED, Dependencies
from headwater.queue.queue import Queue
from headwater.queue.row import NewRow
from headwater.queue.schedule import Schedule
from headwater.queue.values import Counts, FailedClaim
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio


async def put(queue: Queue, key: str, after: Sequence[int] = (), **given: Any) -> int:
    """Put a row; return its id."""
    [made] = await queue.put([NewRow(key=key.encode(), after=tuple(after), **given)])
    return made.id


async def run(queue: Queue, n: int = 10) -> list[str]:
    """Claim what is due, and do it: the keys."""
    claimed = (await queue.claim(n)).claims
    assert await queue.done([one.token for one in claimed]) == []
    return [one.row.key.decode() for one in claimed]


async def give_up(queue: Queue) -> int:
    """Claim the first row, and give it up: its id."""
    [claimed] = (await queue.claim()).claims
    assert await queue.fail([FailedClaim(claimed.token, "no", give_up=True)]) == []
    return claimed.row.id


async def held(queue: Queue) -> dict[str, tuple[int, ...]]:
    """For whom the held rows wait."""
    return {row.key.decode(): row.after for row in await queue.rows(state="held")}


# -- the graph ----------------------------------------------------------------------------------------------------------


def test_a_row_is_let_go_when_the_last_of_those_it_waits_for_is_gone() -> None:
    graph = Dependencies()
    graph.add(7, [1, 2], cancels=False)
    graph.add(8, [2], cancels=False)
    assert graph.gone(2, failed=False) == [8]
    assert graph.gone(1, failed=True) == [7]
    assert (graph.after, graph.waiters) == ({}, {})


def test_a_row_that_failed_dooms_those_that_said_cancel() -> None:
    graph = Dependencies()
    graph.add(7, [1, 2], cancels=True)
    graph.add(8, [1, 2], cancels=False)
    assert graph.gone(1, failed=True) == []
    assert (graph.after, list(graph.waiters[DOOMED])) == ({7: {DOOMED}, 8: {2}}, [7])
    graph.forget(7)
    assert graph.gone(2, failed=False) == [8]
    assert (graph.after, graph.waiters, graph.cancels) == ({}, {}, set())


def test_those_that_wait_for_a_row_follow_it() -> None:
    graph = Dependencies()
    graph.add(7, [1, 5], cancels=False)
    graph.add(8, [1], cancels=False)
    graph.move(1, 5)
    assert graph.after == {7: {5}, 8: {5}}
    assert graph.gone(1, failed=False) == []
    assert graph.gone(5, failed=False) == [7, 8]


# -- an open queue ------------------------------------------------------------------------------------------------------


async def test_a_row_waits_until_the_others_are_gone(opened: OpenQueue) -> None:
    queue = await opened()
    a, b = await put(queue, "a"), await put(queue, "b")
    await put(queue, "c", [a, b], priority=0)
    assert await queue.count() == Counts(2, 0, 1, 0, 0)
    assert await held(queue) == {"c": (a, b)}
    assert (await queue.get(b"c")).after == (a, b)
    assert await run(queue) == ["a", "b"]
    assert await queue.count() == Counts(1, 0, 0, 0, 0)
    assert await run(queue) == ["c"]


async def test_ids_of_rows_that_are_gone_count_as_gone_and_unknown_ones_are_refused(opened: OpenQueue) -> None:
    queue = await opened()
    a = await put(queue, "a")
    await run(queue)
    await put(queue, "b", [a, 0, 17])
    assert (await queue.count()).due == 1
    for never in (1 << 40, (a // 65536 + 50) * 65536):
        with pytest.raises(BadInput, match="never"):
            await put(queue, "c", [never])
    for bad in (-1, True, "1", 1.0, 1 << 64):
        with pytest.raises(BadInput, match="no id"):
            await put(queue, "c", [bad])  # type: ignore[list-item]
    with pytest.raises(BadInput, match="after_dead"):
        await put(queue, "c", [a], after_dead="wait")
    assert await queue.count() == Counts(1, 0, 0, 0, 0)


async def test_a_waiting_claim_gets_a_row_when_what_it_waits_for_is_done(opened: OpenQueue) -> None:
    queue = await opened()
    await put(queue, "b", [await put(queue, "a")])
    [claimed] = (await queue.claim()).claims
    waiting = asyncio.ensure_future(queue.claim(wait=60_000))
    await asyncio.sleep(0)
    assert await queue.done([claimed.token]) == []
    assert [one.row.key for one in (await waiting).claims] == [b"b"]


async def test_done_with_the_next_claim_brings_the_row_that_waited(opened: OpenQueue) -> None:
    queue = await opened()
    await put(queue, "b", [await put(queue, "a")])
    [claimed] = (await queue.claim()).claims
    again = await queue.claim(done=[claimed.token])
    assert [one.row.key for one in again.claims] == [b"b"]


async def test_a_date_counts_from_when_nothing_is_waited_for(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    await put(queue, "b", [await put(queue, "a")], delay=60_000)
    await run(queue)
    assert await queue.count() == Counts(0, 1, 0, 0, 0)
    clock.advance(60)
    assert await run(queue) == ["b"]


async def test_a_dead_row_holds_those_that_wait_and_they_follow_it_when_it_is_retried(opened: OpenQueue) -> None:
    queue = await opened()
    a = await put(queue, "a")
    await put(queue, "b", [a])
    assert await give_up(queue) == a
    assert await queue.count() == Counts(0, 0, 1, 0, 1)
    queue = await opened()
    [again] = await queue.dead_retry([a])
    assert again.id != a
    assert await held(queue) == {"b": (again.id,)}
    queue = await opened()
    assert await run(queue) == ["a"]
    assert await run(queue) == ["b"]


async def test_a_dead_row_that_is_dropped_is_gone(opened: OpenQueue) -> None:
    queue = await opened()
    await put(queue, "b", [await put(queue, "a")])
    await queue.dead_drop([await give_up(queue)])
    assert await run(queue) == ["b"]


@pytest.mark.parametrize("how", ["died", "cancelled", "expired"])
async def test_after_dead_cancel_cancels_transitively(opened: OpenQueue, clock: ManualClock, how: str) -> None:
    queue = await opened()
    a = await put(queue, "a", expiration_date=clock.now_ms() + 1000)
    b = await put(queue, "b", [a], after_dead="cancel")
    c = await put(queue, "c", [b], after_dead="cancel")
    await put(queue, "hold", [c])
    await put(queue, "d", [c, await put(queue, "other", delay=1_000_000)], after_dead="cancel")
    if how == "died":
        await give_up(queue)
    elif how == "cancelled":
        await queue.cancel(b"a")
    else:
        clock.advance(2)
    for key in (b"b", b"c", b"d"):
        with pytest.raises(NotFound):
            await queue.get(key)
    assert await run(queue) == ["hold"]
    assert queue.statistics().cancelled == (4 if how == "cancelled" else 3)


async def test_hold_takes_a_cancelled_or_expired_row_for_gone(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    a, b = await put(queue, "a"), await put(queue, "b", expiration_date=clock.now_ms() + 1000)
    await put(queue, "c", [a, b])
    await queue.cancel(b"a")
    clock.advance(2)
    assert await run(queue) == ["c"]


async def test_a_row_put_after_a_dead_one_with_cancel_is_cancelled_at_once(opened: OpenQueue) -> None:
    queue = await opened()
    await put(queue, "a")
    await put(queue, "b", [await give_up(queue)], after_dead="cancel")
    assert await queue.count() == Counts(0, 0, 0, 0, 1)


async def test_what_was_to_be_cancelled_when_the_process_died_is_cancelled_by_the_next(opened: OpenQueue) -> None:
    queue = await opened()
    a = await put(queue, "a")
    await put(queue, "b", [a], after_dead="cancel")
    [claimed] = (await queue.claim()).claims
    runtime = queue._runtime
    decisions = runtime.begin(runtime.now_ms())
    assert decisions is not None
    decisions.fail([FailedClaim(claimed.token, "no", give_up=True)])
    runtime._settled = lambda: None  # type: ignore[method-assign]
    runtime.log.on_settled = lambda: None
    await runtime.commit(None, asyncio.sleep)  # type: ignore[arg-type]
    queue = await opened()
    assert await queue.count() == Counts(0, 0, 0, 0, 1)


async def test_a_merge_unites_the_sets(opened: OpenQueue) -> None:
    queue = await opened()
    a, b = await put(queue, "a"), await put(queue, "b")
    c = await put(queue, "c", [a])
    assert await put(queue, "c", [b]) == c
    assert await held(queue) == {"c": (a, b)}
    assert await put(queue, "c") == c
    assert await held(queue) == {"c": (a, b)}
    await put(queue, "b2", [b])
    assert await put(queue, "b2", [a], after_dead="cancel") > c
    await queue.cancel(b"a")
    assert await held(queue) == {"c": (b,)}


async def test_a_waiting_row_may_be_put_after_others_later(opened: OpenQueue) -> None:
    queue = await opened()
    b = await put(queue, "b")
    a = await put(queue, "a")
    assert await put(queue, "b", [a]) == b
    assert await queue.count() == Counts(1, 0, 1, 0, 0)
    assert await run(queue) == ["a"]
    assert await run(queue) == ["b"]


async def test_a_follow_up_row_waits_for_its_key_and_for_others(opened: OpenQueue) -> None:
    queue = await opened()
    await put(queue, "a")
    [first] = (await queue.claim()).claims
    b = await put(queue, "b", delay=1000)
    follow = await put(queue, "a", [b], data=b"2")
    assert follow != first.row.id
    assert await queue.count() == Counts(0, 1, 1, 1, 0)
    assert await queue.done([first.token]) == []
    assert await queue.count() == Counts(0, 1, 1, 0, 0)
    await queue.cancel(b"b")
    assert await run(queue) == ["a"]


async def test_those_that_wait_for_a_follow_up_wait_for_the_row_that_takes_it_up(opened: OpenQueue) -> None:
    queue = await opened()
    a = await put(queue, "a")
    [claimed] = (await queue.claim()).claims
    follow = await put(queue, "a", data=b"2")
    b = await put(queue, "b", [follow])
    z = await put(queue, "z", [a])
    await put(queue, "a", [z])
    assert await queue.release([claimed.token]) == []
    queue = await opened()
    assert await held(queue) == {"b": (a,), "z": (a,)}, "and it does not wait for those that wait for it"
    assert await run(queue) == ["a"]
    assert {row.id for row in await queue.rows(state="due")} == {b, z}


async def test_a_row_put_after_a_follow_up_that_was_taken_up_waits_for_the_row_that_has_done_so(opened: OpenQueue) -> None:
    queue = await opened()
    a = await put(queue, "a")
    [claimed] = (await queue.claim()).claims
    follow = await put(queue, "a", data=b"2")
    assert await queue.fail([FailedClaim(claimed.token, "why", 60_000)]) == []
    await put(queue, "b", [follow])
    assert await held(queue) == {"b": (a,)}
    with pytest.raises(BadInput, match="'a' waits for 'a'"):
        await put(queue, "a", [follow])
    queue = await opened()
    assert await held(queue) == {"b": (a,)}
    await queue.run(b"a")
    assert await run(queue) == ["a"]
    await put(queue, "c", [follow])
    assert await run(queue) == ["b", "c"]


async def test_a_retried_row_that_merges_does_not_wait_for_those_that_wait_for_it(opened: OpenQueue) -> None:
    queue = await opened()
    x = await put(queue, "k")
    z = await put(queue, "z", [x])
    await give_up(queue)
    other = await put(queue, "other", delay=1_000_000)
    w = await put(queue, "k", [z, x, other], data=b"newer")
    [again] = await queue.dead_retry([x])
    assert again.id == w
    queue = await opened()
    assert await held(queue) == {"z": (w,), "k": (other,)}


async def test_the_end_of_a_run_counts_as_gone(opened: OpenQueue) -> None:
    queue = await opened()
    a = await put(queue, "a", schedule=Schedule(every=3_600_000))
    await put(queue, "b", [a])
    assert await run(queue) == ["a"]
    assert (await queue.get(b"a")).id == a
    queue = await opened()
    assert await run(queue) == ["b"]


async def test_a_lane_goes_on_beside_a_row_that_waits(opened: OpenQueue) -> None:
    queue = await opened()
    a = await put(queue, "a")
    await put(queue, "first", [a], lane=b"l")
    await put(queue, "second", lane=b"l")
    assert sorted(await run(queue)) == ["a", "second"]
    assert await run(queue) == ["first"]


async def test_restarts_and_carries_keep_who_waits_for_whom(opened: OpenQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = await opened()
    a, b = await put(queue, "a", delay=1_000_000), await put(queue, "b", delay=1_000_000)
    await put(queue, "c", [a, b], after_dead="cancel")
    await put(queue, "d", [a])
    monkeypatch.setattr(carry, "SPARE_RECORDS", 0)
    for number in range(40):
        await put(queue, f"{number}")
        await run(queue)
    while queue._runtime._carrier._task is not None:
        await asyncio.sleep(0)
    await queue.mark()
    assert queue._runtime.decisions.fold.homes.first > 4
    queue = await opened()
    assert await held(queue) == {"c": (a, b), "d": (a,)}
    assert (await queue.get(b"c")).after_dead == "cancel"
    await queue.cancel(b"a")
    assert {row.key for row in await queue.rows()} == {b"b", b"d"}


async def test_history_tells_for_whom_a_row_was_put(opened: OpenQueue) -> None:
    queue = await opened()
    a = await put(queue, "a")
    await put(queue, "b", [a])
    assert f"after {a}" in (await queue.history(b"b"))[0].detail


async def test_many_wait_for_one_and_one_for_many(opened: OpenQueue) -> None:
    queue = await opened()
    a = await put(queue, "a")
    many = await queue.put([NewRow(key=b"%d" % number, after=(a,)) for number in range(10_000)])
    await put(queue, "last", [made.id for made in many])
    assert await queue.count() == Counts(1, 0, 10_001, 0, 0)
    assert await run(queue) == ["a"]
    assert [int(key) for key in await run(queue, 10_000)] == list(range(10_000)), "in the order of their insertion"
    assert await run(queue) == ["last"]


async def test_a_chain_of_many_is_cancelled_without_recursion(opened: OpenQueue) -> None:
    queue = await opened()
    last = await put(queue, "first")
    for number in range(1500):
        last = await put(queue, f"{number}", [last], after_dead="cancel")
    await queue.cancel(b"first")
    assert sum(await queue.count()) == 0
    queue = await opened()
    assert sum(await queue.count()) == 0

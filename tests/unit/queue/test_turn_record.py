"""Short calls of one turn of the event loop share a record, and lose nothing by it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.unit.queue.conftest import TABLE, FailingAppends, OpenQueue
from tests.unit.queue.played import state

from headwater.core.errors import DiskFull, Fenced, HeadwaterError, OutcomeUnknown
from headwater.queue import turn_record
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.fold import QueueFold
from headwater.queue.queue import Queue
from headwater.queue.queue_log import folded
from headwater.queue.quick import MOST_ROWS
from headwater.queue.records import NAMES, decode_record
from headwater.queue.row import NewRow
from headwater.queue.turn_record import MOST_CALLS
from headwater.testing.clock import ManualClock
from headwater.wal.region import Region

pytestmark = pytest.mark.anyio


def rows(*keys: bytes) -> list[NewRow]:
    return [NewRow(key=key) for key in keys]


def fold_of(queue: Queue) -> QueueFold:
    return cast(Any, queue)._runtime.decisions.fold  # type: ignore[no-any-return]


async def changes(region: Region) -> list[list[str]]:
    """The names of the changes of each record."""
    reader, found = region.read(TABLE), list[list[str]]()
    while entries := await reader.next_batch():
        found += [[NAMES[change.kind] for change in decode_record(entry.payload)[1]] for entry in entries]
    return found


async def test_calls_of_one_turn_share_a_record_and_those_of_another_do_not(opened: OpenQueue, region: Region, clock: ManualClock) -> None:
    queue = await opened()
    puts = [await put for put in [queue.put(rows(b"%d" % number)) for number in range(5)]]
    assert [put.id for (put,) in puts] == [65536 + number for number in range(5)]
    claims = [queue.claim(worker="w"), queue.put(rows(b"5")), queue.claim()]
    first, _, second = [await call for call in claims]
    tokens = [cast(Any, claimed).claims[0].token for claimed in (first, second)]
    finished = [queue.claim(done=tokens[:1]), queue.done(tokens[1:])]
    assert [cast(Any, await call) for call in finished][1] == []
    assert await changes(region) == [["insert"] * 5, ["insert", "claim", "claim"], ["done", "claim"]]
    again = await folded(region, TABLE, clock)
    assert state(again) == state(fold_of(queue))
    assert again.homes.records == fold_of(queue).homes.records == 3


async def test_rows_that_are_put_and_claimed_within_a_turn_are_found_by_a_restart(opened: OpenQueue, region: Region) -> None:
    queue = await opened()
    _, claiming = queue.put(rows(b"a")), queue.claim()
    (claimed,) = (await claiming).claims
    assert (claimed.row.key, await changes(region)) == (b"a", [["insert", "claim"]])
    queue = await opened()
    assert await queue.done([claimed.token]) == []
    assert await queue.count() == (0, 0, 0, 0, 0)


async def test_a_record_has_one_time(opened: OpenQueue, region: Region, clock: ManualClock) -> None:
    queue = await opened()
    calls = []
    for key in (b"a", b"b"):
        calls += [queue.put(rows(key)), queue.put(rows(key + key))]
        clock.advance(0.001)
    dates = [(await call)[0].process_date for call in calls]
    assert dates == [dates[0]] * 2 + [dates[0] + 1] * 2
    assert await changes(region) == [["insert"] * 2] * 2


async def test_other_calls_come_in_their_order(opened: OpenQueue, region: Region, clock: ManualClock) -> None:
    queue = await opened()
    calls = [queue.put(rows(b"a")), queue.put(rows(b"b", b"c")), queue.put(rows(b"d")), queue.put(rows(b"a"))]
    assert [[put.outcome for put in await call] for call in calls] == [["inserted"], ["inserted"] * 2, ["inserted"], ["merged"]]
    assert await changes(region) == [["insert"], ["insert"] * 2, ["insert"], ["merge"]]
    assert state(await folded(region, TABLE, clock)) == state(fold_of(queue))


async def test_a_full_record_is_followed_by_another(opened: OpenQueue, region: Region) -> None:
    queue = await opened()
    for call in [queue.put([NewRow(key=b"%01024d" % number, data=b"7" * 1024)]) for number in range(MOST_CALLS + 1)]:
        await call
    assert [len(names) for names in await changes(region)] == [MOST_CALLS, 1]


async def test_a_call_that_finds_nothing_leaves_no_record_open(opened: OpenQueue, region: Region) -> None:
    queue = await opened()
    claimed, counted = await asyncio.gather(queue.claim(), queue.count())
    assert (claimed.claims, counted.waiting, region.sequence_num(TABLE)) == ([], 0, 0)
    put, counted = await asyncio.gather(queue.put(rows(b"a")), queue.count())
    assert (put[0].outcome, counted.waiting, region.sequence_num(TABLE)) == ("inserted", 1, 1)


async def test_a_caller_that_gives_up_takes_no_other_along(opened: OpenQueue, region: Region) -> None:
    queue = await opened()

    async def put(key: bytes) -> str:
        return (await queue.put(rows(key)))[0].outcome

    tasks = [asyncio.create_task(put(key)) for key in (b"a", b"b", b"c")]
    await asyncio.sleep(0)
    tasks[1].cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["inserted", "", "inserted"]
    assert [row.key for row in await queue.rows()] == [b"a", b"b", b"c"]


async def test_a_claim_whose_caller_gives_up_within_the_turn_is_released(opened: OpenQueue) -> None:
    queue = await opened()
    await queue.put(rows(b"a", b"b"))

    async def claim() -> bytes:
        return (await queue.claim()).claims[0].row.key

    tasks = [asyncio.create_task(claim()) for _ in range(2)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert outcomes[1] == b"b"
    assert (await queue.claim()).claims[0].row.key == b"a"


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_record_that_fails_fails_all_its_calls_and_the_queue_goes_on(opened: OpenQueue, region: Region, arrives: bool) -> None:
    queue = await opened()
    await queue.put(rows(b"first"))
    FailingAppends(region, DiskFull("It is full.", hint="Make room."), arrives=arrives)
    calls = [queue.put(rows(b"a")), queue.put(rows(b"b")), queue.claim()]
    for call in calls:
        with pytest.raises(DiskFull):
            await call
    assert [row.key for row in await queue.rows()] == ([b"first", b"a", b"b"] if arrives else [b"first"])
    assert (await queue.claim()).claims[0].row.key == b"first"


async def test_what_is_open_when_the_log_breaks_is_told_so(opened: OpenQueue, region: Region) -> None:
    queue = await opened()
    log = cast(Any, queue)._runtime.log
    FailingAppends(region, DiskFull("It is full.", hint="Make room."), arrives=False)
    under_way = queue.put(rows(b"a"))
    await asyncio.wait([cast(Any, under_way)])
    assert log.broken
    waiting = asyncio.create_task(cast(Any, queue.put(rows(b"b"))))
    assert (await waiting)[0].outcome == "inserted"
    open_call = queue.put(rows(b"c"))
    cast(Any, region)._writer._appender.failure = DiskFull("It is full again.", hint="Make room.")
    with pytest.raises(DiskFull, match="again"):
        await open_call


async def test_settings_hold_for_the_calls_behind_them(opened: OpenQueue, region: Region) -> None:
    queue = await opened()
    await queue.put(rows(b"a", b"b", b"c"))
    first = queue.claim()
    queue.change_settings(EffectiveSettings(concurrency=1))
    second = queue.claim()
    assert (len((await first).claims), (await second).claims) == (1, [])


async def test_a_mark_comes_behind_the_record_that_is_open(opened: OpenQueue, region: Region) -> None:
    queue = await opened()
    await queue.put(rows(b"a"))
    (claimed,) = (await queue.claim()).claims
    done, marked = queue.done([claimed.token]), asyncio.create_task(queue.mark())
    await asyncio.gather(done, marked)
    assert region.look(lambda meta: meta.tables[TABLE].marked) == 4  # also the record of the done


async def test_a_token_counts_once_within_a_turn(opened: OpenQueue) -> None:
    queue = await opened()
    await queue.put(rows(b"a"))
    (claimed,) = (await queue.claim()).claims
    first, second, extended = queue.done([claimed.token]), queue.done([claimed.token]), queue.extend([claimed.token])
    assert (await first, await second, await extended) == ([], [claimed.token], [claimed.token])


async def test_whoever_looks_sees_what_was_called_before(opened: OpenQueue) -> None:
    queue = await opened()
    await queue.put(rows(b"a", b"b"))
    (claimed,) = (await queue.claim()).claims
    claiming, done = queue.claim(), queue.done([claimed.token])
    found = queue.statistics()
    assert (found.claims, found.done, found.counts.processing, found.counts.due) == (2, 1, 1, 0)
    put = queue.put(rows(b"a"))  # the row of its key is done
    assert ((await put)[0].outcome, await done, (await claiming).claims[0].row.key) == ("inserted", [], b"b")


async def test_follow_up_rows_and_those_that_wait_come_behind_the_done_row(opened: OpenQueue, region: Region, clock: ManualClock) -> None:
    queue = await opened()
    (put,) = await queue.put(rows(b"a"))
    (claimed,) = (await queue.claim()).claims
    await queue.put([NewRow(key=b"a", data=b"2")])
    await queue.put([NewRow(key=b"b", after=(put.id,))])
    done, claiming = queue.done([claimed.token]), queue.claim(2)
    assert await done == []
    assert sorted(one.row.key for one in (await claiming).claims) == [b"a", b"b"]
    assert state(await folded(region, TABLE, clock)) == state(fold_of(queue))


async def test_claims_of_several_workers_each_have_their_own(opened: OpenQueue, region: Region, clock: ManualClock) -> None:
    queue = await opened()
    await queue.put(rows(b"a", b"b", b"c"))
    claims = [queue.claim(worker=name, group=name) for name in ("x", "y", "x")]
    found = [(await call).claims[0].row for call in claims]
    assert [(row.key, row.worker, row.group) for row in found] == [(b"a", "x", "x"), (b"b", "y", "y"), (b"c", "x", "x")]
    assert await changes(region) == [["insert"] * 3, ["claim"] * 2]
    assert state(await folded(region, TABLE, clock)) == state(fold_of(queue))


async def test_rows_whose_data_are_on_the_log_are_claimed_with_them(opened: OpenQueue) -> None:
    queue = await opened(memory=0)
    await queue.put([NewRow(key=b"large", data=b"7" * 5000), NewRow(key=b"small")])
    claims = [queue.claim(), queue.claim()]
    assert [len((await call).claims[0].row.data) for call in claims] == [5000, 4]


async def test_calls_of_several_rows_share_a_record_too(opened: OpenQueue, region: Region, clock: ManualClock) -> None:
    queue = await opened()
    await queue.put(rows(*(b"%d" % number for number in range(9))))
    claims = [await call for call in [queue.claim(3, worker="w"), queue.claim(), queue.claim(2, worker="w")]]
    assert [[one.row.key for one in claimed.claims] for claimed in claims] == [[b"0", b"1", b"2"], [b"3"], [b"4", b"5"]]
    tokens = [[one.token for one in claimed.claims] for claimed in claims]
    last, done = queue.claim(9, done=[*tokens[0], *tokens[1]]), queue.done(tokens[2])
    assert ([one.row.key for one in (await last).claims], await done) == ([b"6", b"7", b"8"], [])
    assert await changes(region) == [["insert"] * 9, ["claim"] * 2, ["done", "claim"]]
    assert state(await folded(region, TABLE, clock)) == state(fold_of(queue))
    assert (await queue.count(), queue.statistics().done) == ((0, 0, 0, 3, 0), 6)


async def test_many_calls_of_many_rows_fit_into_a_record(opened: OpenQueue, region: Region) -> None:
    queue, count = await opened(), MOST_ROWS * MOST_CALLS
    await queue.put(rows(*(b"%d" % number for number in range(count))))
    claims = [await call for call in [queue.claim(MOST_ROWS) for _ in range(MOST_CALLS)]]
    assert [len(claimed.claims) for claimed in claims] == [MOST_ROWS] * MOST_CALLS
    done = [queue.done([one.token for one in claimed.claims]) for claimed in claims]
    assert [await call for call in done] == [[]] * MOST_CALLS
    assert (await changes(region))[1:] == [["claim"], ["done"]]


@pytest.mark.parametrize("odd", ["twice", "unknown"])
async def test_a_stale_token_among_several_spoils_nothing(opened: OpenQueue, odd: str) -> None:
    queue = await opened()
    await queue.put(rows(b"a", b"b", b"c"))
    tokens = [one.token for one in (await queue.claim(2)).claims]
    stale = tokens[0] if odd == "twice" else "9-9-9"
    claimed = await queue.claim(2, done=[*tokens, stale])
    assert ([one.row.key for one in claimed.claims], claimed.stale) == ([b"c"], [stale])


async def test_a_claim_of_several_rows_takes_them_in_their_order(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    await queue.put(rows(b"a", b"b", b"c"))
    await queue.put([NewRow(key=b"first", priority=1), NewRow(key=b"slow", priority=230)])
    await queue.put(rows(b"a"))  # merged: an entry of the order is passed over
    await queue.cancel(b"b")
    assert [one.row.key for one in (await queue.claim(9)).claims] == [b"first", b"a", b"c"]
    assert [one.row.key for one in (await queue.claim(9, group="other")).claims] == [b"slow"]


async def test_a_claim_of_several_rows_whose_caller_gives_up_is_released(opened: OpenQueue) -> None:
    queue = await opened()
    await queue.put(rows(b"a", b"b", b"c"))

    async def claim() -> None:
        await queue.claim(2)

    task = asyncio.create_task(claim())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert [one.row.key for one in (await queue.claim(3)).claims] == [b"a", b"b", b"c"]


async def test_calls_whose_changes_fail_are_told_so_and_the_queue_goes_on(opened: OpenQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = await opened()
    await queue.put(rows(b"a"))

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(turn_record, "claim_slots", fails)
        calls = [queue.put(rows(b"b")), queue.claim()]
        forsaken = cast(Any, calls[1])
        for call in calls:
            with pytest.raises(ZeroDivisionError):
                await call
        forsaken.recall()  # it has claimed nothing
    assert [row.key for row in await queue.rows()] == [b"a"]
    assert (await queue.claim()).claims[0].row.key == b"a"


async def test_callers_of_a_queue_that_another_process_takes_are_told_and_the_loop_goes_on(opened: OpenQueue, region: Region) -> None:
    """A failed append, and then a claim that is lost, while calls of several turns are under way and their callers try again at once."""
    queue, turns, told = await opened(), list[int](), list[type[Exception]]()
    await queue.put(rows(*(b"row %d" % number for number in range(4))))
    FailingAppends(region, OutcomeUnknown("Nobody knows.", hint="Read the end."), arrives=True)
    owned = cast(Any, region)._owned
    owned.renew = raising(Fenced("Another process has it.", hint="Open it again."))

    async def call(number: int) -> None:
        for tried in range(50):
            try:
                await queue.put(rows(b"%d-%d" % (number, tried)))
                await queue.claim(wait=60_000)
            except HeadwaterError as error:
                told.append(type(error))

    async def others() -> None:
        while True:
            turns.append(len(told))
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    async with asyncio.timeout(30):
        await asyncio.gather(*(call(number) for number in range(8)))
    beside.cancel()
    assert set(told) == {OutcomeUnknown, Fenced}
    assert len(told) == 8 * 50
    assert len(turns) > 50


def raising(error: Exception) -> Callable[[], None]:
    def raises() -> None:
        raise error

    return raises

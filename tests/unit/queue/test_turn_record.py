"""Short calls of one turn of the event loop share a record, and lose nothing by it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.unit.queue.conftest import TABLE, FailingAppends, OpenQueue
from tests.unit.queue.played import state

from headwater.core.errors import DiskFull
from headwater.queue.fold import QueueFold
from headwater.queue.queue import Queue
from headwater.queue.queue_log import folded
from headwater.queue.records import NAMES, decode_record
from headwater.queue.row import NewRow
from headwater.queue.settings import QueueSettings
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
    assert await changes(region) == [["insert"] * 5, ["claim", "insert", "claim"], ["done", "claim", "done"]]
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
    queue.change_settings(QueueSettings(concurrency=1))
    second = queue.claim()
    assert (len((await first).claims), (await second).claims) == (1, [])


async def test_a_mark_comes_behind_the_record_that_is_open(opened: OpenQueue, region: Region) -> None:
    queue = await opened()
    await queue.put(rows(b"a"))
    (claimed,) = (await queue.claim()).claims
    done, marked = queue.done([claimed.token]), asyncio.create_task(queue.mark())
    await asyncio.gather(done, marked)
    assert region.look(lambda meta: meta.tables[TABLE].marked) == 4  # also the record of the done

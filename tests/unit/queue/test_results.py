from __future__ import annotations

import asyncio

import pytest
from tests.unit.queue.conftest import FailingAppends, OpenQueue
from tests.unit.queue.decisions_ground import Ground

from headwater.core.errors import BadInput, HeadwaterError, NotFound, TooLarge, Unavailable
from headwater.queue import carry
from headwater.queue.checks import ROOM
from headwater.queue.queue import Queue
from headwater.queue.results import check_results, done_slices, find_result
from headwater.queue.row import NewRow
from headwater.queue.values import RowResult
from headwater.testing.clock import ManualClock
from headwater.wal.region import Region

pytestmark = pytest.mark.anyio
MIB = 1 << 20


async def turned(turns: int = 20) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def test_a_result_at_its_date_is_not_shown_before_it_is_forgotten() -> None:
    ground = Ground()
    put = ground.put()
    [token] = ground.claim()
    ground.call("done", [token], {token: RowResult(b"7")})
    assert find_result(ground.fold, put.id, ground.now + 3_599_999) == RowResult(b"7", 0, ground.now + 3_600_000)
    with pytest.raises(NotFound):
        find_result(ground.fold, put.id, ground.now + 3_600_000)


async def test_tokens_are_cut_where_their_results_fill_a_record() -> None:
    tokens = [f"{number}" for number in range(2000)]
    assert done_slices(tokens[:500], {}, MIB) == [tokens[:500]]
    slices = done_slices(tokens, {}, MIB)
    assert [token for some in slices for token in some] == tokens
    assert max(map(len, slices)) <= 500  # their keys may be long
    results = {token: RowResult(bytes(300_000)) for token in tokens[:3]} | {tokens[5]: RowResult(bytes(MIB - ROOM))}
    slices = done_slices(tokens[:8], results, MIB)
    assert [token for some in slices for token in some] == tokens[:8]
    assert [tokens[5]] in slices
    assert done_slices([], {}, MIB) == [[]]


async def test_what_is_no_result_is_refused() -> None:
    check_results({"t": RowResult(bytes(MIB - ROOM))}, MIB)
    with pytest.raises(TooLarge):
        check_results({"t": RowResult(bytes(MIB - ROOM + 1))}, MIB)
    for bad in (RowResult("text"), RowResult(b"", 2), b"bytes"):  # type: ignore[arg-type]
        with pytest.raises(BadInput):
            check_results({"t": bad}, MIB)  # type: ignore[dict-item]


@pytest.mark.parametrize("arrives", [True, False])
async def test_who_waits_beside_a_failed_append_learns_what_the_log_says(opened: OpenQueue, region: Region, *, arrives: bool) -> None:
    queue = await opened()
    put, other = await queue.put([NewRow(key=b"a"), NewRow(key=b"b")])
    a, b = [asyncio.ensure_future(queue.result(one.id, wait=60_000)) for one in (put, other)]
    [claim] = (await queue.claim()).claims
    await turned()
    FailingAppends(region, Unavailable("no", hint="later"), arrives=arrives)
    with pytest.raises(HeadwaterError):
        await queue.done([claim.token], {claim.token: RowResult(b"7")})
    await queue.count()
    if not arrives:
        assert not a.done()
        assert await queue.done([claim.token], {claim.token: RowResult(b"7")}) == []
    found = await a
    assert found is not None
    assert found.data == b"7"
    assert not b.done()
    await queue.cancel(b"b")
    with pytest.raises(NotFound):
        await b


async def test_nobody_is_left_behind_who_waits_no_longer(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened()
    [put] = await queue.put([NewRow(key=b"a")])
    waiting = [asyncio.ensure_future(queue.result(put.id, wait=1000)) for _ in range(3)]
    await turned()
    assert len(queue._runtime.results) == 3
    waiting[0].cancel()
    await turned()
    assert len(queue._runtime.results) == 2
    await clock.run(1)
    assert await asyncio.gather(*waiting[1:]) == [None, None]
    assert not queue._runtime.results.by_row


async def test_an_end_that_nobody_waits_for_any_more_is_not_kept(opened: OpenQueue) -> None:
    queue = await opened()
    [put] = await queue.put([NewRow(key=b"a")])
    waiting = asyncio.ensure_future(queue.result(put.id, wait=1000))
    await turned()
    canceling = asyncio.ensure_future(queue.cancel(b"a"))
    await asyncio.sleep(0)
    waiting.cancel()
    await canceling
    await turned()
    assert not queue._runtime.decisions.ended


async def kept(queue: Queue, count: int) -> list[int]:
    ids = []
    for number in range(count):
        [put] = await queue.put([NewRow(key=b"%d" % number, unique_for=3_600_000)])
        [claim] = (await queue.claim()).claims
        await queue.done([claim.token], {claim.token: RowResult(b"%d" % number)})
        ids.append(put.id)
    return ids


async def test_results_and_keys_are_carried_forward(opened: OpenQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry, "SPARE_RECORDS", 20)
    queue = await opened()
    ids = await kept(queue, 50)
    while queue._runtime._carrier._task is not None:
        await asyncio.sleep(0)
    await queue.mark()
    assert queue.statistics().log_records <= 2 * 100 + 20
    for _ in range(300):
        await queue.put([NewRow(key=b"x")])
        await queue.cancel(b"x")
    while queue._runtime._carrier._task is not None:
        await asyncio.sleep(0)
    assert queue.statistics().log_records <= 2 * 100 + 20
    queue = await opened()
    for number, id in enumerate(ids):
        found = await queue.result(id)
        assert found is not None
        assert found.data == b"%d" % number
    [again] = await queue.put([NewRow(key=b"49", unique_for=3_600_000)])
    assert (again.outcome, again.id) == ("ignored", ids[49])


async def test_an_idle_queue_forgets_and_frees_its_log(opened: OpenQueue, region: Region, clock: ManualClock) -> None:
    queue = await opened()
    await kept(queue, 5)
    await clock.run(3_600 + 10)
    assert (queue.statistics().results, queue.statistics().done_keys) == (0, 0)
    await clock.run(10)
    while queue._runtime._carrier._task is not None:
        await asyncio.sleep(0)
    assert queue.statistics().log_records == 0
    assert region.look(lambda meta: meta.tables[1].marked) == 16


async def test_a_queue_that_keeps_nothing_goes_the_quick_way(opened: OpenQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"a"), NewRow(key=b"b")])
    [claim] = (await queue.claim()).claims
    monkeypatch.setattr(queue._runtime, "begin", lambda now: pytest.fail("the long way"))
    await queue.put([NewRow(key=b"c")])
    [claim] = (await queue.claim(done=[claim.token])).claims
    assert await queue.done([claim.token]) == []

"""The log side of a queue: what is durable, what is folded anew, and what ends it."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.queue.conftest import TABLE, FailingAppends

from headwater.core.errors import Closed, Damaged, DiskFull, Fenced
from headwater.queue.checks import checked_row
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.queue_log import QueueLog, folded, open_log
from headwater.queue.row import NewRow
from headwater.queue.shared_calls import SharedCalls
from headwater.testing.clock import ManualClock
from headwater.wal.region import Region

pytestmark = pytest.mark.anyio


async def opened(region: Region, clock: ManualClock) -> QueueLog:
    return await open_log(region, TABLE, settings=EffectiveSettings(), clock=clock)


def put(log: QueueLog, clock: ManualClock, key: bytes) -> asyncio.Future[str] | None:
    decisions = log.decisions
    decisions.begin(clock.now_ms())
    decisions.put(checked_row(NewRow(key=key), decisions.settings, clock.now_ms()))
    value = decisions.end()
    assert value is not None
    return log.append(value, "put")


async def test_a_record_is_durable_once_its_future_has_ended(region: Region, clock: ManualClock) -> None:
    log, settled = await opened(region, clock), list[int]()
    log.on_settled = lambda: settled.append(log.decisions.fold.sequence)
    assert await log.tail()
    first, second = put(log, clock, b"a"), put(log, clock, b"b")
    assert first is not None
    assert second is not None
    assert not first.done()
    assert await log.tail()
    assert (await first, await second, settled[-1]) == ("put", "put", 2)
    assert (await folded(region, TABLE, clock)).by_key.keys() == {b"a", b"b"}


async def test_a_record_that_cannot_be_written_breaks_the_fold_until_it_is_folded_anew(region: Region, clock: ManualClock) -> None:
    log = await opened(region, clock)
    FailingAppends(region, DiskFull("It is full.", hint="Make room."), arrives=False)
    failed = put(log, clock, b"a")
    assert failed is not None
    tail = asyncio.create_task(log.tail())
    with pytest.raises(DiskFull):
        await failed
    assert (await tail, b"a" in log.decisions.fold.by_key) == (False, True)
    await log.ready()
    assert (log.broken, log.decisions.fold.by_key, log.decisions.totals.puts) == (False, {}, 1)
    again = put(log, clock, b"a")
    assert again is not None
    await again


async def test_a_closed_log_refuses_what_comes_and_fails_whoever_waits(region: Region, clock: ManualClock) -> None:
    log = await opened(region, clock)
    put(log, clock, b"a")
    tail = asyncio.create_task(log.tail())
    await asyncio.sleep(0)
    log.close(Closed("It is closed.", hint="Open it."))
    log.close(Fenced("Too late.", hint="None."))
    assert await tail is False
    with pytest.raises(Closed, match="It is closed"):
        await log.ready()


async def test_a_record_of_another_program_is_damaged_and_named(region: Region, clock: ManualClock) -> None:
    await region.write(TABLE, [b"\x01 is no record of a queue"])
    with pytest.raises(Damaged, match=r"queue.* cannot be read"):
        await opened(region, clock)


async def test_a_caller_that_tries_an_ended_log_again_and_again_keeps_the_loop_from_nobody(region: Region, clock: ManualClock) -> None:
    log, others = await opened(region, clock), list[str]()
    log.close(Fenced("Another process has it.", hint="Open it again."))
    asyncio.get_running_loop().call_soon(others.append, "a turn")
    with pytest.raises(Fenced):
        await log.ready()
    assert others == ["a turn"]
    depths = set[int]()
    for _ in range(5):
        with pytest.raises(Fenced) as told:
            await log.ready()
        depths.add(len(told.traceback))
    assert len(depths) == 1, "what an error holds does not grow"


async def test_a_broken_fold_writes_nothing(region: Region, clock: ManualClock) -> None:
    log = await opened(region, clock)
    log.fail(SharedCalls([], []), DiskFull("It is full.", hint="Make room."))
    assert (log.broken, put(log, clock, b"a"), region.sequence_num(TABLE)) == (True, None, 0)
    await log.ready()
    assert log.decisions.fold.by_key == {}

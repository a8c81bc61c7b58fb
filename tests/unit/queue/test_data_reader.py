"""Data that are on the log alone are in every answer that has rows, byte for byte."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.queue.conftest import TABLE, OpenQueue

from headwater.core.errors import Damaged, OffsetGone
from headwater.core.units import Size
from headwater.queue.body import FLAGS, ON_LOG
from headwater.queue.data_place import PLACE_SIZE, DataPlace, place_of
from headwater.queue.data_reader import DataReader
from headwater.queue.queue import Queue
from headwater.queue.row import NewRow, Row
from headwater.queue.values import FailedClaim
from headwater.testing.clock import ManualClock
from headwater.wal.region import Region

pytestmark = pytest.mark.anyio
NOTHING = {"memory": Size(0)}


def large(number: int = 0) -> bytes:
    return b"%d" % number * 3000


def on_log(queue: Queue) -> int:
    """How many rows have no data in memory."""
    return sum(len(body) < 1000 for body in queue._runtime.decisions.fold.columns.bodies if body)


def lacking(queue: Queue) -> int:
    """How many rows have the place of their data alone."""
    return sum(bool(body[FLAGS] & ON_LOG) for body in queue._runtime.decisions.fold.columns.bodies if body)


@pytest.mark.parametrize("memory", [0, 4000, 1 << 20])
@pytest.mark.parametrize("restart", [False, True])
async def test_every_call_that_shows_rows_has_their_data(opened: OpenQueue, memory: int, restart: bool) -> None:
    async def again() -> Queue:
        return await opened(memory=Size(memory)) if restart else queue

    queue = await opened(memory=Size(memory))
    await queue.put([NewRow(key=b"%d" % number, data=large(number), form=1) for number in range(6)])
    assert on_log(queue) == 6
    queue = await again()
    assert [row.data for row in await queue.rows()] == [large(number) for number in range(6)]
    assert (await queue.get(b"3")).data == large(3)
    assert (await queue.cancel(b"0")).data == large(0)
    claimed = (await queue.claim(2)).claims
    assert [one.row.data for one in claimed] == [large(1), large(2)]
    await queue.put([NewRow(key=b"1", data=large(7), form=1), NewRow(key=b"5", data=large(8), form=1)])
    await queue.fail([FailedClaim(claimed[0].token), FailedClaim(claimed[1].token, give_up=True)])
    queue = await again()
    assert [dead.row.data for dead in await queue.dead_list()] == [large(2)]
    assert (await queue.dead_get(claimed[1].row.id)).row.data == large(2)
    await queue.dead_retry()
    queue = await again()
    (one,) = (await queue.claim()).claims
    assert {one.row.key: one.row.data} | {other.row.key: other.row.data for other in (await queue.claim(9)).claims} == {
        b"1": large(7), b"2": large(2), b"3": large(3), b"4": large(4), b"5": large(8),
    }  # fmt: skip


async def test_a_claim_that_waits_gets_the_data(opened: OpenQueue) -> None:
    queue = await opened(**NOTHING)
    waiting = [asyncio.ensure_future(queue.claim(2, wait=1000)), asyncio.ensure_future(queue.claim(2, wait=1000))]
    await asyncio.sleep(0)
    await queue.put([NewRow(key=b"%d" % number, data=large(number), form=1) for number in range(3)])
    claimed = [one.row.data for answer in await asyncio.gather(*waiting) for one in answer.claims]
    assert claimed == [large(number) for number in range(3)]


async def test_the_log_keeps_what_a_read_under_way_needs(opened: OpenQueue, region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are shown, one is cancelled; while their data are read, all of them are done, and the log is cleaned."""
    queue = await opened(**NOTHING)
    await queue.put([NewRow(key=b"a", data=large(1), form=1), NewRow(key=b"b", data=large(2), form=1)])
    read, reading, goes_on = DataReader.read, asyncio.Event(), asyncio.Event()

    async def slow(self: DataReader, places: Any) -> Any:
        places = list(places)
        if places and not goes_on.is_set():
            reading.set()
            await goes_on.wait()
        return await read(self, places)

    monkeypatch.setattr(DataReader, "read", slow)
    rows = asyncio.ensure_future(queue.rows())
    await reading.wait()
    cancelled = asyncio.ensure_future(queue.cancel(b"a"))
    await asyncio.sleep(0)
    await queue._runtime.log.tail()
    claimed = queue._runtime.begin(queue._runtime.now_ms())
    assert claimed is not None
    tokens = [one.token for one in claimed.claim(1, 1000, "g", "w")]
    queue._runtime.write(claimed)
    await queue.done(tokens)
    await queue.mark()
    await region.clean()
    goes_on.set()
    assert [row.data for row in await rows] == [large(1), large(2)]
    assert (await cancelled).data == large(1)
    await queue.mark()
    assert region.look(lambda meta: meta.tables[TABLE].live) == 0


async def test_data_that_cannot_be_read_do_not_spoil_the_others(opened: OpenQueue, region: Region) -> None:
    queue = await opened(**NOTHING)
    for number in range(3):
        await queue.put([NewRow(key=b"%d" % number, data=large(number), form=1)])
    places = [row.data for row in _shown(queue)]
    wrong, gone = place_of(large(9), places[1].sequence, places[1].begin), place_of(large(0), 99, 14)
    found = await DataReader(region, TABLE).read([*places, wrong, gone])
    assert [found[place] for place in places] == [large(number) for number in range(3)]
    assert isinstance(found[wrong], Damaged)
    assert isinstance(found[gone], OffsetGone)


async def test_a_record_of_many_rows_is_read_once(opened: OpenQueue, region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, reads = await opened(**NOTHING), list[list[int]]()
    await queue.put([NewRow(key=b"%d" % number, data=large(number), form=1) for number in range(9)])
    looked_up = Region.payloads_at
    monkeypatch.setattr(Region, "payloads_at", lambda self, table, wanted: reads.append(wanted) or looked_up(self, table, wanted))
    for number in range(9):
        (claimed,) = (await queue.claim()).claims
        assert claimed.row.data == large(number)
    assert reads == [[1]]


async def test_large_rows_are_claimed_few_at_once(opened: OpenQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.queue.decisions.MOST_CLAIMED", 7000)
    queue = await opened()
    await queue.put([NewRow(key=b"%d" % number, data=large(number), form=1) for number in range(5)])
    assert [len((await queue.claim(10)).claims) for _ in range(3)] == [3, 2, 0]


async def test_rows_that_are_carried_take_their_data_along(
    opened: OpenQueue, region: Region, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.queue.carry.SPARE_RECORDS", 20)
    queue = await opened(**NOTHING)
    await queue.put([NewRow(key=b"next month", data=large(1), form=1, delay=2_592_000_000), NewRow(key=b"busy", data=large(2), form=1)])
    (busy,) = (await queue.claim()).claims
    await queue.put([NewRow(key=b"busy", data=large(3), form=1)])
    await queue.release([busy.token], 2_000_000_000)  # with the data of a record before
    for number in range(50):
        await queue.put([NewRow(key=b"%d" % number)])
        await queue.done([(await queue.claim()).claims[0].token])
    while queue._runtime._carrier._task is not None:
        await asyncio.sleep(0)
    await queue.mark()
    await region.clean()
    assert region.look(lambda meta: meta.tables[TABLE].marked) > 50
    for _ in range(2):
        assert {row.key: row.data for row in await queue.rows()} == {b"next month": large(1), b"busy": large(3)}
        queue = await opened(**NOTHING)


def _shown(queue: Queue) -> list[Row]:
    from headwater.queue.row_view import row_at

    fold = queue._runtime.decisions.fold
    rows = [row_at(fold, slot) for slot in fold.by_key.values()]
    assert all(type(row.data) is DataPlace for row in rows)
    return rows


@pytest.mark.parametrize("at_once", [1, 20])
async def test_small_data_beyond_the_memory_of_the_queue_are_read_from_its_log(opened: OpenQueue, at_once: int) -> None:
    queue = await opened(memory=Size(1000))
    rows = [NewRow(key=b"%03d" % place, data=b"%03d" % place * 30, form=1) for place in range(20)]
    for first in range(0, 20, at_once):
        await queue.put(rows[first : first + at_once])
    fold = queue._runtime.decisions.fold
    assert 8 <= lacking(queue) < 20
    assert fold.live_bytes < 1000 + 200 + 20 * (40 + 3 + PLACE_SIZE)  # a row more, and the places of the others
    queue = await opened(memory=Size(1000))  # a restart
    assert 8 <= lacking(queue) < 20
    claimed = [(await queue.claim(1)).claims[0] for _ in range(10)] + (await queue.claim(10)).claims
    assert [(one.row.key, one.row.data) for one in claimed] == [(row.key, row.data) for row in rows]
    assert await queue.done([one.token for one in claimed]) == []
    await queue.put([NewRow(key=b"again", data=b"a" * 90, form=1)])
    assert lacking(queue) == 0

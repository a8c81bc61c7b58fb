"""Claims whose data cannot be read: an error that says so, and a row that comes again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest
from tests.unit.queue.conftest import OpenQueue

from headwater.core.errors import Damaged, Unavailable
from headwater.core.units import Size
from headwater.queue.queue import Queue
from headwater.queue.row import NewRow
from headwater.testing.clock import ManualClock
from headwater.wal.region import Region

pytestmark = pytest.mark.anyio
DATA = {b"a": b"a" * 3000, b"b": b"b" * 4000}
ROTTEN, AWAY = Damaged("Record 7 is rotten."), Unavailable("The disk is away.")


class Rot:
    """Lets the reads of some payloads fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.errors: dict[int, Exception] = {}
        self._read = Region.payloads_at
        monkeypatch.setattr(Region, "payloads_at", lambda region, table, wanted: self._failing(region, table, wanted))

    def _failing(self, region: Region, table: int, wanted: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        for sequence in wanted:
            if sequence in self.errors:
                raise self.errors[sequence]
            yield from self._read(region, table, [sequence])


@pytest.fixture
async def queue(opened: OpenQueue) -> Queue:
    queue = await opened(memory=Size(0), max_attempts=3)
    for key, data in DATA.items():
        await queue.put([NewRow(key=key, data=data, form=1)])
    return queue


@pytest.fixture
def rot(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Rot:
    return Rot(monkeypatch)


@pytest.mark.parametrize("n", [1, 2])
async def test_a_row_whose_data_cannot_be_read_waits_and_is_given_up_in_the_end(queue: Queue, rot: Rot, clock: ManualClock, n: int) -> None:
    rot.errors = {1: ROTTEN, 2: ROTTEN}
    for _ in range(3):
        for _ in range(2 // n):
            with pytest.raises(Damaged, match="rotten"):
                await queue.claim(n)
        assert (await queue.claim(9)).claims == []
        clock.advance(1)
    rot.errors = {}
    assert [(dead.row.key, dead.reason, "rotten" in dead.error) for dead in await queue.dead_list()] == [
        (b"a", "attempts", True),
        (b"b", "attempts", True),
    ]
    assert (await queue.count()).processing == 0


async def test_rows_that_can_be_read_are_given_out_beside_others(queue: Queue, rot: Rot, clock: ManualClock) -> None:
    rot.errors = {1: ROTTEN}
    assert [one.row.data for one in (await queue.claim(5)).claims] == [DATA[b"b"]]
    rot.errors, row = {}, await queue.get(b"b")
    assert row.status == "P"
    clock.advance(1)
    (claimed,) = (await queue.claim(5)).claims
    assert (claimed.row.data, claimed.row.failures) == (DATA[b"a"], 1)


async def test_a_log_that_cannot_be_reached_is_no_failure_of_the_row(queue: Queue, rot: Rot, clock: ManualClock) -> None:
    rot.errors = {1: AWAY, 2: AWAY}
    for _ in range(5):
        with pytest.raises(Unavailable, match="away"):
            await queue.claim(5)
        clock.advance(1)
    rot.errors = {}
    claimed = (await queue.claim(5)).claims
    assert [(one.row.data, one.row.failures) for one in claimed] == [(data, 0) for data in DATA.values()]


async def test_a_claim_that_waits_goes_on_waiting(queue: Queue, rot: Rot, clock: ManualClock) -> None:
    rot.errors = {1: ROTTEN, 2: ROTTEN}
    await queue.pause()
    waiting = asyncio.ensure_future(queue.claim(5, wait=60_000))
    await asyncio.sleep(0)
    await queue.resume()
    while (await queue.count()).future < 2:  # both could not be read
        await asyncio.sleep(0)
    assert not waiting.done()
    rot.errors = {}
    await clock.run(2)
    assert [one.row.data for one in (await waiting).claims] == list(DATA.values())


async def test_a_caller_that_gives_up_while_data_are_read_leaves_the_row_to_others(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    for cancelled_at in ("once", "while it is read"):
        claiming = queue.claim()
        task = asyncio.ensure_future(claiming)
        if cancelled_at != "once":
            await queue._runtime.log.tail()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await queue.count()).due == 2
    (claimed,) = (await queue.claim()).claims
    assert claimed.row.data == DATA[b"a"]


async def test_a_row_that_is_done_before_its_data_are_read_is_not_given_out(queue: Queue) -> None:
    claiming = queue.claim()
    (token,) = queue._runtime.decisions.fold.claims.by_token
    assert await queue.done([token]) == []
    assert (await claiming).claims == []
    assert [row.key for row in await queue.rows()] == [b"b"]


async def test_a_queue_that_is_closed_finishes_what_it_reads(queue: Queue) -> None:
    claiming = queue.claim(2)
    await queue.aclose()
    assert [one.row.data for one in (await claiming).claims] == list(DATA.values())

from __future__ import annotations

import asyncio

import pytest
from tests.unit.queue.conftest import TABLE, OpenQueue
from tests.unit.queue.played import Played

from headwater.queue import carry
from headwater.queue.carry import oldest_rows, too_long
from headwater.queue.fold import QueueFold
from headwater.queue.row import NewRow
from headwater.queue.settings import QueueSettings
from headwater.queue.values import FailedClaim
from headwater.testing.clock import ManualClock
from headwater.wal.region import Region

pytestmark = pytest.mark.anyio


async def settled(queue: object) -> None:
    """Until no carry is under way."""
    carrier = queue._runtime._carrier  # type: ignore[attr-defined]
    while carrier._task is not None:
        await asyncio.sleep(0)


@pytest.mark.parametrize("by", ["records", "bytes"])
async def test_a_row_that_nobody_claims_does_not_keep_the_log(
    opened: OpenQueue, region: Region, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setattr(carry, "SPARE_RECORDS", 50 if by == "records" else 10_000)
    monkeypatch.setattr(carry, "SPARE_BYTES", 4000 if by == "bytes" else 1 << 30)
    queue = await opened()
    await queue.put([NewRow(key=b"next month", delay=2_592_000_000), NewRow(key=b"dead"), NewRow(key=b"busy"), NewRow(key=b"failed")])
    dead, busy, failed = (await queue.claim(3)).claims
    await queue.fail([FailedClaim(dead.token, "no", give_up=True), FailedClaim(failed.token, "later", 2_000_000_000)])
    await queue.put([NewRow(key=b"busy", data=b"again"), NewRow(key=b"named")], idempotency="name")
    await queue.cancel(b"named")
    before, deaths = await queue.rows(), await queue.dead_list()
    for number in range(200):
        await queue.put([NewRow(key=b"%d" % number, data=b"x" * 100)])
        [claimed] = (await queue.claim()).claims
        await queue.done([claimed.token])
    await settled(queue)
    await queue.mark()
    assert queue.statistics().log_records < 150
    assert region.look(lambda meta: meta.tables[TABLE].marked) > 400
    assert await queue.rows() == before
    queue = await opened()
    assert await queue.rows() == before
    assert await queue.dead_list() == deaths
    assert (await queue.put([NewRow(key=b"busy", data=b"again"), NewRow(key=b"named")], idempotency="name"))[0].replayed
    assert await queue.done([busy.token]) == []
    assert (await queue.get(b"busy")).data == b"again"


async def test_a_mark_follows_by_itself_a_little_later(opened: OpenQueue, region: Region, clock: ManualClock) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"a")])
    await queue.cancel(b"a")
    marked = lambda: region.look(lambda meta: meta.tables[TABLE].marked)  # noqa: E731
    assert marked() == 1
    await clock.run(10)
    await settled(queue)
    assert marked() == 3


def test_the_oldest_homes_come_first() -> None:
    played = Played(QueueSettings())
    for key in (b"a", b"b", b"c"):
        played.step("put", [{"key": key, "data": b"1"}])
    played.step("put", [{"key": b"a", "data": b"2"}])
    slots = [played.fold.by_key[key] for key in (b"b", b"c", b"a")]
    assert oldest_rows(played.fold, 10) == slots
    assert sorted(oldest_rows(played.fold, 2)) == sorted(slots[:2])
    assert oldest_rows(QueueFold(), 5) == []
    assert not too_long(played.fold)

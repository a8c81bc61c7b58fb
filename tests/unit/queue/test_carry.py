from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from tests.unit.queue.conftest import TABLE, FailingAppends, OpenQueue
from tests.unit.queue.played import Played

from headwater.core.errors import Damaged, OutcomeUnknown
from headwater.core.period import Period
from headwater.core.units import Duration, Size
from headwater.queue import carry
from headwater.queue.carry import oldest_rows, too_long
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.fold import QueueFold
from headwater.queue.queue import Queue
from headwater.queue.queue_log import folded
from headwater.queue.row import NewRow
from headwater.queue.values import FailedClaim, RowResult
from headwater.testing.clock import ManualClock
from headwater.wal.region import Region

pytestmark = pytest.mark.anyio


async def settled(queue: object) -> None:
    """Until no carry is under way."""
    carrier = queue._runtime._carrier  # type: ignore[attr-defined]
    while carrier._task is not None:
        await asyncio.sleep(0)


async def jumped(clock: ManualClock, seconds: float, queue: object) -> None:
    """So much time at once, with all that its timers begin."""
    clock.advance(seconds)
    for _ in range(20):
        await asyncio.sleep(0)
    await settled(queue)


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


async def test_at_the_end_of_a_period_few_rows_among_many_records_move_on(opened: OpenQueue, region: Region, clock: ManualClock) -> None:
    queue = await opened(period=Period("day"))
    await queue.put([NewRow(key=b"later", delay=2_592_000_000)])
    for number in range(5):
        await queue.put([NewRow(key=b"%d" % number)])
        await queue.cancel(b"%d" % number)
    assert queue.statistics().log_records == 11
    await jumped(clock, 86_400, queue)
    assert queue.statistics().log_records == 1
    assert region.look(lambda meta: meta.tables[TABLE].marked) == 12
    await jumped(clock, 86_400, queue)
    assert queue.statistics().log_records == 1  # nothing is gained by moving it again
    assert [row.key for row in await (await opened()).rows()] == [b"later"]


async def test_without_a_period_nothing_moves_on(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened(period=Period("0ms"))
    await queue.put([NewRow(key=b"later", delay=2_592_000_000)])
    for _ in range(5):
        await queue.put([NewRow(key=b"k")])
        await queue.cancel(b"k")
    await jumped(clock, 40 * 86_400, queue)
    assert queue.statistics().log_records == 11


def test_the_oldest_homes_come_first() -> None:
    played = Played(EffectiveSettings())
    for key in (b"a", b"b", b"c"):
        played.step("put", [{"key": key, "data": b"1"}])
    played.step("put", [{"key": b"a", "data": b"2"}])
    slots = [played.fold.by_key[key] for key in (b"b", b"c", b"a")]
    assert oldest_rows(played.fold, 10) == slots
    assert sorted(oldest_rows(played.fold, 2)) == sorted(slots[:2])
    assert oldest_rows(QueueFold(), 5) == []
    assert not too_long(played.fold)


async def test_a_row_that_cannot_be_read_is_tried_again_later_and_costs_nothing_meanwhile(
    opened: OpenQueue, region: Region, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carry, "SPARE_RECORDS", 20)
    queue, read, tries = await opened(memory=Size(0)), Region.payloads_at, list[int]()

    def rotten(*given: object) -> Iterator[tuple[int, bytes]]:
        tries.append(1)
        raise Damaged("The record is rotten.")

    async def work() -> None:
        for number in range(50):
            await queue.put([NewRow(key=b"%d" % number)])
            await queue.done([(await queue.claim()).claims[0].token])
            await settled(queue)

    await queue.put([NewRow(key=b"large", data=b"x" * 3000, form=1, delay=1_000_000_000)])
    monkeypatch.setattr(Region, "payloads_at", rotten)
    await work()
    assert (len(tries), queue.statistics().log_records) == (1, 151)
    monkeypatch.setattr(Region, "payloads_at", read)
    await clock.run(11)
    await work()
    assert queue.statistics().log_records < 50
    assert (await queue.get(b"large")).data == b"x" * 3000


@pytest.mark.parametrize("what", ["rows", "results"])
async def test_a_log_that_is_folded_anew_while_it_is_carried_goes_on(
    opened: OpenQueue, region: Region, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    queue = await opened(memory=0)
    await queue.put([NewRow(key=b"long", data=b'"' + b"x" * 5000 + b'"'), NewRow(key=b"done")])
    tokens = {claim.row.key: claim.token for claim in (await queue.claim(2)).claims}
    await queue.done([tokens[b"done"]], {tokens[b"done"]: RowResult(b"1")})
    runtime = queue._runtime
    before, carrier, read = runtime.decisions.fold, runtime._carrier, runtime.reader.read

    async def fold_anew(*places: Any) -> Any:
        runtime.log.decisions = runtime.decisions.on(await folded(region, TABLE, clock))
        return await read(*places) if places else None

    monkeypatch.setattr(carry, "too_long", lambda fold, spare=True: True)
    if what == "rows":
        monkeypatch.setattr(runtime.reader, "read", fold_anew)
        await carrier._carry_oldest(spare=True, begun=before.sequence)
    else:
        await fold_anew()
        await carrier._carry_rest(before, before.sequence, spare=True)
    assert runtime.decisions.fold.sequence == runtime.log.durable
    async with asyncio.timeout(60):
        assert (await queue.count()).processing == 1


async def idle(queue: Queue) -> int:
    """How many records a queue writes by itself while nobody calls it, until it has come to rest; or a thousand."""
    fold = queue._runtime.decisions.fold
    begun, carrier = fold.sequence, queue._runtime._carrier
    while carrier._task is not None and fold.sequence < begun + 1000:
        await asyncio.sleep(0)
    assert queue._runtime.decisions.fold is fold, "the log was folded anew"
    return fold.sequence - begun


@pytest.mark.parametrize("what", ["paused", "answer", "dead", "result", "key", "all"])
async def test_at_the_end_of_a_period_whatever_is_kept_without_rows_moves_on_once(
    opened: OpenQueue, region: Region, clock: ManualClock, what: str
) -> None:
    queue = await opened(period=Period("hour"), results=Duration(864_000_000))
    if what in ("answer", "all"):
        await queue.put([NewRow(key=b"a")], idempotency="once")
        await queue.done([(await queue.claim()).claims[0].token])
    if what in ("dead", "all"):
        await queue.put([NewRow(key=b"b")])
        await queue.fail([FailedClaim((await queue.claim()).claims[0].token, "e" * 4096, give_up=True)])
    if what in ("result", "key", "all"):
        await queue.put([NewRow(key=b"c", unique_for=864_000_000 if what == "key" else 0)])
        [claimed] = (await queue.claim()).claims
        await queue.done([claimed.token], {} if what == "key" else {claimed.token: RowResult(b"1")})
    if what in ("paused", "all"):
        await queue.pause()
    for _ in range(10):
        await queue.put([NewRow(key=b"gone")])
        await queue.cancel(b"gone")
    records = 0
    for _ in range(3):
        clock.advance(3600)
        for _ in range(20):
            await asyncio.sleep(0)
        records += await idle(queue)
    fold = queue._runtime.decisions.fold
    assert records <= 4
    assert fold.homes.records <= 4
    assert region.look(lambda meta: meta.tables[TABLE].marked) >= 22
    queue = await opened()
    assert queue.paused == (what in ("paused", "all"))
    assert (await queue.count()).dead == (what in ("dead", "all"))
    if what in ("answer", "all"):
        assert (await queue.put([NewRow(key=b"a")], idempotency="once"))[0].replayed


@pytest.mark.parametrize("what", ["answers", "errors", "dead", "after", "claims"])
async def test_a_log_that_is_as_short_as_it_can_be_is_not_carried_again(
    opened: OpenQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(carry, "SPARE_BYTES", 20_000)
    queue = await opened()
    if what == "answers":
        for number in range(600):
            await queue.put([NewRow(key=b"k")], idempotency=f"{number:0>200}")
            await queue.cancel(b"k")
    elif what in ("errors", "dead"):
        for number in range(60):
            await queue.put([NewRow(key=b"%d" % number)])
            [claimed] = (await queue.claim()).claims
            await queue.fail([FailedClaim(claimed.token, "ä" * 2048, 1_000_000, give_up=what == "dead")])
    elif what == "after":
        ids = [put.id for put in await queue.put([NewRow(key=b"%d" % number, delay=1_000_000) for number in range(300)])]
        for number in range(60):
            await queue.put([NewRow(key=b"after %d" % number, after=tuple(ids))])
    else:
        for number in range(300):
            await queue.put([NewRow(key=b"%d" % number)])
            await queue.claim(worker="w" * 255, group="g" * 255)
    await idle(queue)
    fold = queue._runtime.decisions.fold
    begun = fold.sequence
    for number in range(20):
        await queue.put([NewRow(key=b"one more %d" % number, delay=1_000_000)])
        await idle(queue)
    assert fold.sequence < begun + 30, "each commit carried the whole log again"
    begun = fold.sequence
    for _ in range(5):
        await queue.put([NewRow(key=b"gone")])
        await queue.cancel(b"gone")
        await clock.run(11)  # a mark
        await idle(queue)
    assert fold.sequence == begun + 10, "each mark carried the whole log again"


async def test_a_log_that_only_seems_too_long_is_carried_once_until_it_is_far_longer(
    opened: OpenQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carry, "SPARE_BYTES", 20_000)
    monkeypatch.setattr(carry, "kept_bytes", lambda fold: 0)
    queue = await opened()
    await queue.put([NewRow(key=b"%d" % number, data=b"x" * 1000, form=1, delay=1_000_000) for number in range(100)])
    await idle(queue)
    fold = queue._runtime.decisions.fold
    begun = fold.sequence
    for _ in range(40):
        await queue.put([NewRow(key=b"gone")])
        await queue.cancel(b"gone")
        await clock.run(11)
        await idle(queue)
    assert fold.sequence == begun + 80
    for number in range(200):
        await queue.put([NewRow(key=b"more %d" % number, data=b"x" * 1000, form=1, delay=1_000_000)])
        await idle(queue)
    assert begun + 280 < fold.sequence < begun + 300, "it was carried again"


async def test_a_mark_waits_for_what_it_counts_on(opened: OpenQueue, region: Region) -> None:
    """A record that moves a row fails, and a mark comes before the loop hears of that: the old home of the row must stay."""
    queue = await opened()
    await queue.put([NewRow(key=b"a", data=b"1")])
    FailingAppends(region, OutcomeUnknown("The disk failed.", hint="Try again."), arrives=False)
    merging = asyncio.ensure_future(queue.put([NewRow(key=b"a", data=b"2")]))
    appender = cast(Any, region)._writer._appender
    while appender.failure is None:  # without a turn of the loop
        threading.Event().wait(0.001)
    await queue.mark()
    with pytest.raises(OutcomeUnknown):
        await merging
    assert [row.data for row in await queue.rows()] == [b"1"]
    assert [row.data for row in await (await opened()).rows()] == [b"1"]

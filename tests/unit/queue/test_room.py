"""Whatever a queue writes by itself fits into its log, also into the smallest one, and beside the largest rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.queue.played import state

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import BadInput, TooLarge
from headwater.core.timers import Timers
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import TopicSettings
from headwater.queue import carry
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.queue import Queue, open_queue
from headwater.queue.queue_log import folded
from headwater.queue.row import NewRow
from headwater.queue.schedule import Schedule
from headwater.queue.settings_form import read_settings
from headwater.queue.values import FailedClaim
from headwater.testing.clock import ManualClock
from headwater.wal.region import open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import RegionTopics

pytestmark = pytest.mark.anyio
TOPICS = RegionTopics("queue", 1)
MIB = 1 << 20


@pytest.fixture
async def small(tmp_path: Path, clock: ManualClock, anyio_backend: str) -> AsyncIterator[Queue]:
    """A queue whose log takes the smallest records that a queue may be set to."""
    timers = Timers(clock)
    with EmbeddedLog(tmp_path) as log, LocalOwnership(log, tmp_path / "owners") as owners:
        create_region(log, TOPICS, settings=TopicSettings(max_record=MIB))
        region = await open_region(log, owners, TOPICS)
        queue = await open_queue("pages", region, 1, settings=EffectiveSettings(max_timeouts=1), clock=clock, timers=timers)
        yield queue
        await queue.aclose()
        await region.close()
    timers.close()


async def largest(queue: Queue, key: bytes) -> int:
    """Put the largest row that the queue takes; return the size of its data."""
    size = MIB
    while True:
        try:
            await queue.put([NewRow(key=key, data=b"%d" % (size % 10) * size, form=1, lane=b"l" * 255)])
            return size
        except TooLarge:
            size -= 500


def test_a_queue_refuses_records_that_are_too_small_for_what_it_writes() -> None:
    with pytest.raises(BadInput, match="max_record"):
        read_settings({"max_record": "1023KiB"}, EffectiveSettings())
    assert read_settings({"max_record": "1MiB"}, EffectiveSettings()).max_record == MIB


async def test_rows_are_carried_in_records_that_fit(small: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        await small.put([NewRow(key=b"%d" % number, data=bytes(300_000), form=1, delay=1_000_000)])
    await largest(small, b"large")
    folded = small._runtime.decisions.fold
    monkeypatch.setattr(carry, "SPARE_BYTES", 0)
    for _ in range(40):
        await small.put([NewRow(key=b"0", data=bytes(300_000), form=1, delay=1_000_000)])
    while small._runtime._carrier._task is not None:
        await asyncio.sleep(0)
    assert small._runtime.decisions.fold is folded, "the log was folded anew"
    assert small.statistics().log_bytes < 2 * (folded.live_bytes + folded.data.bytes) + 600_000


@pytest.mark.parametrize("how", ["dead", "failed", "claimed", "named"])
async def test_what_rows_have_beside_their_data_is_carried_in_records_that_fit(
    small: Queue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(carry, "SPARE_BYTES", 1 << 30)
    for part in range(4):
        await small.put([NewRow(key=b"%d-%d" % (part, number)) for number in range(150)])
        claims = (await small.claim(150, worker="w" * 255, group="g" * 255)).claims
        if how in ("dead", "failed"):
            await small.fail([FailedClaim(claim.token, "e" * 4096, 1_000_000, give_up=how == "dead") for claim in claims])
    for number in range(6 if how == "named" else 0):
        rows = [NewRow(key=b"%d-%d" % (number, place), data=b"2") for place in range(5000)]
        await small.put(rows, idempotency=f"{number:0>255}")
    fold = small._runtime.decisions.fold
    monkeypatch.setattr(carry, "SPARE_BYTES", 0)
    monkeypatch.setattr(carry, "too_long", lambda fold, spare=True: fold.homes.pass_unneeded() <= before)
    before = fold.sequence
    await small.put([NewRow(key=b"go")])
    small._runtime._carrier.look()
    while small._runtime._carrier._task is not None:
        await asyncio.sleep(0)
    assert small._runtime.decisions.fold is fold, "the log was folded anew"
    assert fold.homes.first > before
    log = small._runtime.log
    assert state(await folded(log.region, log.table, clock)) == state(fold)


@pytest.mark.parametrize("what", ["errors", "lanes", "itself", "after itself"])
async def test_a_put_that_does_not_fit_with_what_its_rows_have_already_is_refused_and_changes_nothing(small: Queue, what: str) -> None:
    names = [b"%d" % number for number in range(3500 if what == "lanes" else 300)]
    lanes = {b"l" * 255} if what == "lanes" else {b""}
    for lane in lanes:
        for begin in range(0, len(names), 1000):
            await small.put([NewRow(key=name, lane=lane) for name in names[begin : begin + 1000]])
    again = [NewRow(key=name) for name in names]
    if what == "errors":
        claims = (await small.claim(300)).claims
        await small.fail([FailedClaim(claim.token, "e" * 4096, 1_000_000) for claim in claims])
    elif what == "itself":
        again = [NewRow(key=b"k", lane=b"l" * 255), *(NewRow(key=b"k") for _ in range(3500))]
    elif what == "after itself":
        ids = tuple(row.id for row in await small.rows(limit=300))
        again = [NewRow(key=b"k", after=ids), *(NewRow(key=b"k") for _ in range(1000))]
    fold, before = small._runtime.decisions.fold, await small.rows(limit=4000)
    with pytest.raises(TooLarge, match="bytes"):
        await small.put(again)
    with pytest.raises(TooLarge, match="bytes"):
        await small.put(again, idempotency="name")
    assert small._runtime.decisions.fold is fold, "the log was folded anew"
    assert await small.rows(limit=4000) == before
    assert len(await small.put(again[: len(again) // 4])) == len(again) // 4


async def test_dead_rows_whose_keys_have_failed_again_are_retried_in_records_that_fit(small: Queue) -> None:
    for give_up in (True, False):
        await small.put([NewRow(key=b"%d" % number, lane=b"%0255d" % number) for number in range(300)])
        for _ in range(300):
            [claimed] = (await small.claim()).claims
            await small.fail([FailedClaim(claimed.token, "e" * 4096, 1_000_000, give_up=give_up)])
    fold = small._runtime.decisions.fold
    assert len(await small.dead_retry()) == 300
    assert small._runtime.decisions.fold is fold, "the log was folded anew"


async def test_many_tokens_are_told_of_in_records_that_fit(small: Queue) -> None:
    tokens: list[str] = []
    for part in range(10):
        await small.put([NewRow(key=b"%d-%d" % (part, number)) for number in range(9000)])
        tokens += [claim.token for claim in (await small.claim(9000)).claims]
    fold = small._runtime.decisions.fold
    assert (await small.claim(0, extend=tokens, release=["none"])).stale == ["none"]
    assert await small.release([*tokens, "none"]) == ["none"]
    assert small._runtime.decisions.fold is fold, "the log was folded anew"


async def test_rows_with_schedules_and_lanes_that_die_at_once_come_again_in_records_that_fit(small: Queue, clock: ManualClock) -> None:
    for part in range(4):
        rows = [NewRow(key=b"%d-%d" % (part, n), lane=b"%0255d" % (1500 * part + n), schedule=Schedule(every=1000)) for n in range(1500)]
        await small.put(rows)
    clock.advance(1)
    assert len((await small.claim(6000, lease=1000)).claims) == 6000
    small.change_settings(EffectiveSettings(max_timeouts=0))
    fold = small._runtime.decisions.fold
    clock.advance(2)
    counts = await small.count()
    assert (counts.dead, counts.due + counts.future) == (6000, 6000)
    assert small._runtime.decisions.fold is fold, "the log was folded anew"


async def test_leases_of_rows_with_large_follow_ups_end_in_records_that_fit(small: Queue, clock: ManualClock) -> None:
    names = [b"a", b"b", b"c", *(b"%d" % number for number in range(2000))]
    await small.put([NewRow(key=name) for name in names])
    await small.claim(len(names), lease=1000)
    for name in names[:3]:
        await largest(small, name)
    folded = small._runtime.decisions.fold
    await clock.run(2)
    assert (await small.count()).due == 2003
    assert small._runtime.decisions.fold is folded, "the log was folded anew"


async def test_a_failure_of_a_row_with_the_largest_follow_up_can_be_told(small: Queue) -> None:
    await small.put([NewRow(key=b"a" * 1024)])
    (claimed,) = (await small.claim(worker="w" * 255, group="g" * 255)).claims
    await largest(small, b"a" * 1024)
    assert await small.fail([FailedClaim(claimed.token, "e" * 5000)]) == []
    (claimed,) = (await small.claim(worker="w" * 255, group="g" * 255)).claims
    assert await small.release([claimed.token]) == []


async def test_thousands_of_claims_that_wait_are_served_in_records_that_fit(small: Queue) -> None:
    folded = small._runtime.decisions.fold
    waiting = [asyncio.ensure_future(small.claim(wait=60_000, worker=f"{number:0>255}", group="g" * 255)) for number in range(3000)]
    await asyncio.sleep(0)
    await small.put([NewRow(key=b"%d" % number) for number in range(3000)])
    claimed = await asyncio.gather(*waiting)
    assert len({one.claims[0].row.key for one in claimed}) == 3000
    assert small._runtime.decisions.fold is folded, "the log was folded anew"


async def test_dead_rows_of_long_keys_are_retried_in_records_that_fit(small: Queue, clock: ManualClock) -> None:
    await small.put([NewRow(key=b"%d" % number, data=bytes(1500), form=1) for number in range(500)])
    await small.put([NewRow(key=(b"%d" % number).zfill(1024), data=bytes(500), form=1) for number in range(500)])
    for _ in range(2):
        await small.claim(2000, lease=1000)
        await clock.run(2)
    assert (await small.count()).dead == 1000
    assert len(await small.dead_retry()) == 1000


async def test_a_named_put_that_does_not_fit_is_refused_and_changes_nothing(small: Queue) -> None:
    folded = small._runtime.decisions.fold
    with pytest.raises(TooLarge, match="bytes"):
        await small.put([NewRow(key=b"%d" % number) for number in range(14_500)], idempotency="n" * 255)
    assert small._runtime.decisions.fold is folded


@pytest.mark.parametrize("how", ["fail", "give up", "release", "done", "claim"])
async def test_many_rows_that_take_up_follow_ups_at_once_come_back_in_records_that_fit(small: Queue, clock: ManualClock, how: str) -> None:
    names, data = [b"%d" % number for number in range(1500)], bytes(1000)
    every = Schedule(every=1000) if how in ("done", "give up") else None
    await small.put([NewRow(key=name, schedule=every) for name in names])
    clock.advance(1)
    tokens = [one.token for one in (await small.claim(2000)).claims]
    for begin in range(0, 1500, 500):
        await small.put([NewRow(key=name, data=data, form=1) for name in names[begin : begin + 500]])
    fold = small._runtime.decisions.fold
    failures = [FailedClaim(token, "e" * 5000, give_up=how == "give up") for token in tokens]
    if how in ("fail", "give up"):
        assert await small.fail([*failures, FailedClaim("none")]) == ["none"]
    elif how == "release":
        assert await small.release([*tokens, "none"]) == ["none"]
    elif how == "done":
        assert await small.done([*tokens, "none"]) == ["none"]
    else:
        claimed = await small.claim(2, fail=failures[:700], release=tokens[700:], done=["none"])
        assert (len(claimed.claims), claimed.stale) == (2, ["none"])
    assert small._runtime.decisions.fold is fold, "the log was folded anew"
    assert (await small.count()).waiting + (await small.count()).processing == 1500
    assert {row.data for row in await small.rows(limit=2000)} == {data}
    assert len(await small.dead_list(limit=2000)) == (1500 if how == "give up" else 0)
    log = small._runtime.log
    assert state(await folded(log.region, log.table, clock)) == state(log.decisions.fold)


async def test_a_row_that_waits_for_many_fits_however_it_is_put_and_carried(small: Queue) -> None:
    folded = small._runtime.decisions.fold
    ids = [put.id for part in range(8) for put in await small.put([NewRow(key=b"%d-%d" % (part, n)) for n in range(8192)])]
    with pytest.raises(TooLarge, match="bytes"):
        await small.put([NewRow(key=b"k", data=bytes(500_000), form=1, after=tuple(ids))])
    with pytest.raises(TooLarge, match="65537 rows"):
        await small.put([NewRow(key=b"k", after=(*ids, 1))])
    await small.put([NewRow(key=b"k", after=tuple(ids))])
    for more in (NewRow(key=b"k", data=bytes(500_000), form=1), NewRow(key=b"k", data=bytes(300_000), form=1, after=tuple(ids[:40_000]))):
        with pytest.raises(TooLarge, match="bytes"):
            await small.put([more])
    await small.put([NewRow(key=b"k", data=bytes(400_000), form=1)])
    assert len((await small.get(b"k")).after) == 65_536
    runtime = small._runtime
    decisions = runtime.begin(runtime.now_ms())
    assert decisions is not None
    decisions.carry([folded.by_key[b"k"]], 512 << 10, before=0)
    await runtime.commit(None, lambda: asyncio.sleep(0))
    assert folded.home(folded.by_key[b"k"]) == folded.sequence
    assert runtime.decisions.fold is folded, "the log was folded anew"


async def test_leases_and_deaths_of_rows_whose_follow_ups_wait_for_many_end_in_records_that_fit(small: Queue, clock: ManualClock) -> None:
    folded = small._runtime.decisions.fold
    names = [b"a", b"b", b"c"]
    dead = [put.id for put in await small.put([NewRow(key=name) for name in names])]
    for claimed in (await small.claim(3)).claims:
        await small.fail([FailedClaim(claimed.token, give_up=True)])
    await small.put([NewRow(key=name) for name in names])
    await small.claim(3, lease=1000)
    others = [NewRow(key=b"%d" % n, delay=1_000_000) for n in range(12_000)]
    ids = [put.id for part in (others[:6000], others[6000:]) for put in await small.put(part)]
    for name in names:
        await small.put([NewRow(key=name, data=bytes(700_000), form=1, after=tuple(ids))])
    await clock.run(2)
    assert (await small.count()).held == 3
    assert len(await small.dead_retry(dead)) == 3
    assert small._runtime.decisions.fold is folded, "the log was folded anew"

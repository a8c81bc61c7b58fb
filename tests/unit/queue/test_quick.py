"""The short ways write and answer what the long way does."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.queue.conftest import TABLE, OpenQueue
from tests.unit.queue.played import Played

from headwater.core.errors import BadInput
from headwater.queue.checks import checked_row
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.row import NewRow
from headwater.testing.clock import ManualClock
from headwater.wal.region import Region

pytestmark = pytest.mark.anyio
LEASE = 3_600_000


async def written(region: Region) -> list[bytes]:
    reader, found = region.read(TABLE), list[bytes]()
    while entries := await reader.next_batch():
        found += [entry.payload for entry in entries]
    return found


async def test_a_put_a_claim_and_a_done_are_those_of_the_long_way(opened: OpenQueue, region: Region, clock: ManualClock) -> None:
    queue, long = await opened(), Played(EffectiveSettings(), clock.now_ms())
    rows = [NewRow(key=b"%d" % number, data=b"\xff", form=number % 2, priority=number * 20 or None) for number in range(9)]
    for row in rows:
        checked = checked_row(row, long.settings, long.now)
        assert await queue.put([row]) == [long.record(lambda decisions, new=checked: decisions.put(new))]
    assert len(await written(region)) == 9
    tokens: list[str] = []
    for _ in rows:
        done = tokens[-1:]
        claimed = await queue.claim(worker="w", group="g", done=done)

        def told(decisions: Any, done: list[str] = done) -> Any:
            decisions.done(done)
            return decisions.claim(1, LEASE, "g", "w")

        [expected] = long.record(told)
        assert (claimed.claims[0].row, claimed.stale) == (expected.row, [])
        assert claimed.claims[0].token == f"{expected.token}-{TABLE}"
        tokens = [claimed.claims[0].token]
        long.fold.claims.by_token[tokens[0]] = long.fold.claims.by_token[expected.token]
    assert await queue.done(tokens) == long.record(lambda decisions: decisions.done(tokens)) == []
    assert await written(region) == long.records
    assert queue.statistics().claims == queue.statistics().done == queue.statistics().puts == 9


@pytest.mark.parametrize(
    "row", [{"key": b""}, {"key": "text"}, {"key": b"k", "data": "text"}, {"key": b"k", "priority": 256}, {"key": b"k", "form": 2}]
)
async def test_a_row_that_cannot_be_is_refused_and_takes_no_number(opened: OpenQueue, region: Region, row: dict[str, Any]) -> None:
    queue = await opened()
    with pytest.raises(BadInput):
        await queue.put([NewRow(**row)])
    assert region.sequence_num(TABLE) == 0
    assert (await queue.put([NewRow(key=b"good")]))[0].id == 65536


async def test_a_claim_by_a_name_that_is_none_takes_no_row(opened: OpenQueue) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"k")])
    for given in ({"group": "\ud800"}, {"worker": "x" * 256}):
        with pytest.raises(BadInput):
            await queue.claim(**given)  # type: ignore[arg-type]
    assert len((await queue.claim()).claims) == 1


async def test_a_token_that_does_not_count_spoils_no_claim(opened: OpenQueue) -> None:
    queue = await opened()
    await queue.put([NewRow(key=b"k")])
    claimed = await queue.claim(done=["1-2-3"])
    assert (len(claimed.claims), claimed.stale) == (1, ["1-2-3"])
    assert await queue.done(["1-2-3"]) == ["1-2-3"]


async def test_what_is_overdue_comes_first(opened: OpenQueue, clock: ManualClock) -> None:
    queue = await opened(lease=50)
    await queue.put([NewRow(key=b"a"), NewRow(key=b"gone", expiration_date=clock.now_ms() + 20)])
    [first] = (await queue.claim()).claims
    clock.advance(0.050)
    assert await queue.extend([first.token]) == []
    clock.advance(0.051)
    assert await queue.done([first.token]) == [first.token]
    [again] = (await queue.claim()).claims
    assert (again.row.key, again.row.timeout_counter) == (b"a", 1)
    assert (await queue.put([NewRow(key=b"gone")]))[0].outcome == "inserted"


async def test_a_row_that_waited_for_the_done_one_is_claimed_with_that_in_its_order(opened: OpenQueue) -> None:
    queue = await opened()
    (first,) = await queue.put([NewRow(key=b"first", priority=0)])
    (done,) = (await queue.claim()).claims
    await queue.put([NewRow(key=b"urgent", priority=1, after=(first.id,)), NewRow(key=b"other")])
    (claimed,) = (await queue.claim(done=[done.token])).claims
    assert claimed.row.key == b"urgent"

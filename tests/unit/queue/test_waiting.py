"""Claims that wait: the longest first, until their time is over, and none twice."""

from __future__ import annotations

import pytest
from tests.unit.queue.played import Played

from headwater.core.errors import Closed
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.waiting import Served, WaitingClaim, WaitingClaims
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio


def served(waiting: WaitingClaims, *rows: tuple[bytes, int]) -> Served:
    """Serve them rows of these keys and priorities, which are put."""
    played = Played(EffectiveSettings())
    for key, priority in rows:
        played.step("put", [{"key": key, "data": b"1", "priority": priority}])
    found: Served = played.record(waiting.serve)
    return found


def keys(found: Served) -> list[tuple[str, list[bytes]]]:
    return [(claim.worker, [claimed.row.key for claimed in rows]) for claim, rows in found]


async def test_the_longest_waiting_is_served_first(clock: ManualClock) -> None:
    waiting = WaitingClaims(clock)
    for worker, n in (("first", 2), ("second", 1), ("third", 1)):
        waiting.add(WaitingClaim(n, 50, "g", worker), 1000)
    found = served(waiting, (b"a", 100), (b"b", 100), (b"c", 100))
    assert keys(found) == [("first", [b"a", b"b"]), ("second", [b"c"])]
    assert (len(waiting), served(waiting)) == (3, [])  # they wait until they are told


async def test_a_group_that_may_have_no_slow_row_keeps_no_other_from_it(clock: ManualClock) -> None:
    waiting = WaitingClaims(clock)
    for worker, group in (("a", "g"), ("b", "g"), ("c", "h")):
        waiting.add(WaitingClaim(1, 50, group, worker), 1000)
    assert keys(served(waiting, (b"fast", 10), (b"slow", 200))) == [("a", [b"fast"]), ("c", [b"slow"])]


async def test_a_claim_whose_time_is_over_has_no_rows(clock: ManualClock) -> None:
    waiting, claim = WaitingClaims(clock), WaitingClaim(1, 50, "g", "w")
    waiting.add(claim, 1000)
    await clock.run(0.999)
    assert not claim.future.done()
    await clock.run(0.001)
    assert (claim.future.result(), len(waiting)) == ([], 0)


async def test_a_claim_that_is_told_leaves_no_timer(clock: ManualClock) -> None:
    waiting, claim, gone = WaitingClaims(clock), WaitingClaim(1, 50, "g", "w"), WaitingClaim(1, 50, "g", "w")
    for one in (claim, gone):
        waiting.add(one, 1000)
        waiting.remove(one)
        waiting.remove(one)
    claim.future.set_result([])
    gone.future.cancel()
    await clock.run(0)
    assert (len(waiting), [alarm for *_, alarm in clock._alarms if not alarm.cancelled]) == (0, [])


async def test_claims_that_were_served_in_vain_come_before_later_ones(clock: ManualClock) -> None:
    waiting = WaitingClaims(clock)
    first, gone, later = (WaitingClaim(1, 50, "g", worker) for worker in ("first", "gone", "later"))
    for claim in (first, gone):
        waiting.add(claim, 1000)
        waiting.remove(claim)
    waiting.add(later, 1000)
    gone.future.cancel()
    waiting.put_back([first, gone])
    assert list(waiting.claims) == [first, later]


async def test_at_the_end_all_of_them_fail(clock: ManualClock) -> None:
    waiting, claim, gone = WaitingClaims(clock), WaitingClaim(1, 50, "g", "w"), WaitingClaim(1, 50, "g", "w")
    for one in (claim, gone):
        waiting.add(one, 1000)
    gone.future.cancel()
    waiting.fail(Closed("It is closed.", hint="Open it."))
    with pytest.raises(Closed):
        await claim.future
    assert len(waiting) == 0

from __future__ import annotations

from headwater.journal.store_reach import PAUSE, StoreReach
from headwater.testing.clock import ManualClock


def test_one_caller_at_a_time_finds_out_whether_the_store_is_there_again() -> None:
    clock = ManualClock()
    reach = StoreReach(clock)
    assert not reach.away()
    reach.lost()
    assert reach.away()
    clock.advance(PAUSE)
    assert [reach.away(), reach.away()] == [False, True]
    clock.advance(PAUSE)
    assert not reach.away()
    reach.found()
    assert [reach.away(), reach.away()] == [False, False]

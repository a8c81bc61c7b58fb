from __future__ import annotations

import threading

from headwater.spark.progress import JobProgress, Meter


class HandClock:
    def __init__(self) -> None:
        self.now = 100.0

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.now += seconds
        return event.is_set()


def test_rate_lag_and_eta_follow_from_what_is_done() -> None:
    clock = HandClock()
    meter = Meter([100, 300, 600], clock=clock)
    clock.now += 2
    meter.finished(1)
    seen = meter.read()
    assert seen == JobProgress(ranges=3, ranges_done=1, records=1000, records_done=300, seconds=2.0)
    assert (seen.rate, seen.lag) == (150.0, 700)
    assert seen.eta is not None
    assert round(seen.eta, 3) == 4.667
    assert str(seen) == "1 of 3 ranges, 300 of 1,000 records, 150 records/s, 5 s left"


def test_a_range_that_is_told_twice_counts_once() -> None:
    meter = Meter([10, 20], clock=HandClock())
    meter.finished(0)
    meter.finished(0)
    assert (meter.read().ranges_done, meter.read().records_done) == (1, 10)


def test_before_anything_is_done_there_is_no_eta() -> None:
    seen = Meter([5], clock=HandClock()).read()
    assert (seen.rate, seen.eta) == (0.0, None)
    assert str(seen) == "0 of 1 ranges, 0 of 5 records, 0 records/s"


def test_at_the_end_nothing_is_left() -> None:
    clock = HandClock()
    meter = Meter([0, 5], clock=clock)
    clock.now += 1
    meter.finished(0)
    meter.finished(1)
    assert (meter.read().lag, meter.read().eta) == (0, 0.0)
    assert Meter([], clock=clock).read().eta == 0.0

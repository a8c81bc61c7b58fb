"""Signs of life at a target while a run delivers, and the note of its end."""

from __future__ import annotations

import threading
from typing import cast

from headwater.core.errors import Unreachable
from headwater.pipeline.claim import BEAT
from headwater.pipeline.running.claim_renewal import ClaimRenewal
from headwater.pipeline.running.holdings import SinkHoldings
from headwater.testing.clock import ManualClock


class Holdings:
    """Counts what is called; the first renewal fails."""

    def __init__(self, claimed: bool) -> None:
        self.claimed, self.renewed, self.released, self.twice = claimed, 0, 0, threading.Event()

    def renew(self) -> None:
        self.renewed += 1
        if self.renewed == 1:
            raise Unreachable("away")
        self.twice.set()

    def release(self) -> None:
        self.released += 1


class Ticking(ManualClock):
    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.waits.append(seconds)
        return event.wait(0.001)


def test_a_claim_is_renewed_until_the_run_ends_even_if_a_renewal_fails() -> None:
    holdings, clock = Holdings(True), Ticking()
    with ClaimRenewal(cast("SinkHoldings", holdings), "s", clock):
        assert holdings.twice.wait(60)
        assert holdings.released == 0
    assert (holdings.released, set(clock.waits)) == (1, {BEAT})


def test_a_sink_that_keeps_no_note_has_no_thread() -> None:
    holdings, clock = Holdings(False), Ticking()
    before = set(threading.enumerate())  # of other tests
    with ClaimRenewal(cast("SinkHoldings", holdings), "s", clock):
        assert not any(thread.name == "headwater claim of s" for thread in threading.enumerate() if thread not in before)
    assert (holdings.renewed, clock.waits) == (0, [])

"""Signs of life at a sink's target, so that the run of another log sees that this one lives."""

from __future__ import annotations

import threading

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.pipeline.claim import BEAT
from headwater.pipeline.running.holdings import SinkHoldings


class ClaimRenewal:
    """Renews the claim on a target in a thread of its own: a delivery that takes minutes must not look like a death."""

    def __init__(self, holdings: SinkHoldings, name: str, clock: Clock) -> None:
        self._holdings, self._clock = holdings, clock
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"headwater claim of {name}", daemon=True)

    def __enter__(self) -> ClaimRenewal:
        if self._holdings.claimed:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._holdings.release()

    def _renew(self) -> None:
        while not self._clock.wait(self._ended, BEAT):
            try:
                self._holdings.renew()
            except HeadwaterError:
                continue  # the sink is away, or another log has taken it over: the next delivery reports it

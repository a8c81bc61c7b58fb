"""Whether the store of journals answers. While it does not, a log that holds everything from its first record on stands in for it."""

from __future__ import annotations

from headwater.core.clock import Clock, SystemClock

PAUSE = 5.0
"""Seconds after which the store is asked again."""


class StoreReach:
    """Safe for several threads."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._again: float | None = None  # the store did not answer, and is asked again then

    def away(self) -> bool:
        """Whether the store did not answer lately. Once in a while one caller is told that it may be there again, and finds out."""
        again = self._again
        if again is None:
            return False
        now = self._clock.monotonic()
        if now < again:
            return True
        self._again = now + PAUSE  # the others go on without it meanwhile
        return False

    def lost(self) -> None:
        """Take over that the store did not answer."""
        self._again = self._clock.monotonic() + PAUSE

    def found(self) -> None:
        """Take over that it did."""
        self._again = None

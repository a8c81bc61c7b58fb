"""Whether the store of journals answers. While it does not, a log that holds everything from its first record on stands in for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Differs
from headwater.journal.store import PartitionView
from headwater.log.record import Bounds

PAUSE = 5.0
"""Seconds after which the store is asked again."""
LOG_ALONE: AbstractContextManager[None] = nullcontext()
"""The view of a store that does not answer, while the log holds everything."""


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


class StoreView(AbstractContextManager[PartitionView | None]):
    """A view of a store's copy; None where the copy is of another topic of this name and this one's log holds everything. A class and not a
    generator: every read opens one."""

    __slots__ = ("_bounds", "_view")

    def __init__(self, bounds: Callable[[], Bounds], view: AbstractContextManager[PartitionView]) -> None:
        self._bounds = bounds
        self._view: AbstractContextManager[PartitionView] | None = view

    def __enter__(self) -> PartitionView | None:
        assert self._view is not None
        try:
            return self._view.__enter__()
        except Differs:
            if self._bounds().start > 0:
                raise
            self._view = None
            return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._view is not None:
            self._view.__exit__(kind, error, trace)

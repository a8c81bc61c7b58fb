"""The view of a store's copy as a block of reads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

from headwater.core.errors import Differs
from headwater.journal.store import PartitionView

LOG_ALONE: AbstractContextManager[None] = nullcontext()
"""The view of a store that does not answer, while the log holds everything."""


class ViewBlock(AbstractContextManager[PartitionView | None]):
    """A view of a store's copy; None where the copy is of another topic of this name and this one's log holds everything. A class and not a
    generator: every read opens one."""

    __slots__ = ("_view", "_whole")

    def __init__(self, view: AbstractContextManager[PartitionView], *, whole: Callable[[], bool]) -> None:
        """`whole`: whether the log holds everything."""
        self._whole = whole
        self._view: AbstractContextManager[PartitionView] | None = view

    def __enter__(self) -> PartitionView | None:
        assert self._view is not None
        try:
            return self._view.__enter__()
        except Differs:
            if not self._whole():
                raise
            self._view = None
            return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._view is not None:
            self._view.__exit__(kind, error, trace)

"""Which partitions of a piece of work this process does, where several processes share it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from types import TracebackType
from typing import Self


class PartitionShares(ABC):
    """The share of one process. Every partition is of one living process; a process that has died, or that hangs for long, has none.

    Two processes may believe for a moment to have one partition: what they write must be fenced by an epoch. Safe for several threads.
    """

    @abstractmethod
    def assigned(self) -> frozenset[int]:
        """The partitions that this process may hold now. It lets others go at once, and says so with `hold`."""

    @abstractmethod
    def hold(self, partitions: Collection[int]) -> None:
        """Tell the others which partitions this process holds: none of them takes one of these while this process lives."""

    @abstractmethod
    def close(self) -> None:
        """Leave everything to the others. Closing twice is no error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

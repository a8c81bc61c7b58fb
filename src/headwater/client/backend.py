"""Who answers what the door is asked: this process over a directory, or a server over HTTP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from headwater.client.job import Job
from headwater.wire.operation import Operation, R

A = TypeVar("A")


class Backend(ABC):
    """Performs the operations of every part. Errors are those of the operation, the same wherever it is performed.

    Over HTTP two errors join: `Unreachable` (nothing was sent) and `OutcomeUnknown` (the answer to a change was lost).
    """

    @abstractmethod
    async def ask(self, operation: Operation[R, A], request: R) -> A:
        """The answer, whole: of a list every page of it."""

    @abstractmethod
    def stream(self, operation: Operation[R, A], request: R, resume: Callable[[A], R] | None = None) -> AsyncIterator[A]:
        """The items of an operation of kind `stream` as they come.

        `resume`: the request that goes on behind an item, where a stream breaks off.
        """

    @abstractmethod
    async def start(self, operation: Operation[R, A], request: R) -> Job[A]:
        """Begin an operation that takes long: one of kind `job`, or one without patience."""

    @abstractmethod
    async def aclose(self) -> None:
        """End the jobs under way and let go. Closing twice is no error."""

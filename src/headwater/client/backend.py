"""Backends of the door: this process over a directory, or a server over HTTP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from headwater.client.job import Job
from headwater.wire.operation import Operation, R

A = TypeVar("A")


class Backend(ABC):
    """Performs the operations of every part. Errors are those of the operation, the same in every backend.

    Over HTTP two errors join: `Unreachable` (nothing was sent) and `OutcomeUnknown` (the answer to a change was lost).
    """

    @abstractmethod
    async def ask(self, operation: Operation[R, A], request: R) -> A:
        """The whole answer, with every page of a list."""

    @abstractmethod
    def stream(self, operation: Operation[R, A], request: R, resume: Callable[[A], R] | None = None) -> AsyncIterator[A]:
        """The items of an operation of kind `stream` as they come. `resume`: makes the request that continues after an item, for a broken
        stream.
        """

    @abstractmethod
    async def start(self, operation: Operation[R, A], request: R) -> Job[A]:
        """Start an operation as a job, without waiting for its end."""

    def performer_here(self, part: str) -> Any | None:
        """The performer of a part in this process, for calls that cost less than finding their way; None where a server performs."""
        return None

    def at(self, address: str) -> Backend:
        """The backend that asks the process at an address, such as that of a `NotOwner`; this one where it asks no other."""
        return self

    @abstractmethod
    async def aclose(self) -> None:
        """End the jobs under way and close. Closing twice is no error."""

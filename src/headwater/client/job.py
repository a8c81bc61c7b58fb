"""A job that the door has started. It has the same methods over a directory and over HTTP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from headwater.client.jobs import JobStatus
from headwater.wire.problems import error_in

A = TypeVar("A")
_EACH = 30  # seconds that one question waits for the end


class Job(ABC, Generic[A]):
    """A long operation under way: `await job.status()`, `await job.result()`, `await job.cancel()`."""

    id: str

    @abstractmethod
    async def status(self, wait: int = 0) -> JobStatus:
        """Its progress; waits up to `wait` seconds for its end."""

    @abstractmethod
    async def cancel(self) -> JobStatus:
        """Cancel it. Its finished changes stay."""

    async def result(self) -> A:
        """Its answer, once it has ended. Errors: those of its operation, `Cancelled`."""
        while True:
            status = await self.status(_EACH)
            if status.error is not None:
                raise error_in(status.error)
            if status.state == "done":
                return self._answer(status)

    @abstractmethod
    def _answer(self, status: JobStatus) -> A:
        """The answer as the operation's type."""

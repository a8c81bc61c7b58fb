"""Work that takes longer than a request: started, looked at, cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import Cancelled, HeadwaterError, NotFound
from headwater.core.ids import Ids
from headwater.wire.operation import Operation, Reply
from headwater.wire.problems import Problem, problem_of

JobState = Literal["running", "done", "failed", "cancelled"]
_KEPT = 1000  # ended jobs whose outcome can still be asked for


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A job: what it does, how far it is, and how it ended. `done` and `total` count in the operation's own unit; 0: not known."""

    id: str
    operation: str
    state: JobState
    began: int
    done: int = 0
    total: int = 0
    answer: Any = None
    error: Problem | None = None


class _Job:
    def __init__(self, status: JobStatus, task: asyncio.Task[Any]) -> None:
        self.status, self.task = status, task


class Jobs:
    """The jobs of a server. They end with it."""

    def __init__(self, *, clock: Clock, ids: Ids) -> None:
        self._clock, self._ids = clock, ids
        self._jobs: dict[str, _Job] = {}

    def start(self, operation: Operation[Any, Any], work: Callable[[], Awaitable[Any]]) -> JobStatus:
        """Begin. The answer of `work` becomes the job's, its error as well."""
        status = JobStatus(id=self._ids(), operation=operation.id, state="running", began=self._clock.now_ms())
        task = asyncio.create_task(self._run(status.id, work))
        self._jobs[status.id] = _Job(status, task)
        for identity in [one for one, job in self._jobs.items() if job.status.state != "running"][:-_KEPT]:
            del self._jobs[identity]
        return status

    def status(self, identity: str) -> JobStatus:
        """Errors: `NotFound`."""
        return self._found(identity).status

    async def wait(self, identity: str, seconds: float) -> JobStatus:
        """The status when the job has ended, or after so many seconds. Errors: `NotFound`."""
        await asyncio.wait({self._found(identity).task}, timeout=seconds)
        return self.status(identity)

    async def cancel(self, identity: str) -> JobStatus:
        """End a job that runs; one that has ended stays as it is. Errors: `NotFound`."""
        job = self._found(identity)
        job.task.cancel()
        await asyncio.wait({job.task})
        return self.status(identity)

    async def aclose(self) -> None:
        """End all of them."""
        for job in self._jobs.values():
            job.task.cancel()
        await asyncio.gather(*(job.task for job in self._jobs.values()), return_exceptions=True)

    async def _run(self, identity: str, work: Callable[[], Awaitable[Any]]) -> None:
        await asyncio.sleep(0)  # the job is known before it can end
        try:
            answer = await work()
        except HeadwaterError as error:
            self._ended(identity, "failed", error=problem_of(error, identity))
        except asyncio.CancelledError:
            self._ended(identity, "cancelled", error=problem_of(Cancelled("The job was cancelled.", hint="Start it again."), identity))
        else:
            value = answer.value if isinstance(answer, Reply) else answer
            self._ended(identity, "done", answer=value)

    def _ended(self, identity: str, state: JobState, **how: Any) -> None:
        job = self._jobs[identity]
        job.status = msgspec.structs.replace(job.status, state=state, **how)

    def _found(self, identity: str) -> _Job:
        if identity not in self._jobs:
            raise NotFound(f"There is no job {identity}.", hint="Jobs are known until the server stops, ended ones for a while.")
        return self._jobs[identity]

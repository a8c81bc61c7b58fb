"""The jobs of this process: starts them, reports and awaits their status, cancels them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import Busy, Cancelled, HeadwaterError, NotFound
from headwater.core.ids import Ids
from headwater.wire.operation import Operation, Reply
from headwater.wire.problems import Problem, problem_of
from headwater.wire.progress import heard_by
from headwater.wire.times import show_time

JobState = Literal["running", "done", "failed", "cancelled"]
_RUNNING = 100  # jobs at the same time
_KEPT = 1000  # ended jobs whose status is kept


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A job: its operation, progress and outcome. `done` and `total` count in the operation's own unit; 0: not known."""

    id: str
    operation: str
    state: JobState
    began: str
    done: int = 0
    total: int = 0
    answer: Any = None
    error: Problem | None = None


class Jobs:
    """The jobs of this process. They end with it."""

    def __init__(self, *, clock: Clock, ids: Ids) -> None:
        self._clock, self._ids = clock, ids
        self._statuses: dict[str, JobStatus] = {}
        self._starters: dict[str, object] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, operation: Operation[Any, Any], work: Callable[[], Awaitable[Any]], *, starter: object = None) -> JobStatus:
        """Start a job for `starter`. It ends with the answer or the error of `work`. Errors: `Busy` where as many run as may."""
        if len(self._tasks) >= _RUNNING:
            raise Busy(f"{_RUNNING} jobs run in this process already.", hint="Wait for one of them, or cancel it.")
        began = str(show_time(self._clock.now_ms()))
        status = JobStatus(id=self._ids(), operation=operation.id, state="running", began=began)
        self._statuses[status.id], self._starters[status.id] = status, starter
        self._tasks[status.id] = asyncio.create_task(self._run(status.id, work))
        self._tasks[status.id].add_done_callback(lambda task: self._over(status.id))
        ended = [identity for identity in self._statuses if identity not in self._tasks]
        for identity in ended[: max(0, len(ended) - _KEPT)]:
            del self._statuses[identity], self._starters[identity]
        return status

    def starter(self, identity: str) -> object:
        """Who has started a job; None for an unknown one."""
        return self._starters.get(identity)

    def status(self, identity: str) -> JobStatus:
        """Errors: `NotFound`."""
        if identity not in self._statuses:
            raise NotFound(f"There is no job {identity}.", hint="Jobs are known until the process ends, ended ones for a while.")
        return self._statuses[identity]

    async def wait(self, identity: str, seconds: float | None) -> JobStatus:
        """The status once the job has ended, or after so many seconds. Errors: `NotFound`."""
        status = self.status(identity)
        task = self._tasks.get(identity)
        if task is None or seconds == 0:
            return status
        await asyncio.wait({task}, timeout=seconds)
        return self.status(identity)

    async def cancel(self, identity: str) -> JobStatus:
        """Cancel a running job; an ended one stays as it is. Errors: `NotFound`."""
        self.status(identity)
        task = self._tasks.get(identity)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        return self.status(identity)

    async def aclose(self) -> None:
        """End all of them."""
        running = list(self._tasks.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _run(self, identity: str, work: Callable[[], Awaitable[Any]]) -> None:
        def heard(done: int, total: int) -> None:
            self._now(identity, done=done, total=total)

        try:
            with heard_by(heard):
                answer = await work()
        except HeadwaterError as error:
            self._now(identity, state="failed", error=problem_of(error, identity))
        except asyncio.CancelledError:
            self._now(identity, state="cancelled", error=problem_of(_cancelled(), identity))
        except BaseException:
            self._now(identity, state="failed", error=problem_of(HeadwaterError("The job failed.", hint="See the log."), identity))
            raise
        else:
            self._now(identity, state="done", answer=answer.value if isinstance(answer, Reply) else answer)

    def _over(self, identity: str) -> None:
        self._tasks.pop(identity, None)
        if self._statuses[identity].state == "running":  # it was cancelled before it began
            self._now(identity, state="cancelled", error=problem_of(_cancelled(), identity))

    def _now(self, identity: str, **how: Any) -> None:
        self._statuses[identity] = msgspec.structs.replace(self._statuses[identity], **how)


def _cancelled() -> Cancelled:
    return Cancelled("The job was cancelled.", hint="Start it again.")

"""Performs operations in this process, on the event loop, in a thread or in a subprocess, as the operation's table says."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeVar, cast

from headwater import parts
from headwater.client.backend import Backend
from headwater.client.job import Job
from headwater.client.jobs import Jobs, JobStatus
from headwater.client.local import LocalLog
from headwater.client.subprocess_call import SubprocessCall, performed
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Timeout
from headwater.core.ids import random_id
from headwater.core.settings import Settings
from headwater.log.address import LogAddress
from headwater.wire.operation import Operation, R, Reply
from headwater.wire.part import load

A = TypeVar("A")
_AT_ONCE = 4  # subprocesses of read-only calls at once: a hundred would take the machine's memory


class LocalJob(Job[A]):
    """A job of this process."""

    def __init__(self, jobs: Jobs, identity: str) -> None:
        self._jobs, self.id = jobs, identity

    async def status(self, wait: int = 0) -> JobStatus:
        return await self._jobs.wait(self.id, wait)

    async def cancel(self) -> JobStatus:
        return await self._jobs.cancel(self.id)

    def _answer(self, status: JobStatus) -> A:
        return cast(A, status.answer)


class LocalBackend(Backend):
    """The log of this process and its parts. It makes a part's performer at the part's first operation."""

    def __init__(
        self,
        log: LocalLog,
        *,
        clock: Clock | None = None,
        settings: Settings | None = None,
        performers: Mapping[str, Any] | None = None,
        address: str = "",
    ) -> None:
        """`address`: where this process serves; empty where it does not."""
        self._log, self._clock, self._settings, self._address = log, clock or SystemClock(), settings or Settings(), address
        self._performers: dict[str, Any] = dict(performers or {})
        self._looking = asyncio.Semaphore(_AT_ONCE)
        self.jobs = Jobs(clock=self._clock, ids=random_id)

    async def ask(self, operation: Operation[R, A], request: R) -> A:
        answer = await self.perform(operation, request)
        return cast(A, answer.value if isinstance(answer, Reply) else answer)

    async def stream(self, operation: Operation[R, A], request: R, resume: Callable[[A], R] | None = None) -> AsyncIterator[A]:
        request.check()
        async for item in self.performer(operation.part).stream(operation, request):
            yield item

    async def start(self, operation: Operation[R, A], request: R) -> Job[A]:
        request.check()
        return LocalJob(self.jobs, self.jobs.start(operation, lambda: self.perform(operation, request)).id)

    async def perform(self, operation: Operation[R, A], request: R, *, who: str = "") -> A | Reply[A]:
        """The answer of the part's performer. The audit shows `who`; empty: the user of this process."""
        request.check()
        performer = self.performer(operation.part)
        if inspect.iscoroutinefunction(performer.perform):
            return cast(A, await performer.perform(operation, request, who))
        match operation.runs_in(request):
            case "process":
                return await self._in_process(performer, operation, request, who)
            case "inline":
                return cast(A, performer.perform(await self._log.open(), operation, request, who))
            case "thread":
                return cast(A, await self._log.work(lambda log: performer.perform(log, operation, request, who)))

    async def aclose(self) -> None:
        await self.jobs.aclose()
        for performer in reversed(self._performers.values()):
            if hasattr(performer, "aclose"):
                await performer.aclose()
        self._performers.clear()

    def performer_here(self, part: str) -> Any | None:
        return self.performer(part)

    def performer(self, part: str) -> Any:
        """The performer of a part."""
        if part not in self._performers:
            definition = parts.part_named(part)
            used = {name: self.performer(name) for name in definition.uses}
            performer = load(definition.performs)
            self._performers[part] = performer(log=self._log, clock=self._clock, settings=self._settings, address=self._address, **used)
        return self._performers[part]

    async def _in_process(self, performer: Any, operation: Operation[R, A], request: R, who: str) -> A:
        if operation.changes:
            return await self._call(performer, operation, request, who)
        async with self._looking:
            try:
                async with asyncio.timeout(operation.patience):
                    return await self._call(performer, operation, request, who)
            except TimeoutError:
                raise Timeout(
                    f"{operation.says.rstrip('.')}: that took longer than {operation.patience:.0f} s.", hint=performer.SLOW
                ) from None

    async def _call(self, performer: Any, operation: Operation[R, A], request: R, who: str) -> A:
        log, folder = await self._log.work(lambda log: performer.locate(log, operation, request))
        assert isinstance(log, LogAddress)
        return await performed(SubprocessCall.of(log, operation, request, who), operation, folder)

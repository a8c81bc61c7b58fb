"""A call of a blocking thread, performed by a task of the door's loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

_LOOK = 0.5  # seconds


class BlockingCall:
    """One call of a blocking thread, performed by a task of the loop."""

    __slots__ = ("_args", "_done", "_function", "_loop", "_named", "_running", "task")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        running: set[BlockingCall],
        function: Callable[..., Awaitable[Any]],
        *,
        args: tuple[Any, ...] = (),
        named: dict[str, Any] | None = None,
    ) -> None:
        self._loop, self._running, self._function, self._args, self._named = loop, running, function, args, named or {}
        self._done = threading.Lock()  # free once the task has ended: a condition's own steps take longer than the call's
        self._done.acquire()
        self.task: asyncio.Task[Any] | None = None  # once it has begun

    def start(self) -> None:
        """In the loop's thread."""
        self.task = self._loop.create_task(self._run())
        self._running.add(self)
        self.task.add_done_callback(self._end)

    async def _run(self) -> Any:
        return await self._function(*self._args, **self._named)

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(self)
        self._done.release()

    def result(self) -> Any:
        """In the caller's thread: wait for the end of the task.

        It wakes now and then: the system may give a signal to another thread, and then it does not wake the main one, which handles it.
        """
        while not self._done.acquire(timeout=_LOOK):
            pass
        assert self.task is not None
        return self.task.result()

    def wait(self, seconds: float) -> bool:
        """In the caller's thread: whether the task has ended within the time, with a result or an error."""
        return self._done.acquire(timeout=seconds)

    def give_up(self) -> None:
        """In the caller's thread: cancel the task if it has begun and not ended, or is about to begin."""
        if self.task is None or not self.task.done():
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    def abandon(self) -> None:
        """In the loop's thread: leave the caller waiting. It is a daemon's thread in an interpreter that exits: an error would be noise."""
        if self.task is not None:
            self.task.remove_done_callback(self._end)

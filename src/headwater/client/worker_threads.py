"""Threads that run plain functions for a worker, and do not keep the process from ending."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from contextvars import ContextVar, copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any

_Runner = Callable[[Callable[[], Any]], Awaitable[Any]]
_runner: ContextVar[_Runner | None] = ContextVar("runner", default=None)
_Call = tuple[Future[Any], Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class WorkerThreads(Executor):
    """Up to `count` threads, started when they are needed. Python waits for those of a `ThreadPoolExecutor` before a process ends, for ever
    where a function hangs; it does not wait for these."""

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._guard = threading.Lock()
        self._started = self._busy = 0
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function in a thread: at once where one is free, else when one is."""
        future: Future[Any] = Future()
        with self._guard:
            if self._closed:
                raise RuntimeError("the threads have ended")
            self._busy += 1
            more = self._busy > self._started and self._started < self._count
            self._started += more
        self._calls.put((future, fn, args, kwargs))
        if more:
            threading.Thread(target=self._run, name=f"{self._name}-{self._started}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Let the threads end when what was submitted has ended. Nobody waits for them."""
        with self._guard:
            self._closed = True
            for _ in range(self._started):
                self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function, words, named = call
            if future.set_running_or_notify_cancel():
                try:
                    result = function(*words, **named)
                except BaseException as error:
                    future.set_exception(error)
                    del error
                else:
                    future.set_result(result)
                    del result
            with self._guard:
                self._busy -= 1
            del call, future, function, words, named


class RowThreads:
    """Runs the plain functions of a worker's rows in threads, and knows which rows run there: those cannot be cancelled."""

    def __init__(self, threads: WorkerThreads) -> None:
        self._threads = threads
        self._tokens: set[str] = set()

    def __contains__(self, token: str) -> bool:
        return token in self._tokens

    def enter(self, token: str) -> None:
        """What the running task calls by `in_thread` runs for the row of this token."""
        _runner.set(partial(self._call, token))

    async def _call(self, token: str, function: Callable[[], Any]) -> Any:
        context = copy_context()
        context.run(_runner.set, None)  # a loop of the function's own must not wait for a thread in which it runs itself
        self._tokens.add(token)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, context.run, function)
        finally:
            self._tokens.discard(token)


async def in_thread(function: Callable[[], Any]) -> Any:
    """Call a plain function in a thread: one of the worker's, where a worker runs a row by it, which then knows."""
    runner = _runner.get()
    return await (asyncio.to_thread(function) if runner is None else runner(function))

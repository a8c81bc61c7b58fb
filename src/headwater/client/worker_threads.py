"""Threads that run plain functions for a worker, and do not keep the process from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any

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

"""Functions as tasks of a queue: `await rebuild.put("/about")` puts a row that calls `rebuild("/about")` in a worker."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

from headwater.client.worker_threads import in_thread
from headwater.core.errors import BadInput
from headwater.queue.handling import Backoff, GiveUp, Retry
from headwater.queue.schedule import read_schedule

_FIELDS = frozenset({"task", "args", "named"})


class Tasks:
    """The tasks of one queue, by name. A worker takes it for its function, and so does `headwater queue work QUEUE module:tasks`.

        tasks = Tasks()

        @tasks.task(key=lambda path: f"page:{path}", retry=Backoff("5s", "1h"))
        async def rebuild(path: str) -> None: ...

        tasks.bind(await hw.queue("pages", create=True))
        await rebuild.put("/about")

    A row whose data name no task here is given up: nobody here can ever run it. `opens`: opens a queue of the blocking door at the first
    put of a process in which nobody has bound one, for programs such as Django's that have no place to do so.
    """

    def __init__(self, *, opens: Callable[[], Any] | None = None) -> None:
        self._tasks: dict[str, Task] = {}
        self._schedules: dict[Task, dict[str, str]] = {}
        self._queue: Any = None
        self._opens, self._gate = opens, threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None  # in which the queue was bound
        self._random = Random()

    def bind(self, queue: Any) -> None:
        """Put rows into this queue: one of the door's, or of the blocking door's. A worker process binds its own."""
        self._queue = queue
        with suppress(RuntimeError):  # there is none
            self._loop = asyncio.get_running_loop()

    def task(
        self,
        *,
        key: Callable[..., str] | str | None = None,
        name: str = "",
        priority: int | None = None,
        retry: Backoff | None = None,
        every: str | None = None,
        cron: str | None = None,
        zone: str | None = None,
    ) -> Callable[[Callable[..., Any]], Task]:
        """Make a function a task. `key`: the key of a row, or a function of the same arguments that makes it: rows of one key are merged.

        Left out, a row's key is the task's name with its arguments. `retry`: how long it waits after it has raised. `every`, such as "1h",
        or `cron`, such as "0 6 * * 1-5", by the clocks of a `zone`: the task runs by itself, without arguments; the workers of these tasks
        put its row when they begin. Errors: `BadInput`, also for a schedule of a function that needs arguments.
        """
        schedule = {name: value for name, value in (("every", every), ("cron", cron), ("zone", zone)) if value is not None}
        read_schedule(**schedule)

        def made(function: Callable[..., Any]) -> Task:
            called = name or function.__name__
            if called in self._tasks:
                raise BadInput(f"There are two tasks named {called}.", hint='Give one of them another name: @tasks.task(name="…").')
            task = Task(self, called, function, key=key, priority=priority, retry=retry)
            if schedule:
                _check_callable_alone(function, called)
                self._schedules[task] = schedule
            self._tasks[called] = task
            return self._tasks[called]

        return made

    @property
    def queue(self) -> Any:
        """The queue that rows are put into. Errors: `BadInput` before `bind`, where nothing opens one."""
        with self._gate:
            if self._queue is None and self._opens is not None:
                self._queue = self._opens()
        if self._queue is None:
            raise BadInput("These tasks have no queue yet.", hint='Give them one: tasks.bind(await hw.queue("…")).')
        return self._queue

    def done_here(self, call: Any) -> Any:
        """A call of the queue as its caller needs it: what is to be awaited; in a thread without a loop the answer itself.

        Plain code cannot await: what it puts would be lost without a word.
        """
        if not inspect.iscoroutine(call) or self._loop is None:
            return call
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run_coroutine_threadsafe(call, self._loop).result()
        return call

    async def put_schedules(self, queue: Any) -> None:
        """Put the rows of the tasks that have a schedule. A worker does so when it begins; a row that has its schedule keeps its date.

        A schedule that the program has no longer stays with its row, until somebody cancels that. Errors: those of a put.
        """
        for task, schedule in self._schedules.items():
            await queue.put(task.key(), task.data(), **task.options(schedule))

    async def __call__(self, row: Any) -> Any:
        """Run the task of a row; return its result. Errors: what it raises; `GiveUp` for a row that is none of these tasks."""
        data = row.data
        if not isinstance(data, Mapping) or not data.keys() <= _FIELDS or data.get("task") not in self._tasks:
            raise GiveUp(f"The row names none of the tasks {', '.join(sorted(self._tasks))}.")
        task = self._tasks[data["task"]]
        try:
            return await task.run(*data.get("args", ()), **data.get("named", {}))
        except (Retry, GiveUp):
            raise
        except Exception as error:
            if task.retry is None:
                raise
            wait = task.retry.wait_ms(row.failures + 1, self._random)
            raise Retry(f"{type(error).__name__}: {error}", after=f"{wait}ms") from error


class Task:
    """A function that rows call. Calling it runs it here and now; `put` has a worker run it."""

    def __init__(
        self,
        tasks: Tasks,
        name: str,
        function: Callable[..., Any],
        *,
        key: Callable[..., str] | str | None,
        priority: int | None,
        retry: Backoff | None,
    ) -> None:
        self._tasks, self.name, self._function, self._key, self._priority, self.retry = tasks, name, function, key, priority, retry

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._function(*args, **named)

    async def run(self, *args: Any, **named: Any) -> Any:
        """Run it: an asyncio function here, a plain one in a thread, which is one of the worker's in a worker."""
        if inspect.iscoroutinefunction(self._function):
            return await self._function(*args, **named)
        return await in_thread(partial(self._function, *args, **named))

    def put(self, *args: Any, **named: Any) -> Any:
        """Put a row that calls it with these arguments, which JSON can hold. To be awaited, except with a queue of the blocking door, and
        in a thread without a loop, such as that of a plain task."""
        return self.put_with({}, *args, **named)

    def put_with(self, options: Mapping[str, Any], /, *args: Any, **named: Any) -> Any:
        """`put` with options of the queue's `put`, such as {"delay": "10s"}."""
        row = self.data(*args, **named)
        return self._tasks.done_here(self._tasks.queue.put(self.key(*args, **named), row, **self.options(options)))

    def data(self, *args: Any, **named: Any) -> dict[str, Any]:
        """The data of a row with these arguments."""
        return {"task": self.name, "args": args, **({"named": named} if named else {})}

    def options(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a put: as given, and with the task's priority."""
        return {**({} if self._priority is None else {"priority": self._priority}), **overrides}

    def key(self, *args: Any, **named: Any) -> str:
        """The key of a row with these arguments."""
        if callable(self._key):
            return self._key(*args, **named)
        if self._key is not None:
            return self._key
        words = [*(repr(word) for word in args), *(f"{name}={word!r}" for name, word in sorted(named.items()))]
        return f"{self.name}({', '.join(words)})"


def _check_callable_alone(function: Callable[..., Any], name: str) -> None:
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        hint = "Give its arguments defaults, or put rows of it with `put_with`."
        raise BadInput(f"The task {name} has a schedule, and is called without arguments: {error}.", hint=hint) from None

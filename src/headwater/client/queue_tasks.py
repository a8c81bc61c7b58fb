"""Functions as tasks of a queue: `await rebuild.put("/about")` puts a row that calls `rebuild("/about")` in a worker."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from headwater.core.errors import BadInput
from headwater.queue.handling import Backoff, GiveUp, Retry

_FIELDS = frozenset({"task", "args", "named"})


class Tasks:
    """The tasks of one queue, by name. A worker takes it for its function, and so does `headwater queue work QUEUE module:tasks`.

        tasks = Tasks()

        @tasks.task(key=lambda path: f"page:{path}", retry=Backoff("5s", "1h"))
        async def rebuild(path: str) -> None: ...

        tasks.bind(await hw.queue("pages", create=True))
        await rebuild.put("/about")

    A row whose data name no task here is given up: nobody here can ever run it.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._queue: Any = None
        self._random = Random()

    def bind(self, queue: Any) -> None:
        """Put rows into this queue: one of the door's, or of the blocking door's. A worker process binds its own."""
        self._queue = queue

    def task(
        self,
        *,
        key: Callable[..., str] | str | None = None,
        name: str = "",
        priority: int | None = None,
        retry: Backoff | None = None,
    ) -> Callable[[Callable[..., Any]], Task]:
        """Make a function a task. `key`: the key of a row, or a function of the same arguments that makes it: rows of one key are merged.

        Left out, a row's key is the task's name with its arguments. `retry`: how long it waits after it has raised. Errors: `BadInput`.
        """

        def made(function: Callable[..., Any]) -> Task:
            called = name or function.__name__
            if called in self._tasks:
                raise BadInput(f"There are two tasks named {called}.", hint='Give one of them another name: @tasks.task(name="…").')
            self._tasks[called] = Task(self, called, function, key=key, priority=priority, retry=retry)
            return self._tasks[called]

        return made

    @property
    def queue(self) -> Any:
        """The queue that rows are put into. Errors: `BadInput` before `bind`."""
        if self._queue is None:
            raise BadInput("These tasks have no queue yet.", hint='Give them one: tasks.bind(await hw.queue("…")).')
        return self._queue

    async def __call__(self, row: Any) -> None:
        """Run the task of a row. Errors: what it raises; `GiveUp` for a row that is none of these tasks."""
        data = row.data
        if not isinstance(data, Mapping) or not data.keys() <= _FIELDS or data.get("task") not in self._tasks:
            raise GiveUp(f"The row names none of the tasks {', '.join(sorted(self._tasks))}.")
        task = self._tasks[data["task"]]
        try:
            await task.run(*data.get("args", ()), **data.get("named", {}))
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

    async def run(self, *args: Any, **named: Any) -> None:
        """Run it: an asyncio function here, a plain one in a thread."""
        if inspect.iscoroutinefunction(self._function):
            await self._function(*args, **named)
        else:
            await asyncio.to_thread(self._function, *args, **named)

    def put(self, *args: Any, **named: Any) -> Any:
        """Put a row that calls it with these arguments, which JSON can hold; to be awaited, unless the queue is the blocking door's."""
        return self.put_with({}, *args, **named)

    def put_with(self, options: Mapping[str, Any], /, *args: Any, **named: Any) -> Any:
        """`put` with options of the queue's `put`, such as {"delay": "10s"}."""
        data = {"task": self.name, "args": args, **({"named": named} if named else {})}
        given = {} if self._priority is None else {"priority": self._priority}
        return self._tasks.queue.put(self.key(*args, **named), data, **{**given, **options})

    def key(self, *args: Any, **named: Any) -> str:
        """The key of a row with these arguments."""
        if callable(self._key):
            return self._key(*args, **named)
        if self._key is not None:
            return self._key
        words = [*(repr(word) for word in args), *(f"{name}={word!r}" for name, word in sorted(named.items()))]
        return f"{self.name}({', '.join(words)})"

"""The door for plain code: every await becomes a call, every async iterator an iterator. One thread runs the loop.

`python -m tools.blocking_stub` writes its types for editors and mypy to `blocking.pyi`, from the classes of the door.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headwater.client.door import Headwater
from headwater.client.door import open as open_async
from headwater.core.clock import Clock
from headwater.core.config import Config
from headwater.core.errors import Closed

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal


def open_blocking(
    where: str | Path | None = None,
    *,
    create: bool = False,
    config: Config | Path | None = None,
    token: str | None = None,
    ca: str | Path | None = None,
    clock: Clock | None = None,
) -> Blocking:
    """`headwater.open` for code without asyncio, and for notebooks: `with headwater.open_blocking("./data") as hw: hw.log.topics()`.

    Errors: `RuntimeError` inside a running event loop, which a blocking call would stop: use `headwater.open` there. It works in a
    notebook, whose loop waits for each cell anyway.
    """
    return Blocking(open_async(where, create=create, config=config, token=token, ca=ca, clock=clock))


class Blocking:
    """The door with blocking calls. Several threads may use it and the objects that it returns."""

    def __init__(self, door: Headwater) -> None:
        self._door = door
        self._starting: AbstractContextManager[BlockingPortal] | None = None
        self._loop: _Loop | None = None

    @property
    def address(self) -> str | None:
        """The server's address; None when the directory is open in this process."""
        return self._door.address

    def __enter__(self) -> Self:
        _refuse_in_loop()
        from anyio.from_thread import start_blocking_portal

        self._starting = start_blocking_portal(name="headwater-door")
        self._loop = _Loop(self._starting.__enter__())
        try:
            self._loop.call(self._door.__aenter__)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the door and end the thread. Closing twice is no error."""
        if self._loop is not None:
            try:
                self._loop.call(self._door.aclose)
            finally:
                self._end()

    def _end(self) -> None:
        starting, self._starting = self._starting, None
        if self._loop is not None:
            self._loop.closed = True
            self._loop = None
        if starting is not None:
            starting.__exit__(None, None, None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._loop is None:
            raise Closed("This headwater is not open.", hint="Use it inside `with headwater.open_blocking(...) as hw:`.")
        return self._loop.wrapped(getattr(self._door, name))

    def __dir__(self) -> list[str]:
        return sorted({"close", *(name for name in dir(self._door) if not name.startswith("_") and name != "aclose")})


class BlockingObject:
    """The base of blocking classes. `blocking_class` makes each from a class of the door, with its signatures and docstrings."""

    def __init__(self, of: Any, loop: _Loop) -> None:
        self._of, self._loop = of, loop

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._loop.wrapped(getattr(self._of, name))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._of!r}>"


class _Loop:
    """The thread with the event loop, and whether it is open."""

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal
        self.closed = False

    def call(self, function: Callable[..., Awaitable[Any]], *args: Any, **named: Any) -> Any:
        _refuse_in_loop()
        if self.closed:
            raise Closed("This headwater is closed.", hint="Open it again.")

        async def run() -> Any:
            return await function(*args, **named)

        future: Future[Any] = self._portal.start_task_soon(run)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C during the wait: the task must not go on
            raise

    def iterate(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self.wrapped(self.call(items.__anext__))
                except StopAsyncIteration:
                    return
        finally:
            close = getattr(items, "aclose", None)
            if close is not None and not self.closed:
                self.call(close)

    def wrapped(self, value: Any) -> Any:
        """The value itself, or a blocking wrapper of an object with async methods."""
        if inspect.isasyncgen(value):
            return self.iterate(value)
        kind = _interface(type(value))
        return blocking_class(kind)(value, self) if _awaits(kind) else value


@functools.cache
def blocking_class(kind: type) -> type[BlockingObject]:
    """The blocking class for one of the door's: the same methods without `await`."""
    made: dict[str, Any] = {"__doc__": kind.__doc__, "__module__": __name__}
    for name in dir(kind):
        value = inspect.getattr_static(kind, name)
        if name.startswith("_") and name not in ("__getitem__", "__call__"):
            continue
        if name == "aclose":
            made["close"] = _calling("aclose", value)
        elif inspect.isfunction(value):
            made[name] = _calling(name, value)
    if hasattr(kind, "__aenter__"):
        made["__enter__"] = lambda self: self._loop.wrapped(self._loop.call(self._of.__aenter__))
        made["__exit__"] = lambda self, *error: self._loop.call(self._of.__aexit__, *error)
    if hasattr(kind, "__aiter__"):
        made["__iter__"] = lambda self: self._loop.iterate(aiter(self._of))
    return type(f"Blocking{kind.__name__.removeprefix('Async')}", (BlockingObject,), made)


def _calling(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(self: BlockingObject, *args: Any, **named: Any) -> Any:
        method, loop = getattr(self._of, name), self._loop
        if inspect.iscoroutinefunction(method):
            return loop.wrapped(loop.call(method, *args, **named))
        return loop.wrapped(method(*args, **named))

    call.__doc__ = inspect.getdoc(function)
    return call


def _interface(kind: type) -> type:
    """The class with the docstrings of a type: its abstract base, or itself."""
    return next((base for base in kind.__mro__ if inspect.isabstract(base)), kind)


@functools.cache
def _awaits(kind: type) -> bool:
    """Whether a class has async methods."""
    if kind.__module__.partition(".")[0] == "builtins":
        return False
    names = [name for name in dir(kind) if not name.startswith("_") or name in ("__aenter__", "__getitem__", "__call__")]
    values = [inspect.getattr_static(kind, name) for name in names]
    return any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in values)


def _refuse_in_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if _in_notebook():
        return
    raise RuntimeError(
        "headwater.open_blocking waits, which would stop the running event loop. Use `async with headwater.open(...)` there."
    )


def _in_notebook() -> bool:
    """Whether a notebook's cell runs this code: the kernel's loop waits for the cell anyway."""
    shell = sys.modules.get("IPython")
    return shell is not None and shell.get_ipython() is not None

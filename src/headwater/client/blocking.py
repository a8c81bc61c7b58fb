"""The door for plain code: every await becomes a call, every async iterator an iterator. One thread runs the loop."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headwater.client.door import open as open_async
from headwater.core.clock import Clock
from headwater.core.config import Config
from headwater.core.errors import Closed

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal


def open_blocking(
    where: str | Path | None = None,
    *,
    config: Config | Path | None = None,
    token: str | None = None,
    ca: str | Path | None = None,
    clock: Clock | None = None,
) -> Blocking:
    """`headwater.open` for code without asyncio: `with headwater.open_blocking("./data") as hw: hw.log.topics()`.

    Errors: `RuntimeError` inside a running loop, where waiting would stop everything else: use `headwater.open` there.
    """
    return Blocking(open_async(where, config=config, token=token, ca=ca, clock=clock))


class Blocking:
    """A Headwater whose calls wait. It and what it gives may be used from several threads."""

    def __init__(self, door: Any) -> None:
        self._door = door
        self._starting: AbstractContextManager[BlockingPortal] | None = None
        self._loop: _Loop | None = None

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
        """Let go of everything and end the thread. Closing twice is no error."""
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
        return _wrapped(getattr(self._door, name), self._loop)


class _Part:
    """One of the door's objects, such as `hw.log`, with calls that wait."""

    def __init__(self, part: Any, loop: _Loop) -> None:
        self._part, self._loop = part, loop

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _wrapped(getattr(self._part, name), self._loop)

    def __getitem__(self, name: str) -> Any:
        return _wrapped(self._part[name], self._loop)

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._part) if not name.startswith("_")]


class _Loop:
    """The portal, and whether it may still be used."""

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
            future.cancel()  # Ctrl-C while waiting: the task must not go on unseen
            raise

    def iterate(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self.call(items.__anext__)
                except StopAsyncIteration:
                    return
        finally:
            close = getattr(items, "aclose", None)
            if close is not None and not self.closed:
                self.call(close)


def _wrapped(value: Any, loop: _Loop) -> Any:
    if inspect.iscoroutinefunction(value):
        return lambda *args, **named: loop.call(value, *args, **named)
    if inspect.isasyncgenfunction(value):
        return lambda *args, **named: loop.iterate(value(*args, **named))
    if type(value).__module__.startswith("headwater.client"):
        return _Part(value, loop)
    return value


def _refuse_in_loop() -> None:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "headwater.open_blocking waits, which would stop the running event loop. Use `async with headwater.open(...)` there."
    )

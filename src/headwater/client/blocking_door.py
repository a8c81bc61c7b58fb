"""The door for plain code: every await becomes a call, every async iterator an iterator. One thread runs the loop.

Users import it from `blocking`, whose stub has the types: `python -m tools.blocking_stub` writes them from the classes of the door.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import re
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import AsyncGeneratorType, TracebackType
from typing import Any, Self

from headwater.client.blocking_call import BlockingCall
from headwater.client.door import Headwater
from headwater.client.door import open as open_async
from headwater.client.exit_threads import end_at_exit
from headwater.core.clock import Clock
from headwater.core.config import Config
from headwater.core.errors import Closed


def open_blocking(
    where: str | Path | None = None,
    *,
    create: bool = False,
    config: Config | str | Path | None = None,
    token: str | None = None,
    ca: str | Path | None = None,
    clock: Clock | None = None,
) -> Blocking:
    """`headwater.open` for code without asyncio, and for notebooks: `with headwater.open_blocking("./data") as hw: hw.log.topics()`.

    The door is open when this returns, so a notebook needs no `with`: `hw.close()` closes it, too. Errors: those of `headwater.open`;
    `RuntimeError` inside a running event loop, which a blocking call would stop: use `headwater.open` there. It works in a notebook,
    whose loop waits for each cell anyway.
    """
    return Blocking(open_async(where, create=create, config=config, token=token, ca=ca, clock=clock)).__enter__()


class Blocking:
    """The door with blocking calls. Several threads may use it and the objects that it returns."""

    def __init__(self, door: Headwater) -> None:
        self._door = door
        self._loop: _Loop | None = None

    @property
    def address(self) -> str | None:
        """The server's address; None when the directory is open in this process."""
        return self._door.address

    def __enter__(self) -> Self:
        """Open the door, where it is not open. Errors as `open_blocking`."""
        if self._loop is not None:
            return self
        _refuse_in_loop()
        self._loop = _Loop()
        try:
            self._loop.start()
            self._loop.call(self._door.__aenter__)
            end_at_exit(self)
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
                self._loop.call(self._loop.close_streams)
                self._loop.call(self._door.aclose)
            finally:
                self._end()

    def end(self) -> None:
        """Close the door while the interpreter exits, within seconds. A call that a daemon's thread waits for is never answered."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.end(self._door.aclose)

    def _end(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._loop is None:
            raise Closed("This headwater is closed.", hint="Open another with headwater.open_blocking(...).")
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

    def __dir__(self) -> list[str]:
        own = [name for name in super().__dir__() if not name.startswith("_")]
        return sorted({*own, *(name for name in _values_of(self._of) if not name.startswith("_"))})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._of!r}>"


async def _close(items: Any) -> None:
    """Close a generator. A call of it that Ctrl-C has given up may still be ending: it is waited for."""
    while getattr(items, "ag_running", False):
        await asyncio.sleep(0)
    await items.aclose()


_LONGEST_END = 5.0  # seconds that the exit of the interpreter waits for the thread


class _Loop:
    """The thread with the event loop, and whether it is open."""

    _loop: asyncio.AbstractEventLoop
    _over: asyncio.Event

    def __init__(self) -> None:
        self._running: set[BlockingCall] = set()
        self._streams: weakref.WeakSet[AsyncGeneratorType[Any, Any]] = weakref.WeakSet()
        self._gate = threading.Lock()  # between a look at `closed` and the start of a call
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="headwater-door", daemon=True)
        self.closed = True

    def start(self) -> None:
        """Start the thread and wait for its loop. Interrupted, as by Ctrl-C, it waits for nothing: the thread then ends by itself."""
        self.closed = False
        try:
            self._thread.start()
            self._ready.wait()
            if self._failure is not None:
                raise self._failure
        except BaseException as error:
            self.closed = True
            self._stop()
            interrupt = error.__context__
            if isinstance(error, RuntimeError) and isinstance(interrupt, KeyboardInterrupt):
                raise interrupt from None  # it came between two steps of `threading`, which then could not give back its own lock
            raise

    def _run(self) -> None:
        try:
            import anyio

            anyio.run(self._serve)
        except BaseException as error:
            self._failure = error
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        if not self.closed:
            await self._over.wait()

    def _stop(self) -> None:
        if self._ready.is_set() and self._failure is None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._over.set)

    def end(self, last: Callable[[], Awaitable[None]]) -> None:
        """Let no new call begin, do the last thing, and end the thread, whatever goes on; wait for a few seconds at most."""
        if self.closed or self._forked:
            return
        with self._gate:
            self.closed = True
            call = BlockingCall(self._loop, set(), last)
            self._loop.call_soon_threadsafe(self._abandon)
            self._loop.call_soon_threadsafe(call.start)
        call.wait(_LONGEST_END)
        self._stop()
        self._thread.join(_LONGEST_END)

    def _abandon(self) -> None:
        for call in self._running:
            call.abandon()

    def call(self, function: Callable[..., Awaitable[Any]], *args: Any, **named: Any) -> Any:
        _refuse_in_loop()
        if self._forked:
            raise Closed("This headwater was opened before this process was forked.", hint="Open it anew in this process.")
        call = BlockingCall(self._loop, self._running, function, args=args, named=named)
        try:
            with self._gate:
                if self.closed:
                    raise Closed("This headwater is closed.", hint="Open it again.")
                self._loop.call_soon_threadsafe(call.start)
            return call.result()
        except BaseException:
            call.give_up()  # Ctrl-C: the task must not go on
            raise

    def close(self) -> None:
        """Let no new call begin, wait for those under way, and end the thread."""
        if self.closed or self._forked:
            return
        try:
            with self._gate:
                self.closed = True
                last = BlockingCall(self._loop, self._running, self._ended)
                self._loop.call_soon_threadsafe(last.start)  # behind every call that has begun
            last.result()
        finally:
            self._stop()
        self._thread.join()

    @property
    def _forked(self) -> bool:
        """Whether this is a child of the process with the thread: nobody would answer its calls."""
        return os.getpid() != self._process

    async def _ended(self) -> None:
        while tasks := {call.task for call in self._running if call.task is not None} - {asyncio.current_task()}:
            await asyncio.wait(tasks)

    async def close_streams(self) -> None:
        """Close the generators that nobody waits for: a loop that ends closes all of them at once, those inside of others, too, and prints
        the errors of that."""
        for items in list(self._streams):
            if not items.ag_running:
                await items.aclose()

    def iterate(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        if inspect.isasyncgen(items):
            self._streams.add(items)
        try:
            while True:
                try:
                    yield self.wrapped(self.call(items.__anext__))
                except StopAsyncIteration:
                    return
        finally:
            if hasattr(items, "aclose") and not (self.closed or self._forked):
                self.call(_close, items)

    def wrapped(self, value: Any) -> Any:
        """The value itself, or a blocking wrapper of an object with async methods; of a list or a named tuple, of each of its items."""
        if inspect.isasyncgen(value):
            return self.iterate(value)
        kind: type = type(value)
        if kind is list and value:
            first: type = type(value[0])
            if _wrapper(first) is None:
                return value
            return [self.wrapped(item) for item in value]
        if kind.__base__ is tuple and hasattr(kind, "_fields"):
            return kind(*map(self.wrapped, value))
        wrapper = _wrapper(kind)
        return value if wrapper is None else wrapper(value, self)


@functools.cache
def _wrapper(kind: type) -> type[BlockingObject] | None:
    """The blocking class for values of a type; None: they need none."""
    interface = _interface(kind)
    return blocking_class(interface) if _awaits(interface) else None


@functools.cache
def blocking_class(kind: type) -> type[BlockingObject]:
    """The blocking class for one of the door's: the same methods without `await`."""
    made: dict[str, Any] = {"__doc__": blocking_text(kind.__doc__), "__module__": __name__}
    for name in dir(kind):
        value = inspect.getattr_static(kind, name)
        if name.startswith("_") and name not in ("__getitem__", "__iter__", "__call__"):
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
        if _is_coroutine(getattr(method, "__func__", method)):
            return loop.wrapped(loop.call(method, *args, **named))
        made = method(*args, **named)
        if named.get("create") and hasattr(type(made), "__await__"):  # `await hw.queue("pages", create=True)` makes the queue
            made = loop.call(_awaited, made)
        return loop.wrapped(made)

    call.__doc__ = blocking_text(inspect.getdoc(function))
    returns = function.__annotations__.get("return")
    if isinstance(returns, str) and "Async" in returns:
        blocking = inspect.signature(function).replace(return_annotation=returns.replace("Async", ""))
        call.__signature__ = blocking  # type: ignore[attr-defined]  # help() prints it
    return call


def blocking_text(text: str | None) -> str | None:
    """A docstring with its examples as they are for plain code: without `await`, and without `async` before `with` and `for`."""
    return text and re.sub(r"\bawait (?=\w)|\basync (?=with |for )", "", text)


def _values_of(value: Any) -> list[str]:
    """The names of a value's attributes that are no methods."""
    kind = _interface(type(value))
    fields = [name for name in dir(kind) if not inspect.isroutine(inspect.getattr_static(kind, name))]
    return fields + (list(getattr(value, "__dict__", ())) if kind is type(value) else [])


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


_is_coroutine = functools.lru_cache(maxsize=1024)(inspect.iscoroutinefunction)


def _interface(kind: type) -> type:
    """The class with the docstrings of a type: its abstract base, or itself."""
    return next((base for base in kind.__mro__ if inspect.isabstract(base)), kind)


def _awaits(kind: type) -> bool:
    """Whether a class has async methods."""
    if kind.__module__.partition(".")[0] == "builtins":
        return False
    names = [name for name in dir(kind) if not name.startswith("_") or name in ("__aenter__", "__getitem__", "__call__")]
    values = [inspect.getattr_static(kind, name) for name in names]
    return any(inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method) for method in values)


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

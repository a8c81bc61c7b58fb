"""A worker process of a queue: `headwater queue work` starts them. The order comes as its argument; the report goes to standard output."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import msgspec

from headwater.client.queue import OneQueue
from headwater.client.queue_running import WorkerReport
from headwater.client.queue_worker import QueueWorker
from headwater.client.row_lines import show_rows
from headwater.core.clock import SystemClock
from headwater.core.errors import BadInput, HeadwaterError
from headwater.wire.problems import encoded, problem_of

FAILED = 70  # the exit code of a process that ended with an error, which it has written to standard output


class WorkOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows a process works on, how, and where the queue is: at an address, in a directory, or behind a socket of its parent."""

    queue: str
    function: str
    concurrency: int = 8
    lease: str | None = None
    group: str = "default"
    grace: str = "30s"
    drain: bool = False
    verbose: bool = False
    where: str = ""
    config: str | None = None
    socket: str = ""


def load_function(name: str) -> Callable[[Any], Any]:
    """The function that `module:function` names. Errors: `BadInput` for what cannot be imported or called."""
    module, colon, path = name.partition(":")
    if not colon or not module or not path:
        raise BadInput(f"{name!r} names no function.", hint="Write it such as shop.pages:rebuild.")
    if "" not in sys.path:
        sys.path.insert(0, "")  # the folder in which the command was started, as `python -m` has it
    try:
        target: Any = importlib.import_module(module)
    except ImportError as error:
        raise BadInput(f"{module} cannot be imported: {error}.", hint="Start the command where the module is, or install it.") from error
    for word in path.split("."):
        target = getattr(target, word, None)
    if not callable(target):
        raise BadInput(f"{module} has no function {path}.", hint="Name one that takes a row.")
    function: Callable[[Any], Any] = target
    return function


@asynccontextmanager
async def queue_of(order: WorkOrder) -> AsyncIterator[OneQueue]:
    """The queue of an order. Errors: those of the door."""
    if order.socket:
        from headwater.client.http import HttpConnection
        from headwater.client.remote_backend import RemoteBackend

        http = HttpConnection("http://localhost", token=None, unix=Path(order.socket), only_unix=True)
        backend = RemoteBackend(http, clock=SystemClock())
        try:
            yield OneQueue(backend, order.queue)
        finally:
            await backend.aclose()
        return
    import headwater

    async with headwater.open(order.where, config=order.config) as hw:
        yield hw.queue(order.queue)


async def work(order: WorkOrder, started: Callable[[QueueWorker], None] | None = None) -> WorkerReport:
    """Work until stopped, or until the queue is drained. `started` gets the worker. Errors: those of the door and of the worker."""
    function = load_function(order.function)
    async with queue_of(order) as queue:
        await queue.open()
        bound = getattr(function, "bind", None)
        if callable(bound):  # tasks put rows into their own queue
            bound(queue)
        worker = queue.worker(
            function, concurrency=order.concurrency, lease=order.lease, group=order.group, grace=order.grace, drain=order.drain
        )
        async with worker:
            if started is not None:
                started(worker)
            return await worker.run()


def main() -> None:
    """Work as the first argument says, until the parent has closed standard input, or SIGTERM."""
    order = msgspec.json.decode(sys.argv[1].encode(), type=WorkOrder)
    sys.stdout, out = sys.stderr, sys.stdout  # what the function prints is no report
    show_rows(verbose=order.verbose)
    code = 1
    try:
        try:
            written, code = msgspec.json.encode(asyncio.run(_work(order, out))), 0
        except HeadwaterError as error:
            written, code = encoded(problem_of(error, "")), FAILED
        with suppress(OSError):  # the parent is gone
            out.write(written.decode() + "\n")
            out.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)  # a thread that does not end must not keep the process


async def _work(order: WorkOrder, out: TextIO) -> WorkerReport:
    loop = asyncio.get_running_loop()

    def watch(worker: QueueWorker) -> None:
        with suppress(OSError):
            out.write("\n")  # before the report: the parent knows by it that this process has begun to work
            out.flush()

        def ended() -> None:
            sys.stdin.buffer.read()  # returns when the parent is gone, however it ended
            loop.call_soon_threadsafe(worker.stop)

        threading.Thread(target=ended, daemon=True).start()

    return await work(order, watch)


if __name__ == "__main__":
    main()

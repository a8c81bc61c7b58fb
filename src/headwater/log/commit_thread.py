"""The thread of a group commit: calls that queue up during one commit become the next one."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from headwater.log.layout import MAX_BATCH

MOST_BYTES = MAX_BATCH // 2  # of the records that are committed at once
Call = TypeVar("Call")


class CommitThread(ABC, Generic[Call]):
    """Takes calls from one event loop, and commits in a thread of its own those that wait: in their order, and as many as fit at once.

    It never waits for more calls. A class that extends it says how to commit, and puts calls into the queue from the loop: `_queue.append`,
    and `_rouse` where `_idle` is set.
    """

    def __init__(self, *, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._future = self._loop.create_future
        self._queue: list[Call] = []
        self._wake: SimpleQueue[None] = SimpleQueue()  # written in C: a Semaphore's own steps take longer than the wake-up
        self._idle = True
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"headwater-append-{name}", daemon=True)
        self._thread.start()

    @abstractmethod
    def _commit(self) -> None:
        """In the thread: take some calls from the head of the queue, at least one, commit them, and `_tell` them.

        Raises nothing. Removes calls by count: replacing the list would lose a concurrent call.
        """

    def _ready(self) -> bool:
        """In the thread: whether there is something to commit."""
        return bool(self._queue)

    def _under_way(self) -> bool:
        """In the thread: whether calls wait for something that is not a commit. Whoever ends it puts something into `_wake`."""
        return False

    def _rouse(self) -> None:
        self._idle = False
        self._wake.put(None)

    def _tell(self, resolve: Callable[..., None], *outcome: Any) -> None:
        """From the thread: call `resolve` in the loop. One wake-up serves all calls of a commit."""
        try:
            self._loop.call_soon_threadsafe(resolve, *outcome)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    async def aclose(self) -> None:
        """Wait for what is queued, then stop."""
        self._stopping = True
        self._wake.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _run(self) -> None:
        while True:
            if self._ready():
                self._commit()
                continue
            if self._stopping and not self._under_way():
                return
            self._idle = True
            if not self._ready():  # check again: a call may have come between the check and the flag
                self._wake.get()

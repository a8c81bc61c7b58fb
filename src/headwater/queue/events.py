"""The listeners of a queue, and what they are told as it happens: rows have become due, a row has died."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from headwater.queue.values import QueueEvent

_MOST = 1000  # events that a listener may leave unread; it misses those beyond


class QueueEvents:
    """The listeners of a queue."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Queue[QueueEvent | None]] = set()
        self._due = 0  # rows that were due when it was last said

    def __len__(self) -> int:
        return len(self._listeners)

    def due(self, now: int, count: int) -> bool:
        """So many rows are due: one event for all that have become so since, by their date, by a put, or because they came back.

        Return whether there was one.
        """
        more, self._due = count - self._due, count
        if more > 0 and self._listeners:
            self.tell(QueueEvent("due", now, count=more))
            return True
        return False

    def died(self, deaths: deque[tuple[int, QueueEvent]], durable: int) -> None:
        """Rows were given up: tell, and remove, those whose records are durable up to a sequence."""
        while deaths and deaths[0][0] <= durable:
            self.tell(deaths.popleft()[1])

    def listen(self, due: int) -> AsyncIterator[QueueEvent]:
        """Events from this call on, to the end of the queue. `due`: how many rows are due now."""
        if not self._listeners:
            self._due = due
        unread: asyncio.Queue[QueueEvent | None] = asyncio.Queue(_MOST)
        self._listeners.add(unread)  # here, and not when the first event is asked for: what happens between is no secret
        return self._unread(unread)

    async def _unread(self, unread: asyncio.Queue[QueueEvent | None]) -> AsyncIterator[QueueEvent]:
        try:
            while (event := await unread.get()) is not None:
                yield event
        finally:
            self._listeners.discard(unread)

    def close(self) -> None:
        """Let every listener end."""
        for unread in self._listeners:
            while unread.full():
                unread.get_nowait()
            unread.put_nowait(None)

    def tell(self, event: QueueEvent) -> None:
        """Give every listener an event."""
        for unread in self._listeners:
            if not unread.full():
                unread.put_nowait(event)

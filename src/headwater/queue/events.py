"""The listeners of a queue, and what they are told as it happens: rows have become due, a row has died."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import pairwise

from msgspec.structs import replace

from headwater.queue.body import key_of
from headwater.queue.fold import QueueFold
from headwater.queue.records import REASONS
from headwater.queue.values import QueueEvent

_MOST = 1000  # events that a listener may leave unread; then it is told that it has missed some


class QueueEvents:
    """The listeners of a queue."""

    def __init__(self, reset: Callable[[], QueueEvent]) -> None:
        """`reset`: what a listener is told in the place of events that it has missed."""
        self._listeners: set[_Listener] = set()
        self._reset = reset
        self._due = 0  # rows that were due when it was last said

    def __len__(self) -> int:
        return len(self._listeners)

    def due(self, now: int, count: int, position: int) -> bool:
        """So many rows are due: one event for all that have become so since, by their date, by a put, or because they came back.

        Return whether there was one.
        """
        more, self._due = count - self._due, count
        if more > 0 and self._listeners:
            self.tell(QueueEvent("due", now, count=more, position=position))
            return True
        return False

    def died(self, deaths: deque[tuple[int, QueueEvent]], durable: int) -> None:
        """Rows were given up: tell, and remove, those whose records are durable up to a sequence."""
        events = list[QueueEvent]()
        while deaths and deaths[0][0] <= durable:
            events.append(deaths.popleft()[1])
        for event in _resumable(events):
            self.tell(event)

    def listen(self, due: int, missed: Sequence[QueueEvent] | None = ()) -> AsyncIterator[QueueEvent]:
        """Events from this call on, to the end of the queue. `due`: how many rows are due now. `missed`: what comes before; None: more than
        can be told."""
        if not self._listeners:
            self._due = due
        listener = _Listener([self._reset()] if missed is None else missed)
        self._listeners.add(listener)  # here, and not when the first event is asked for: what happens between is no secret
        return self._unread(listener)

    async def _unread(self, listener: _Listener) -> AsyncIterator[QueueEvent]:
        try:
            async for event in listener.events():
                yield event
        finally:
            self._listeners.discard(listener)

    def close(self) -> None:
        """Let every listener end."""
        for listener in self._listeners:
            listener.end()

    def tell(self, event: QueueEvent) -> None:
        """Give every listener an event."""
        for listener in self._listeners:
            listener.tell(event, self._reset)


class _Listener:
    def __init__(self, events: Sequence[QueueEvent]) -> None:
        self._unread, self._ended, self._wake = deque(events), False, asyncio.Event()

    def tell(self, event: QueueEvent, reset: Callable[[], QueueEvent]) -> None:
        if len(self._unread) < _MOST:
            self._unread.append(event)
        else:  # one that never reads must not take memory without an end
            self._unread.clear()
            self._unread.append(reset())
        self._wake.set()

    def end(self) -> None:
        self._ended = True
        self._wake.set()

    async def events(self) -> AsyncIterator[QueueEvent]:
        while True:
            while self._unread:
                yield self._unread.popleft()
            if self._ended:
                return
            self._wake.clear()
            await self._wake.wait()


def deaths_behind(fold: QueueFold, position: int, durable: int) -> list[QueueEvent] | None:
    """The events of rows that died behind a position and are dead still, in their order. None: they are too many, or the log ends before
    that position, because it was restored from an older copy."""
    if position > durable:
        return None
    deaths = [(death.position, id, death) for id, death in fold.deaths.items() if position < death.position <= durable]
    if len(deaths) >= _MOST:
        return None
    bodies = fold.columns.bodies
    return _resumable(
        [
            QueueEvent("dead", death.date, id, key_of(bodies[death.slot]), REASONS[death.reason], position=sequence)
            for sequence, id, death in sorted(deaths)
        ]
    )


def _resumable(deaths: list[QueueEvent]) -> list[QueueEvent]:
    """Deaths from which a listener can go on: of several of one record, all but the last have the position before it. Whoever was cut off
    between them hears them all again, and loses none."""
    cut = (replace(event, position=event.position - 1) if event.position == after.position else event for event, after in pairwise(deaths))
    return [*cut, *deaths[-1:]]

"""Calls a function with each row of a queue that dies, while a worker runs."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Protocol

from headwater.core.clock import Clock
from headwater.core.errors import Closed, HeadwaterError, NotFound
from headwater.queue.answers import ShownEvent
from headwater.queue.json_form import read_date

if TYPE_CHECKING:
    from headwater.client.queue_claim import DeadQueueRow

_AGAIN = 1.0  # seconds before the events are listened to again, after they have ended
_PAGE = 100  # dead rows of the list that are in memory at once
_OVERLAP = 60_000  # ms before a reset; who died then may not have been durable when the list was read, and is told by the next one
_logger = logging.getLogger("headwater.queue")


class DeathSource(Protocol):
    """What tells of dead rows; the door's queues do."""

    @property
    def name(self) -> str: ...

    def listen(self, *, after: int | None = None) -> AsyncIterator[ShownEvent]: ...

    async def dead_show(self, id: int) -> DeadQueueRow: ...

    async def dead(self, *, limit: int | None = None, after: int = 0) -> list[DeadQueueRow]: ...


async def call_with_deaths(queue: DeathSource, function: Callable[[Any], Any], clock: Clock) -> None:
    """Call a function with each row that dies from now on, one after the other, until cancelled. A plain one runs in a thread.

    What it raises is told in the log of the program, and the next row comes. A row that dies while the server is away, and is dead still
    when it is back, is told then; one that died before this call is not. Where events were missed, the dead list says who has died; rows
    that died shortly before are told again.
    """
    position: int | None = None
    since = 0  # nobody who died before this date is of interest
    while True:
        try:
            async for event in queue.listen(after=position):
                date = read_date(event.date, "date")
                if event.kind == "reset":
                    await _call_with_dead_list(queue, function, since)  # before its position is taken: a list that breaks off is read anew
                    since = max(since, date - _OVERLAP)
                elif event.kind == "dead" or not since:
                    since = date
                position = event.position
                if event.kind == "dead":
                    await _call(queue, function, event.id)
        except Closed:
            return
        except HeadwaterError as error:
            _logger.warning("Deaths of queue %s are not heard, and listened to again: %s", queue.name, error.message)
        await clock.sleep(_AGAIN)


async def _call_with_dead_list(queue: DeathSource, function: Callable[[Any], Any], since: int) -> None:
    after = 0
    while rows := await queue.dead(limit=_PAGE, after=after):
        for row in rows:
            if row.date >= since:
                await _call(queue, function, row.id)
        after = rows[-1].id


async def _call(queue: DeathSource, function: Callable[[Any], Any], id: int) -> None:
    try:
        dead = await queue.dead_show(id)
    except NotFound:
        return  # somebody has put it again, or dropped it
    try:
        if inspect.iscoroutinefunction(function):
            await function(dead)
        else:
            answer = await asyncio.to_thread(function, dead)
            if inspect.isawaitable(answer):
                await answer
    except Exception as error:
        _logger.warning("The function for dead rows of queue %s has failed for row %d.", queue.name, id, exc_info=error)

"""Tells an address of the rows that a queue has given up: one JSON document for each, until the address has taken it.

That a row was told is a record: the row is carried with it. So a process that opens the queue anew tells what was not told yet, and a death
between the answer of the address and the record tells a row twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from headwater.core.errors import Closed, Fenced, HeadwaterError
from headwater.core.timers import Timers
from headwater.queue.decisions import Decisions
from headwater.queue.fold import QueueFold
from headwater.queue.json_form import show_dead
from headwater.queue.listing import dead_row
from headwater.queue.selection import row_of
from headwater.queue.values import DeadRow
from headwater.wire import json

if TYPE_CHECKING:
    from headwater.queue.runtime import QueueRuntime

Post = Callable[[str, bytes, str], Awaitable[None]]
"""Posts a JSON document to an address; a name tells it from others. Raises where the address has not taken it."""

_AT_ONCE = 500  # dead rows that are looked for at once
_FIRST, _LONGEST = 1000, 300_000  # milliseconds from one try that failed to the next
_logger = logging.getLogger("headwater.queue")


class DeadNotices:
    """Posts dead rows to the address of the setting `on_dead`, one at a time. Nothing of the queue waits for it."""

    def __init__(self, runtime: QueueRuntime, timers: Timers, post: Post) -> None:
        self._runtime, self._timers, self._post = runtime, timers, post
        self._task: asyncio.Task[None] | None = None
        self._address = ""  # of the task
        self._seen: tuple[QueueFold | None, int] = (None, 0)  # the fold, and the deaths in it, that were looked at

    def look(self) -> None:
        """See whether there is something to tell. Called after each commit, and when the settings change."""
        decisions = self._runtime.decisions
        address, seen = decisions.settings.on_dead, (decisions.fold, decisions.totals.died)
        if self._task is not None and address != self._address:
            self._task.cancel()
            self._task, self._seen = None, (None, 0)
        if not address or self._task is not None or seen == self._seen:
            return
        self._seen = seen
        if _untold(decisions):
            self._address = address
            self._task = asyncio.create_task(self._work(address))

    async def stop(self) -> None:
        """What is not told yet is told by whoever opens the queue next."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self, address: str) -> None:
        pause = _FIRST
        try:
            while ids := await self._runtime.look(_untold):
                for id in ids:
                    pause = await self._try(address, id, pause)
        except HeadwaterError:
            pass  # the queue is at its end, or its log cannot be written: the next commit looks again
        finally:
            if self._task is asyncio.current_task():
                self._task, self._seen = None, (None, 0)

    async def _try(self, address: str, id: int, pause: int) -> int:
        """Tell one row; return how long to wait where the next one fails. One that fails is tried again after the others."""
        runtime = self._runtime
        name = f"dead-{runtime.name}-{runtime.log.table}-{id}"
        try:
            dead = (await runtime.look_at(lambda decisions: [dead_row(decisions.fold, id)], row_of))[0]
            await self._post(address, notice(runtime.name, dead), name)
        except (Closed, Fenced):
            raise
        except Exception as error:
            if id not in runtime.decisions.fold.deaths:
                return pause  # somebody has put it again, or dropped it
            runtime.decisions.totals.failed_notices += 1
            _logger.warning("Dead row %d of queue %s was not told to %s: %s", id, runtime.name, shown_address(address), error)
            await self._timers.sleep_until(runtime.now_ms() + pause)
            return min(2 * pause, _LONGEST)
        runtime.decisions.totals.told += 1
        await self._record(id)
        return _FIRST

    async def _record(self, id: int) -> None:
        decisions = self._runtime.begin(self._runtime.now_ms())
        if decisions is None:
            await self._runtime.log.ready()
            return await self._record(id)
        self._runtime.decide(decisions, lambda made: made.tell(id))
        return await self._runtime.commit(None, partial(self._record, id))


def notice(queue: str, dead: DeadRow) -> bytes:
    """The document of a dead row: as the dead list shows it, with the queue."""
    return json.encode({"event": "dead", "queue": queue, "row": show_dead(dead)})


def shown_address(address: str) -> str:
    """An address without what may be secret in it: its user, its path and its query."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _untold(decisions: Decisions) -> list[int]:
    """Some dead rows that were not told yet, the oldest deaths first."""
    ids = list[int]()
    for id, death in decisions.fold.deaths.items():
        if not death.told:
            ids.append(id)
            if len(ids) == _AT_ONCE:
                break
    return ids

"""Looks through the rows of an open queue, some at a time: between, other calls are served, however many rows there are.

Ids never change, and a page goes on behind the last one that was looked at. So a row that is there throughout, and that a filter lets pass
throughout, is in the list once; one that comes, goes or changes meanwhile may be in it or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from headwater.queue.data_place import length_of
from headwater.queue.decisions import Decisions
from headwater.queue.listing import END, MOST_SHOWN
from headwater.queue.row import Row
from headwater.queue.runtime import QueueRuntime

T = TypeVar("T")

AT_ONCE = 2000
"""Rows that are looked at before others have their turn: about a millisecond."""

Look = Callable[[Decisions, int, int, int], tuple[list[T], int]]
"""Finds rows behind an id, up to so many, and to so many bytes of data; and the id behind which to go on, or `END`."""


class _Slice(Generic[T]):
    """One look. It may be made again, where the log is folded anew meanwhile."""

    def __init__(self, look: Look[T], after: int, limit: int, room: int) -> None:
        self._look, self._bounds, self.last = look, (after, limit, room), END

    def see(self, decisions: Decisions) -> list[T]:
        items, self.last = self._look(decisions, *self._bounds)
        return items


async def scanned(runtime: QueueRuntime, look: Look[T], row_of: Callable[[T], Row], after: int, limit: int) -> list[T]:
    """A page of rows: those that `look` finds behind `after`. It ends with the row that fills `MOST_SHOWN`."""
    items, room = list[T](), MOST_SHOWN
    while True:
        part = _Slice(look, after, limit - len(items), room)
        some = await runtime.look_at(part.see, row_of)
        items += some
        room -= sum(length_of(row_of(item).data) for item in some)
        if part.last == END or len(items) >= limit or room <= 0:
            return items
        after = part.last
        await asyncio.sleep(0)

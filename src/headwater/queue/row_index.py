"""The rows of a queue by id, for those who list them page by page: a page costs the same however many rows there are.

It is made by the first listing, and costs puts and claims nothing: ids only grow, so what was put since lies behind it. Rows that have gone
since are passed over.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from headwater.queue.columns import FREE, RowColumns

if TYPE_CHECKING:
    from headwater.queue.death import Death

_AT_ONCE = 1000  # rows that are looked at before more are asked for
_MANY = 10_000  # rows that have gone, at which the index is cut: a look at all of it takes about as long as passing over them
_LARGEST = (1 << 63) - 1


class RowIndex:
    """The rows of `columns`, dead ones included, and the dead rows alone."""

    def __init__(self, columns: RowColumns) -> None:
        self._columns = columns
        self._ids = self._slots = np.zeros(0, np.int64)
        self._dead: list[int] = []
        self._deaths: tuple[int, Death | None] = (0, None)  # how many there were, and the last of them

    def slots(self, after: int) -> Iterator[int]:
        """The slots of the rows above an id, by id."""
        columns, after, gone, fresh = self._columns, min(after, _LARGEST), 0, False
        while True:
            begin = int(np.searchsorted(self._ids, after, side="right"))
            if begin == len(self._ids):
                if fresh or not self._add_new():
                    return
                fresh = True
                continue
            ids, slots = self._ids[begin : begin + _AT_ONCE].tolist(), self._slots[begin : begin + _AT_ONCE].tolist()
            for id, slot in zip(ids, slots, strict=True):
                if columns.ids[slot] == id and columns.states[slot] != FREE:
                    yield slot
                else:
                    gone += 1
            after = ids[-1]
            if gone > _MANY:
                self._keep(self._there())
                gone = 0

    def _add_new(self) -> bool:
        """Take up the rows that were put since, and forget those that have gone; return whether there are new ones."""
        last = int(self._ids[-1]) if len(self._ids) else -1
        ids = np.frombuffer(self._columns.ids, np.int64)
        slots = np.flatnonzero((np.frombuffer(self._columns.states, np.uint8) != FREE) & (ids > last))
        if not slots.size:
            return False
        slots = slots[np.argsort(ids[slots], kind="stable")]
        self._keep(self._there())
        self._ids, self._slots = np.append(self._ids, ids[slots]), np.append(self._slots, slots)
        return True

    def _there(self) -> np.ndarray:
        """Which rows of the index there still are."""
        states, ids = np.frombuffer(self._columns.states, np.uint8), np.frombuffer(self._columns.ids, np.int64)
        mask: np.ndarray = (states[self._slots] != FREE) & (ids[self._slots] == self._ids)
        return mask

    def _keep(self, mask: np.ndarray) -> None:
        self._ids, self._slots = self._ids[mask], self._slots[mask]

    def dead(self, deaths: dict[int, Death], after: int) -> Iterator[int]:
        """The ids of the dead rows above an id, in order."""
        last = next(reversed(deaths.values())) if deaths else None
        if self._deaths[0] != len(deaths) or self._deaths[1] is not last:  # a row that is carried is a new object, at the end
            self._dead, self._deaths = sorted(deaths), (len(deaths), last)
        for place in range(bisect_right(self._dead, after), len(self._dead)):
            yield self._dead[place]

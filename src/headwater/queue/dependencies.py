"""Who waits for whom: the rows that were put with `after`, by slot, and the ids of the rows that they wait for.

Both directions are kept, so that a row that goes finds those that wait for it, however many there are. A queue that has no such row has
two empty dicts. Nothing here is written: a row is written with the ids that it waits for by then, and every record that ends a row names
the row's id. So the records behind a row's home say which of them are gone, also where the log no longer holds the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

DOOMED = 0
"""Stands for the others where a row is to be cancelled: no row has this id, and so none goes that would let it go."""


class Dependencies:
    """The graph. It has no cycle: whoever adds an edge has looked."""

    __slots__ = ("after", "cancels", "edges", "waiters")

    def __init__(self) -> None:
        self.after: dict[int, set[int]] = {}
        """By slot: the ids of the rows that its row waits for."""
        self.waiters: dict[int, dict[int, None]] = {}
        """By id: the slots of the rows that wait for its row."""
        self.edges = 0
        """How many ids `after` has in all."""
        self.cancels: set[int] = set()
        """The slots of the rows that are cancelled when one of the others is dead, cancelled or expired."""

    def add(self, slot: int, ids: Iterable[int], *, cancels: bool) -> None:
        """The row of a slot waits for these: one at least."""
        waited = self.after[slot] = set(ids)
        self.edges += len(waited)
        for id in waited:
            self.waiters.setdefault(id, {})[slot] = None
        if cancels:
            self.cancels.add(slot)

    def forget(self, slot: int) -> None:
        """The row of a slot waits for nothing."""
        waited = self.after.pop(slot, ())
        self.edges -= len(waited)
        for id in waited:
            waiting = self.waiters.get(id)
            if waiting is not None:
                waiting.pop(slot, None)
                if not waiting:
                    del self.waiters[id]
        self.cancels.discard(slot)

    def gone(self, id: int, *, failed: bool) -> list[int]:
        """A row is gone; return the slots of those that wait for nothing any more. `failed`: it was cancelled, or has expired."""
        free = []
        for slot in self.waiters.pop(id, ()):
            if failed and slot in self.cancels:
                self.doom(slot)
                continue
            left = self.after[slot]
            left.discard(id)
            self.edges -= 1
            if not left:
                del self.after[slot]
                self.cancels.discard(slot)
                free.append(slot)
        return free

    def dead(self, id: int) -> None:
        """A row is dead: it holds those that wait for it, and dooms those that said `cancel`."""
        for slot in [slot for slot in self.waiters.get(id, ()) if slot in self.cancels]:
            self.doom(slot)

    def doom(self, slot: int) -> None:
        """The row of a slot is to be cancelled."""
        self.forget(slot)
        self.add(slot, (DOOMED,), cancels=True)

    def doomed(self, most: int) -> list[int]:
        """The slots of rows that are to be cancelled, up to so many."""
        return list(islice(self.waiters.get(DOOMED, ()), most))

    def move(self, old: int, new: int) -> None:
        """Those that wait for one row wait for another instead."""
        moved = self.waiters.pop(old, None)
        if moved:
            for slot in moved:
                waited = self.after[slot]
                waited.discard(old)
                self.edges -= new in waited
                waited.add(new)
            self.waiters.setdefault(new, {}).update(moved)

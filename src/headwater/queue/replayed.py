"""What a fold has in place of its keys and its claims while a log is replayed. At the end both are made, of the rows that are left.

Most rows of a log are done by its end: a token and an entry of the keys for each of them would take most of the time of opening a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from msgspec.structs import replace

from headwater.queue.body import BODY_SIZE, PRIORITY
from headwater.queue.claims import Claims, HeldRow
from headwater.queue.columns import DEAD, FREE, HELD, RowColumns
from headwater.queue.key_index import RowKeyIndex
from headwater.queue.row import SLOW


class NoKeys(RowKeyIndex):
    """Takes keys, and keeps none."""

    def add(self, key: bytes, slot: int) -> None: ...
    def leave(self, key: bytes) -> None: ...


class ReplayedClaims(Claims):
    """Claims by slot alone: no token, and no date at which one ends."""

    def add(self, slot: int, sequence: int, start: int, until: int, group: str, worker: str, fast: bool) -> str:
        self.by_slot[slot] = HeldRow(sequence, start, until, group, worker, fast, "", slot)
        return ""

    def add_all(self, slots: Iterable[int], sequence: int, start: int, until: int, group: str, worker: str) -> None:
        """Rows that one record claims."""
        self.by_slot.update(dict.fromkeys(slots, HeldRow(sequence, start, until, group, worker, False, "", -1)))

    def extend(self, slot: int, start: int, until: int) -> None:
        self.by_slot[slot] = replace(self.by_slot[slot], start=start, until=until)

    def remove(self, slot: int) -> HeldRow:
        return self.by_slot.pop(slot)

    def counted(self, columns: RowColumns) -> Claims:
        """The claims that are left, with their tokens."""
        claims = Claims(self.table)
        for slot, claim in self.by_slot.items():
            fast = columns.bodies[slot][PRIORITY] < SLOW
            claims.add(slot, claim.sequence, claim.start, claim.until, claim.group, claim.worker, fast)
        return claims


def keys_of(columns: RowColumns, hash: Callable[[bytes], int]) -> RowKeyIndex:
    """The slots of the rows that wait or are processed, by key."""
    bodies, states = columns.bodies, np.frombuffer(columns.states, np.uint8)
    slots: list[int] = np.flatnonzero((states != FREE) & (states != HELD) & (states != DEAD)).tolist()
    row_keys = [body[BODY_SIZE : BODY_SIZE + (body[33] << 8 | body[34])] for body in map(bodies.__getitem__, slots)]  # as `key_of`
    keys = RowKeyIndex(bodies, hash)
    keys.fill(row_keys, slots)
    return keys

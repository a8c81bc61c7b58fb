"""Claims: which rows are being processed, by whom, and until when. A token names a claim; it counts while the claim lasts."""

from __future__ import annotations

from headwater.queue.columns import PROCESSING, RowColumns
from headwater.queue.date_heap import DateHeap
from headwater.queue.row import SLOW


class Claim:
    """A row that is being processed."""

    __slots__ = ("fast", "group", "sequence", "start", "until", "worker")

    def __init__(self, sequence: int, start: int, until: int, group: str, worker: str, *, fast: bool) -> None:
        self.sequence = sequence  # of the claim's record: with the row's id it makes the token
        self.start, self.until, self.group, self.worker, self.fast = start, until, group, worker, fast


class Claims:
    """The claims by slot."""

    def __init__(self, columns: RowColumns) -> None:
        self._columns = columns
        self.by_slot: dict[int, Claim] = {}
        self.leases = DateHeap(self._lasts)
        self._fast: dict[str, int] = {}  # by consumer group: rows below the slow band that it processes

    def __len__(self) -> int:
        return len(self.by_slot)

    def add(self, slot: int, sequence: int, start: int, until: int, group: str, worker: str) -> None:
        """A row was claimed, by the record of this sequence."""
        columns = self._columns
        fast = columns.priorities[slot] < SLOW
        self.by_slot[slot] = Claim(sequence, start, until, group, worker, fast=fast)
        self.leases.push(until, columns.ids[slot], slot)
        if fast:
            self._fast[group] = self._fast.get(group, 0) + 1

    def extend(self, slot: int, start: int, until: int) -> None:
        """Its lease begins anew."""
        claim = self.by_slot[slot]
        claim.start, claim.until = start, until
        self.leases.push(until, self._columns.ids[slot], slot)

    def remove(self, slot: int) -> Claim:
        """A row is no longer processed."""
        claim = self.by_slot.pop(slot)
        if claim.fast:
            left = self._fast[claim.group] - 1
            if left:
                self._fast[claim.group] = left
            else:
                del self._fast[claim.group]
        return claim

    def only_slow(self, group: str) -> bool:
        """Whether a consumer group processes no row below the slow band."""
        return group not in self._fast

    def token(self, slot: int) -> str:
        """The token of a row's claim."""
        return f"{slot}-{self._columns.ids[slot]}-{self.by_slot[slot].sequence}"

    def slot_of(self, token: str) -> int:
        """The slot of the row that a token's claim holds; -1 where it holds none any more, or is no token."""
        try:
            slot, id, sequence = map(int, token.split("-"))
        except ValueError:
            return -1
        claim = self.by_slot.get(slot)
        return slot if claim is not None and claim.sequence == sequence and self._columns.ids[slot] == id else -1

    def _lasts(self, date: int, id: int, slot: int) -> bool:
        columns = self._columns
        return columns.states[slot] == PROCESSING and columns.ids[slot] == id and self.by_slot[slot].until == date

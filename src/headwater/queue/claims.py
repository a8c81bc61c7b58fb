"""Claims: which rows are being processed, by whom, and until when. A token names a claim; it counts while the claim lasts."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headwater.queue.date_heap import NEVER

_FEW = 1024
_Lease = tuple[int, int, int]  # its end, the slot, the claim's sequence


class HeldRow(NamedTuple):
    """A row that is being processed. `sequence`: of the claim's record; with the slot it makes the token."""

    sequence: int
    start: int
    until: int
    group: str
    worker: str
    fast: bool
    token: str


_made = tuple.__new__  # of a NamedTuple: without the function in Python that checks names


class Claims:
    """The claims, by slot and by token."""

    def __init__(self, table: int = 0) -> None:
        """`table`: of the queue. No other queue has had it, so that no token of a deleted queue fits one that was created again."""
        self.table = table
        self._end = f"-{table}" if table else ""
        self.by_slot: dict[int, HeldRow] = {}
        self.by_token: dict[str, int] = {}
        self._fast: dict[str, int] = {}  # by consumer group: rows below the slow band that it processes
        self._run: deque[_Lease] = deque()  # leases of one length end in the order in which they begin
        self._heap: list[_Lease] = []  # the others
        self.earliest = NEVER
        """No lease ends before this date. The claim that ended then may be gone."""

    def __len__(self) -> int:
        return len(self.by_slot)

    def add(self, slot: int, sequence: int, start: int, until: int, group: str, worker: str, fast: bool) -> str:
        """A row was claimed, by the record of this sequence; return the token. `fast`: it is below the slow band."""
        token = f"{slot}-{sequence}{self._end}"
        self.by_token[token] = slot
        self.by_slot[slot] = _made(HeldRow, (sequence, start, until, group, worker, fast, token))
        if fast:
            self._fast[group] = self._fast.get(group, 0) + 1
        run = self._run
        if run and until >= run[-1][0] and len(run) < _FEW:  # so it is mostly: the others are looked at more closely
            run.append((until, slot, sequence))
        else:
            self._lease((until, slot, sequence))
        return token

    def add_many(self, slots: Sequence[int], sequence: int, start: int, until: int, group: str, worker: str) -> list[str]:
        """`add` for rows below the slow band that one record claims; return their tokens."""
        end = f"-{sequence}{self._end}"
        tokens = [f"{slot}{end}" for slot in slots]
        self.by_token.update(zip(tokens, slots, strict=True))
        for slot, token in zip(slots, tokens, strict=True):
            self.by_slot[slot] = _made(HeldRow, (sequence, start, until, group, worker, True, token))
        self._fast[group] = self._fast.get(group, 0) + len(slots)
        self._lease((until, slots[0], sequence))
        if self._run and self._run[-1] == (until, slots[0], sequence):
            self._run.extend([(until, slot, sequence) for slot in slots[1:]])
        else:
            for slot in slots[1:]:
                self._lease((until, slot, sequence))
        return tokens

    def extend(self, slot: int, start: int, until: int) -> None:
        """Its lease begins anew."""
        claim = self.by_slot[slot] = self.by_slot[slot]._replace(start=start, until=until)
        self._lease((until, slot, claim.sequence))

    def remove(self, slot: int) -> HeldRow:
        """A row is no longer processed."""
        claim = self.by_slot.pop(slot)
        sequence, _, _, group, _, fast, token = claim
        del self.by_token[token]
        if fast:
            left = self._fast[group] - 1
            if left:
                self._fast[group] = left
            else:
                del self._fast[group]
        run = self._run
        if run and run[0][2] == sequence and run[0][1] == slot:
            run.popleft()
        return claim

    def remove_many(self, tokens: Iterable[str], slots: Iterable[int]) -> None:
        """Rows are no longer processed: these tokens, all of which count, and their slots."""
        drop, take, fast = self.by_token.__delitem__, self.by_slot.pop, self._fast
        for token in tokens:
            drop(token)
        for slot in slots:
            claim = take(slot)
            if claim.fast:
                group = claim.group
                if fast[group] > 1:
                    fast[group] -= 1
                else:
                    del fast[group]

    def only_slow(self, group: str) -> bool:
        """Whether a consumer group processes no row below the slow band."""
        return group not in self._fast

    # -- leases -----------------------------------------------------------------------------------------------------------

    def next_end(self) -> int:
        """When the first lease ends, or `NEVER`."""
        while self._run and not self._lasts(self._run[0]):
            self._run.popleft()
        while self._heap and not self._lasts(self._heap[0]):
            heapq.heappop(self._heap)
        ends = [leases[0][0] for leases in (self._run, self._heap) if leases]
        self.earliest = min(ends, default=NEVER)
        return self.earliest

    def pop_ended(self, now: int) -> int:
        """The slot of a claim whose lease has ended before `now`, each once; -1: there is none. At its very end, a lease still holds."""
        if self.next_end() >= now:
            return -1
        if self._heap and (not self._run or self._heap[0] < self._run[0]):
            return heapq.heappop(self._heap)[1]
        return self._run.popleft()[1]

    def put_back(self, slot: int) -> None:
        """A claim that `pop_ended` has found is left for the next time."""
        claim = self.by_slot[slot]
        self._lease((claim.until, slot, claim.sequence))

    def _lease(self, lease: _Lease) -> None:
        if lease[0] < self.earliest:
            self.earliest = lease[0]
        if not self._run or lease[0] >= self._run[-1][0]:
            self._run.append(lease)
        else:
            heapq.heappush(self._heap, lease)
        if len(self._run) + len(self._heap) > _FEW + 2 * len(self.by_slot):
            # Claims mostly end early: without this, an hour of them would stay in memory.
            self._run = deque(lease for lease in self._run if self._lasts(lease))
            self._heap = sorted(lease for lease in self._heap if self._lasts(lease))

    def _lasts(self, lease: _Lease) -> bool:
        claim = self.by_slot.get(lease[1])
        return claim is not None and claim.sequence == lease[2] and claim.until == lease[0]

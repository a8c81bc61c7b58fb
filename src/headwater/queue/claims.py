"""Claims: which rows are being processed, by whom, and until when. A token names a claim; it counts while the claim lasts."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Sequence
from operator import is_

import msgspec
from msgspec.structs import replace

from headwater.queue.date_heap import NEVER

_FEW = 1024
_Lease = tuple[int, int, int]  # its end, the slot, the claim's sequence


class HeldRow(msgspec.Struct, frozen=True, gc=False):
    """A row that is being processed. `sequence`: of the claim's record; with the slot it makes the token."""

    sequence: int
    start: int
    until: int
    group: str
    worker: str
    fast: bool
    token: str
    slot: int


class Claims:
    """The claims, by slot and by token."""

    def __init__(self, table: int = 0) -> None:
        """`table`: of the queue. No other queue has had it, so that no token of a deleted queue fits one that was created again."""
        self.table = table
        self._end = f"-{table}" if table else ""
        self.by_slot: dict[int, HeldRow] = {}
        self.by_token: dict[str, int] = {}
        self._fast: dict[str, int] = {}  # by consumer group: rows below the slow band that it processes
        self._run: deque[HeldRow] = deque()  # leases of one length end in the order in which they begin
        self._heap: list[_Lease] = []  # the others
        self.earliest = NEVER
        """No lease ends before this date. The claim that ended then may be gone."""

    def __len__(self) -> int:
        return len(self.by_slot)

    def add(self, slot: int, sequence: int, start: int, until: int, group: str, worker: str, fast: bool) -> str:
        """A row was claimed, by the record of this sequence; return the token. `fast`: it is below the slow band."""
        token = f"{slot}-{sequence}{self._end}"
        self.by_token[token] = slot
        claim = self.by_slot[slot] = HeldRow(sequence, start, until, group, worker, fast, token, slot)
        if fast:
            self._fast[group] = self._fast.get(group, 0) + 1
        run = self._run
        if run and until >= run[-1].until and len(run) < _FEW:  # so it is mostly: the others are looked at more closely
            run.append(claim)
        else:
            self._lease(claim)
        return token

    def add_many(self, slots: Sequence[int], sequence: int, start: int, until: int, group: str, worker: str) -> list[str]:
        """`add` for rows below the slow band that one record claims; return their tokens."""
        end = f"-{sequence}{self._end}"
        tokens = [f"{slot}{end}" for slot in slots]
        claims = [HeldRow(sequence, start, until, group, worker, True, token, slot) for token, slot in zip(tokens, slots, strict=True)]
        self.by_token.update(zip(tokens, slots, strict=True))
        self.by_slot.update(zip(slots, claims, strict=True))
        self._fast[group] = self._fast.get(group, 0) + len(slots)
        self._lease(claims[0])
        if self._run and self._run[-1] is claims[0]:
            self._run.extend(claims[1:])
        else:
            for claim in claims[1:]:
                self._lease(claim)
        return tokens

    def extend(self, slot: int, start: int, until: int) -> None:
        """Its lease begins anew."""
        claim = self.by_slot[slot] = replace(self.by_slot[slot], start=start, until=until)
        self._lease(claim)

    def remove(self, slot: int) -> HeldRow:
        """A row is no longer processed. Its token may be gone already."""
        claim = self.by_slot.pop(slot)
        self.by_token.pop(claim.token, None)
        if claim.fast:
            fast, group = self._fast, claim.group
            left = fast[group] - 1
            if left:
                fast[group] = left
            else:
                del fast[group]
        run = self._run
        if run and run[0] is claim:
            run.popleft()
        return claim

    def remove_many(self, slots: Sequence[int]) -> None:
        """Rows are no longer processed: one at least. Their tokens are gone already."""
        claims, run = list(map(self.by_slot.pop, slots)), self._run
        groups = [claim.group for claim in claims if claim.fast]
        alike = groups.count(groups[0]) == len(groups) if groups else True  # mostly one consumer group has them all
        for group, count in [(groups[0], len(groups))] if alike and groups else Counter(groups).items():
            if self._fast[group] > count:
                self._fast[group] -= count
            else:
                del self._fast[group]
        if all(map(is_, run, claims)) and len(run) >= len(claims):  # they are done in the order in which they were claimed
            for _ in claims:
                run.popleft()

    def only_slow(self, group: str) -> bool:
        """Whether a consumer group processes no row below the slow band."""
        return group not in self._fast

    # -- leases -----------------------------------------------------------------------------------------------------------

    def next_end(self) -> int:
        """When the first lease ends, or `NEVER`."""
        run, heap, by_slot = self._run, self._heap, self.by_slot
        while run and by_slot.get(run[0].slot) is not run[0]:
            run.popleft()
        while heap and not self._lasts(heap[0]):
            heapq.heappop(heap)
        end = run[0].until if run else NEVER
        self.earliest = min(end, heap[0][0]) if heap else end
        return self.earliest

    def pop_ended(self, now: int) -> int:
        """The slot of a claim whose lease has ended before `now`, each once; -1: there is none. At its very end, a lease still holds."""
        if self.next_end() >= now:
            return -1
        if self._heap and (not self._run or self._heap[0] < _entry(self._run[0])):
            return heapq.heappop(self._heap)[1]
        return self._run.popleft().slot

    def put_back(self, slot: int) -> None:
        """A claim that `pop_ended` has found is left for the next time."""
        self._lease(self.by_slot[slot])

    def _lease(self, claim: HeldRow) -> None:
        if claim.until < self.earliest:
            self.earliest = claim.until
        if not self._run or claim.until >= self._run[-1].until:
            self._run.append(claim)
        else:
            heapq.heappush(self._heap, _entry(claim))
        if len(self._run) + len(self._heap) > _FEW + 2 * len(self.by_slot):
            # Claims mostly end early: without this, an hour of them would stay in memory.
            self._run = deque(lease for lease in self._run if self.by_slot.get(lease.slot) is lease)
            self._heap = sorted(lease for lease in self._heap if self._lasts(lease))

    def _lasts(self, lease: _Lease) -> bool:
        claim = self.by_slot.get(lease[1])
        return claim is not None and claim.sequence == lease[2] and claim.until == lease[0]


def _entry(claim: HeldRow) -> _Lease:
    return claim.until, claim.slot, claim.sequence

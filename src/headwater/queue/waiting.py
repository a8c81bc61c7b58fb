"""Claims that wait for rows, in the order in which they came."""

from __future__ import annotations

import asyncio
from functools import partial

from headwater.core.clock import Clock
from headwater.queue.decisions import Decisions
from headwater.queue.values import ClaimedRow

_CLAIMS, _ROWS = 500, 10_000  # that one record serves, and rows for them; the others are served when it is durable
Served = list[tuple["WaitingClaim", list[ClaimedRow]]]


class WaitingClaim:
    """A claim that waits. Its future ends with the claimed rows, once that is durable; with none when its time is over."""

    __slots__ = ("future", "group", "lease", "n", "worker")

    def __init__(self, n: int, lease: int, group: str, worker: str) -> None:
        self.n, self.lease, self.group, self.worker = n, lease, group, worker
        self.future: asyncio.Future[list[ClaimedRow]] = asyncio.get_running_loop().create_future()


class WaitingClaims:
    """The claims that wait."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.claims: dict[WaitingClaim, None] = {}

    def __len__(self) -> int:
        return len(self.claims)

    def add(self, claim: WaitingClaim, wait: int) -> None:
        """Let a claim wait for up to so many milliseconds. They are no date: whoever sets the machine's clock lets nobody wait longer."""
        alarm = self._clock.call_later(wait / 1000, partial(self._over, claim))
        self.claims[claim] = None
        claim.future.add_done_callback(lambda _: alarm.cancel())

    def remove(self, claim: WaitingClaim) -> None:
        self.claims.pop(claim, None)

    def serve(self, decisions: Decisions) -> Served:
        """Claim due rows for those that wait, the longest first: for as many as one record may hold.

        The caller ends the record, and then tells them by `tell`.
        """
        served: Served = []
        empty: set[str] = set()
        rows_served = 0
        for claim in self.claims:
            if (not decisions.fold.order.due and served) or len(served) >= _CLAIMS or rows_served >= _ROWS:
                break
            if claim.group in empty:
                continue
            rows = decisions.claim(claim.n, claim.lease, claim.group, claim.worker)
            if rows:
                served.append((claim, rows))
                rows_served += len(rows)
            else:
                empty.add(claim.group)
        return served

    def put_back(self, claims: list[WaitingClaim]) -> None:
        """Let claims wait on that were served in vain, before those that came later."""
        waiting = [claim for claim in claims if not claim.future.done()]
        self.claims = dict.fromkeys([*waiting, *self.claims])

    def fail(self, error: Exception) -> None:
        """Nobody will ever serve them."""
        for claim in list(self.claims):
            self.remove(claim)
            if not claim.future.done():
                claim.future.set_exception(error)
                claim.future.exception()  # its caller may be gone

    def _over(self, claim: WaitingClaim) -> None:
        self.remove(claim)
        if not claim.future.done():
            claim.future.set_result([])

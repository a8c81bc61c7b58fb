"""The rows that a worker runs, those that are finished and not yet brought back, and what became of all."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from headwater.core.clock import Clock
from headwater.queue.requests import FailedRow

if TYPE_CHECKING:
    from headwater.client.queue_claim import Claim, Exchanged

_BEATS = 3  # of a lease
_LEAST = 0.05  # seconds between two heartbeats


class ClaimSource(Protocol):
    """What a worker needs of a queue; the door's queues have it, over a directory and over HTTP."""

    @property
    def name(self) -> str: ...

    async def exchange(
        self,
        n: int,
        *,
        lease: str | None = None,
        wait: str = "0ms",
        group: str = "default",
        worker: str = "",
        done: Sequence[str] = (),
        fail: Sequence[FailedRow] = (),
        extend: Sequence[str] = (),
        release: Sequence[str] = (),
    ) -> Exchanged: ...

    async def leave(self, worker: str) -> None: ...


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the rows that a worker has claimed. `lost`: those whose lease ended before they did; others run them again."""

    done: int = 0
    failed: int = 0
    given_up: int = 0
    released: int = 0
    lost: int = 0


class RunningRow:
    """A row that runs. `deadline`: when its lease ends, by the clock of this machine."""

    __slots__ = ("claim", "deadline", "lost", "stopped", "task")

    def __init__(self, claim: Claim, task: asyncio.Task[None], deadline: float) -> None:
        self.claim, self.task, self.deadline = claim, task, deadline
        self.lost = self.stopped = False


class FinishedRows(NamedTuple):
    """What a call brings back."""

    done: list[str]
    failed: list[FailedRow]
    released: list[str]


class RunningRows:
    """Rows by token. A row is busy from its claim until it is finished, and finished until a call has brought it back."""

    def __init__(self, concurrency: int, clock: Clock) -> None:
        self._concurrency, self._clock = concurrency, clock
        self._busy: dict[str, RunningRow] = {}
        self._finished = FinishedRows([], [], [])
        self._lease = 0.0  # seconds, as the last claim had it
        self._beat_at = 0.0
        self._started = asyncio.Event()
        self._counts = {"done": 0, "failed": 0, "given_up": 0, "released": 0, "lost": 0}

    @property
    def free(self) -> int:
        """How many more rows may run."""
        return self._concurrency - len(self._busy)

    @property
    def busy(self) -> bool:
        return bool(self._busy)

    @property
    def finished(self) -> bool:
        """Whether something is to be brought back."""
        return any(self._finished)

    def all(self) -> list[RunningRow]:
        return list(self._busy.values())

    def tokens(self) -> list[str]:
        """The rows whose leases a heartbeat extends."""
        return [token for token, row in self._busy.items() if not row.lost]

    def report(self) -> WorkerReport:
        return WorkerReport(**self._counts)

    # -- from the claim to the end ------------------------------------------------------------------------------

    def start(self, claim: Claim, task: asyncio.Task[None]) -> None:
        lease = max(0.001, (claim.lease_until - claim.start_processing_date) / 1000)
        now = self._clock.monotonic()
        if not self._busy or lease != self._lease:
            self._beat_at = now + lease / _BEATS
        self._lease = lease
        self._busy[claim.token] = RunningRow(claim, task, now + lease)
        self._started.set()

    def done(self, token: str) -> None:
        if self._ended(token):
            self._finished.done.append(token)

    def fail(self, row: FailedRow) -> None:
        if self._ended(row.token):
            self._finished.failed.append(row)

    def release(self, token: str) -> None:
        """A row that was not run to its end, or never."""
        if self._ended(token):
            self._finished.released.append(token)

    def cancelled(self, token: str) -> bool:
        """Whether the worker has cancelled the row, not the function itself."""
        row = self._busy.get(token)
        return row is None or row.lost or row.stopped

    def abandon(self, row: RunningRow) -> None:
        """A thread that does not end: its row stays claimed until its lease ends, because it still runs."""
        row.lost = True
        self._ended(row.claim.token)

    def _ended(self, token: str) -> bool:
        """Whether the end of a row is to be brought back; not so for one whose lease has ended."""
        row = self._busy.pop(token, None)
        if not self._busy:
            self._started.clear()
        if row is not None and row.lost:
            self._counts["lost"] += 1
            return False
        return True

    # -- calls ------------------------------------------------------------------------------------------------

    def take_finished(self) -> FinishedRows:
        taken, self._finished = self._finished, FinishedRows([], [], [])
        return taken

    def give_back(self, taken: FinishedRows) -> None:
        """A call has failed: the next one brings the rows back. Those that had arrived are stale then, which spoils nothing."""
        self._finished.done[:0] = taken.done
        self._finished.failed[:0] = taken.failed
        self._finished.released[:0] = taken.released

    def settled(self, taken: FinishedRows, stale: Collection[str]) -> None:
        """Count what a call has brought back. A stale row's lease had ended."""
        gone = set(stale)
        self._counts["done"] += sum(token not in gone for token in taken.done)
        self._counts["failed"] += sum(row.token not in gone and not row.give_up for row in taken.failed)
        self._counts["given_up"] += sum(row.token not in gone and row.give_up for row in taken.failed)
        self._counts["released"] += sum(token not in gone for token in taken.released)
        tokens = [*taken.done, *(row.token for row in taken.failed), *taken.released]
        self._counts["lost"] += sum(token in gone for token in tokens)

    # -- leases -----------------------------------------------------------------------------------------------

    async def until_beat(self) -> None:
        """Return at the next heartbeat: a third of the lease after the last one, and only while rows run."""
        while True:
            await self._started.wait()
            left = self._beat_at - self._clock.monotonic()
            if left <= 0:
                if self.tokens():
                    self._beat_at = self._clock.monotonic() + max(_LEAST, self._lease / _BEATS)
                    return
                left = max(_LEAST, self._lease / _BEATS)
            await self._clock.sleep(left)

    def extended(self, tokens: Collection[str], stale: Collection[str], sent: float) -> None:
        for token in tokens:
            row = self._busy.get(token)
            if row is not None:
                row.deadline = 0.0 if token in stale else sent + self._lease

    def missed_beat(self) -> None:
        """A heartbeat did not arrive: the next one comes sooner."""
        self._beat_at = self._clock.monotonic() + max(_LEAST, self._lease / _BEATS / 4)

    def late(self) -> list[RunningRow]:
        """The rows that run although their lease has ended."""
        now = self._clock.monotonic()
        return [row for row in self._busy.values() if not row.lost and row.deadline < now]

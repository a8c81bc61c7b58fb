"""The rows that a worker runs, those that are finished and not yet brought back, and what became of all."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from headwater.core.clock import Clock
from headwater.queue.requests import FailedRow
from headwater.queue.values import RowResult

if TYPE_CHECKING:
    from headwater.client.queue_claim import Claim, Exchanged

BEATS = 3
"""Heartbeats in the time of a lease."""
_RESULTS = 512 << 10  # bytes of results that one call brings back, or one larger result: they fit into the log of any queue
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
        results: Mapping[str, RowResult] | None = None,
        fail: Sequence[FailedRow] = (),
        extend: Sequence[str] = (),
        release: Sequence[str] = (),
    ) -> Exchanged: ...

    async def leave(self, worker: str) -> None: ...


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the rows that a worker has claimed. `lost`: those whose lease ended before they did; others run them again.

    `unknown`: those whose end was told while the server went away, and whose lease had ended when it was told again. `abandoned`: those
    that still ran in threads when the grace was over; they stay claimed until their leases end.
    """

    done: int = 0
    failed: int = 0
    given_up: int = 0
    released: int = 0
    lost: int = 0
    unknown: int = 0
    abandoned: int = 0


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
    results: dict[str, RowResult]
    """Of done rows, by token."""


class RunningRows:
    """Rows by token. A row is busy from its claim until it is finished, and finished until a call has brought it back."""

    def __init__(self, concurrency: int, clock: Clock) -> None:
        self._concurrency, self._clock = concurrency, clock
        self._busy: dict[str, RunningRow] = {}
        self._finished = FinishedRows([], [], [], {})
        self._most_bytes = _RESULTS
        self._lease = 0.0  # seconds, as the last claim had it
        self._beat_at = 0.0
        self._started = asyncio.Event()
        self._ends: dict[str, float] = {}  # of the leases of finished rows
        self._told: set[str] = set()  # tokens of finished rows whose call had no answer: it may have arrived
        self._counts = dict.fromkeys(WorkerReport.__struct_fields__, 0)

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

    @property
    def finished_count(self) -> int:
        """How many rows are to be brought back."""
        return sum(len(rows) for rows in self._finished)

    def all(self) -> list[RunningRow]:
        return list(self._busy.values())

    def tokens(self) -> list[str]:
        """The rows whose leases a heartbeat extends."""
        return [token for token, row in self._busy.items() if not row.lost]

    def report(self) -> WorkerReport:
        return WorkerReport(**self._counts)

    # -- from the claim to the end ------------------------------------------------------------------------------

    def start(self, claim: Claim, task: asyncio.Task[None], sent: float) -> None:
        """`sent`: when the call was made that claimed or extended it: its lease began after that."""
        lease, now = lease_of(claim), self._clock.monotonic()
        if not self._busy or lease != self._lease:
            self._beat_at = now + lease / BEATS
        self._lease = lease
        self._busy[claim.token] = RunningRow(claim, task, sent + lease)
        self._started.set()

    def done(self, token: str, result: RowResult | None = None) -> None:
        if self._ended(token):
            self._finished.done.append(token)
            if result is not None:
                self._finished.results[token] = result

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
        self._busy.pop(row.claim.token, None)
        self._counts["abandoned"] += 1

    def lost(self, count: int) -> None:
        """Claims that came too late to be run."""
        self._counts["lost"] += count

    def _ended(self, token: str) -> bool:
        """Whether the end of a row is to be brought back; not so for one whose lease has ended."""
        row = self._busy.pop(token, None)
        if not self._busy:
            self._started.clear()
        if row is not None and row.lost:
            self._counts["lost"] += 1
            return False
        if row is not None:
            self._ends[token] = row.deadline
        return True

    # -- calls ------------------------------------------------------------------------------------------------

    def take_finished(self) -> FinishedRows:
        """What the next call brings back: everything; of large results some, the rest with the call after it."""
        taken, self._finished = self._finished, FinishedRows([], [], [], {})
        size = 0
        for place, token in enumerate(taken.done if taken.results else ()):
            size += len(taken.results[token].data) if token in taken.results else 0
            if place and size > self._most_bytes:
                later = taken.done[place:]
                del taken.done[place:]
                self._finished.done.extend(later)
                self._finished.results.update({token: taken.results.pop(token) for token in later if token in taken.results})
                break
        return taken

    def refused(self, taken: FinishedRows, error: str) -> bool:
        """A call was too large: bring back fewer results at once from now on. A result that came alone is the reason: its row is given up.

        Returns whether results can be the reason.
        """
        if len(taken.results) > 1:
            self._most_bytes = sum(len(result.data) for result in taken.results.values()) // 2
        for token in list(taken.results) if len(taken.results) == 1 else ():
            del taken.results[token]
            taken.done.remove(token)
            self.give_back(taken)
            self._finished.failed.append(FailedRow(token=token, error=error, give_up=True))
            return True
        self.give_back(taken)
        return bool(taken.results)

    def give_back(self, taken: FinishedRows) -> None:
        """A call has failed: the next one brings the rows back. Those that had arrived are stale then, which spoils nothing."""
        self._finished.done[:0] = taken.done
        self._finished.failed[:0] = taken.failed
        self._finished.released[:0] = taken.released
        self._told.update(token for token, _ in _outcomes(taken))
        self._finished.results.update(taken.results)

    def settled(self, taken: FinishedRows, stale: Collection[str]) -> None:
        """Count what a call has brought back. A stale row's lease had ended, or an earlier call had brought it back."""
        if not (stale or self._told or taken.failed or taken.released):  # so it is mostly
            for token in taken.done:
                self._ends.pop(token, None)
            self._counts["done"] += len(taken.done)
            return
        gone, now = set(stale), self._clock.monotonic()
        for token, outcome in _outcomes(taken):
            ends = self._ends.pop(token, 0.0)
            if token in gone and token not in self._told:
                outcome = "lost"
            elif token in gone and ends <= now:
                outcome = "unknown"
            self._told.discard(token)
            self._counts[outcome] += 1

    # -- leases -----------------------------------------------------------------------------------------------

    async def until_beat(self) -> None:
        """Return at the next heartbeat: a third of the lease after the last one, and only while rows run."""
        while True:
            await self._started.wait()
            left = self._beat_at - self._clock.monotonic()
            if left <= 0:
                if self.tokens():
                    self._beat_at = self._clock.monotonic() + max(_LEAST, self._lease / BEATS)
                    return
                left = max(_LEAST, self._lease / BEATS)
            await self._clock.sleep(left)

    async def until_late(self) -> None:
        """Return when the lease of a row has ended while it ran. Looks at least as often as a heartbeat comes: leases may change."""
        while True:
            await self._started.wait()
            deadline = min((row.deadline for row in self._busy.values() if not row.lost), default=None)
            often = max(_LEAST, self._lease / BEATS)
            left = often if deadline is None else min(deadline - self._clock.monotonic(), often)
            if left < 0:
                return
            await self._clock.sleep(max(left, 0.001))

    def extended(self, tokens: Collection[str], stale: Collection[str], sent: float) -> None:
        for token in tokens:
            row = self._busy.get(token)
            if row is not None:
                row.deadline = 0.0 if token in stale else sent + self._lease

    def missed_beat(self) -> None:
        """A heartbeat did not arrive: the next one comes sooner."""
        self._beat_at = self._clock.monotonic() + max(_LEAST, self._lease / BEATS / 4)

    def late(self) -> list[RunningRow]:
        """The rows that run although their lease has ended."""
        now = self._clock.monotonic()
        return [row for row in self._busy.values() if not row.lost and row.deadline < now]


def _outcomes(taken: FinishedRows) -> Iterator[tuple[str, str]]:
    """The tokens, and as what they are counted."""
    yield from ((token, "done") for token in taken.done)
    yield from ((row.token, "given_up" if row.give_up else "failed") for row in taken.failed)
    yield from ((token, "released") for token in taken.released)


def lease_of(claim: Claim) -> float:
    """How long the lease of a claim is, in seconds."""
    return max(0.001, (claim.lease_until - claim.start_processing_date) / 1000)

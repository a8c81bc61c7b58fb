"""What the calls of a queue take and give, beside rows. Dates and durations are milliseconds."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from headwater.queue.row import Row
from headwater.queue.schedule import Schedule

Outcome = Literal["inserted", "merged", "follow-up", "stale", "ignored"]
Reason = Literal["timeouts", "attempts", "given-up"]
State = Literal["due", "future", "held", "processing"]


class Put(msgspec.Struct, frozen=True, gc=False):
    """What became of one row of a put."""

    id: int
    """The id of the row that the put has made or changed; of a stale or ignored put, the id of the row that stays, or 0."""
    outcome: Outcome
    process_date: int
    """The row's process date by now."""
    raised: bool = False
    """The given process date lay before the insertion date, and was raised to it."""
    replayed: bool = False
    """This is the answer to an earlier put with the same idempotency key: nothing has changed now."""


class ClaimedRow(msgspec.Struct, frozen=True, gc=False):
    """A row that a worker may process until `lease_until`, with it. The token proves it."""

    row: Row
    token: str
    lease_until: int


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """What a claim has brought, and which of the tokens that came with it no longer count."""

    claims: list[ClaimedRow]
    stale: list[str]


class RowResult(msgspec.Struct, frozen=True):
    """What a worker says of a row that is done. `form`: 0 the text of a JSON value, 1 bytes. `expires`: when the queue forgets it."""

    data: bytes
    form: int = 0
    expires: int = 0


class FailedClaim(msgspec.Struct, frozen=True):
    """A row that could not be processed. It is tried again after `retry_after`, or goes to the dead list at once with `give_up`."""

    token: str
    error: str = ""
    retry_after: int | None = None
    """None: at once."""
    give_up: bool = False


class DeadRow(msgspec.Struct, frozen=True):
    """A row that the queue has given up."""

    row: Row
    reason: Reason
    date: int
    error: str = ""
    worker: str = ""


class Counts(NamedTuple):
    """How many rows are in each state."""

    due: int
    future: int
    held: int
    """Waiting rows that must not be claimed before another row is done."""
    processing: int
    dead: int

    @property
    def waiting(self) -> int:
        return self.due + self.future + self.held


class QueueStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue holds, and what has happened since it was opened."""

    counts: Counts
    paused: bool
    waiting_claims: int
    """Claims that wait for a row."""
    waiting_results: int
    """Calls that wait for the result of a row."""
    oldest_due: int
    """The smallest process date of the rows that are due; 0 where none is."""
    log_records: int
    """Records from the first one that is still needed to the last."""
    log_bytes: int
    puts: int
    merges: int
    claims: int
    done: int
    failed: int
    released: int
    timed_out: int
    died: int
    expired: int
    cancelled: int
    ignored: int
    """Puts whose key was done a while before, within their `unique_for`."""
    results: int
    """Results that are kept."""
    result_bytes: int
    done_keys: int
    """Keys that are remembered because they were done."""
    answers: int = 0
    """Answers that are kept for puts with idempotency keys."""
    answer_bytes: int = 0
    told: int = 0
    """Dead rows that the address of `on_dead` has taken."""
    failed_notices: int = 0
    """Tries to tell it that failed."""


class HistoryEntry(msgspec.Struct, frozen=True):
    """One change of a row that the log still holds."""

    sequence: int
    date: int
    change: str
    """The name of the change: insert, merge, claim, done, …"""
    id: int
    detail: str = ""


class ScheduledRow(msgspec.Struct, frozen=True):
    """A row that comes again: by which schedule, and when next."""

    id: int
    key: bytes
    schedule: Schedule
    next_run: int
    """The process date of a row that waits; the run behind this one where it is processed."""


class Rates(NamedTuple):
    """Rows for each second of the last interval, a second or a little more."""

    puts: float = 0.0
    claims: float = 0.0
    done: float = 0.0
    failed: float = 0.0


class QueueCounts(NamedTuple):
    """What a queue holds, and how much happens in it."""

    rows: Counts
    rates: Rates
    oldest_due: int
    """The smallest process date of the rows that are due; 0 where none is."""
    paused: bool
    waiting_claims: int


class QueueEvent(msgspec.Struct, frozen=True):
    """What a listener is told: rows have become due, a row is dead, or how many rows there are by now; `reset`: it has missed events."""

    kind: Literal["due", "dead", "counts", "reset"]
    date: int
    id: int = 0
    key: bytes = b""
    reason: str = ""
    count: int = 1
    counts: QueueCounts | None = None
    position: int = 0
    """The sequence of the last record that the event is of: whoever goes on behind it misses nothing that comes later."""

"""The answers of the operations on queues: their JSON, and its description for OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from headwater.queue.values import Outcome, Reason

Count = Annotated[int, msgspec.Meta(ge=0)]
Date = Annotated[str, msgspec.Meta(description="ISO 8601 in UTC, with milliseconds.")]
Key = Annotated[Any, msgspec.Meta(description="Text, or $binary where it is none.")]
Data = Annotated[Any, msgspec.Meta(description="JSON as it was put, or $binary.")]


class QueueSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A queue and its settings. `version` grows with each change of the queue. `created`: it was not there before. `dry_run`: nothing was
    changed. `declaration`: the declaration of its columns, as it was given; `declared`: its version, 0 where there never was one."""

    queue: str
    region: int
    settings: dict[str, Any]
    version: Count = 0
    declaration: str = ""
    declared: Count = 0
    created: bool = False
    dry_run: bool = False


class QueueDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """The queue is gone, with so many rows, dead ones included."""

    queue: str
    rows: Count
    dry_run: bool = False


class ShownRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row. `status`: W waiting, P being processed. `expiration_date` null: never. Further fields appear where they say something:

    `attempts`: how often it was claimed; `failures`: how often it has failed since its data changed; `error`: of the last failure;
    `worker` and `group`: who processes it; `follow_up`: it waits until the row of its key that is being processed is done; `schedule`: it
    comes again, such as every 1h; `after`: the ids of the rows that it still waits for, and `after_dead`, what a dead one of them does to
    it: hold or cancel.
    """

    id: int
    key: Key
    data: Data
    priority: int
    insertion_date: Date
    process_date: Date
    expiration_date: Date | None
    status: Literal["W", "P"]
    start_processing_date: Date | None
    timeout_counter: Count
    attempts: Count = 0
    failures: Count = 0
    lane: Key = ""
    error: str = ""
    worker: str = ""
    group: str = ""
    follow_up: bool = False
    schedule: str = ""
    after: tuple[int, ...] = ()
    after_dead: str = ""


class ShownClaim(ShownRow, frozen=True, kw_only=True, omit_defaults=True):
    """A row that the caller may process until `lease_until`. The token proves it."""

    token: str
    lease_until: Date


class ShownDeadRow(ShownRow, frozen=True, kw_only=True, omit_defaults=True):
    """A row that the queue has given up at `date`, and why: timeouts, attempts or given-up."""

    reason: Reason
    date: Date


class RowPut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a row. `id`: of the row that was made or changed. `raised`: its process date lay before its insertion
    date. `replayed`: an earlier put with the same Idempotency-Key had done it."""

    id: int
    outcome: Outcome
    process_date: Date | None
    raised: bool = False
    replayed: bool = False


class RowsPut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of the rows, once that is durable: of one row its fields, of a list of rows `puts`, one for each, in their order."""

    id: int | None = None
    outcome: Outcome | None = None
    process_date: Date | None = None
    raised: bool = False
    replayed: bool = False
    puts: list[RowPut] | None = None


class RowsPage(msgspec.Struct, frozen=True):
    """A page of rows by id; the Link header leads to the next."""

    items: list[ShownRow]
    next: str | None


class DeadPage(msgspec.Struct, frozen=True):
    """A page of dead rows by id; the Link header leads to the next."""

    items: list[ShownDeadRow]
    next: str | None


class RowsClaimed(msgspec.Struct, frozen=True, kw_only=True):
    """The claimed rows. `stale`: those of the given tokens that hold their rows no longer; what was said of the others is done."""

    claims: list[ShownClaim] = []
    stale: list[str] = []


class ShownResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a row: what its worker has said of it, until `expires`. `done` false: the row is not done yet."""

    id: int
    done: bool
    result: Data = None
    expires: Date | None = None


class RowCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Rows by state. `held`: waiting rows that another row keeps back, such as follow-ups and rows put after others."""

    due: Count
    future: Count
    held: Count
    processing: Count
    dead: Count


class ShownStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue holds, and what has happened since its process opened it. `oldest_due`: the date of the row that waits longest.
    `waiting_claims`: those that have reached this process. `told`: dead rows that the address of `on_dead` has taken; `failed_notices`:
    tries to tell it that failed.

    `ignored`: puts whose key was done within their `unique_for`; `done_keys`: keys that are remembered for that; `results`: those that are
    kept; `answers`: those that are kept for puts with an Idempotency-Key.
    """

    queue: str
    region: int
    paused: bool
    rows: RowCounts
    waiting_claims: Count
    waiting_results: Count
    oldest_due: Date | None
    log_records: Count
    log_bytes: Count
    puts: Count
    merges: Count
    claims: Count
    done: Count
    failed: Count
    released: Count
    timed_out: Count
    died: Count
    expired: Count
    cancelled: Count
    ignored: Count
    results: Count
    result_bytes: Count
    done_keys: Count
    answers: Count = 0
    answer_bytes: Count = 0
    told: Count = 0
    failed_notices: Count = 0


class QueuePaused(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the queue is paused by now."""

    queue: str
    paused: bool


class DeadRetried(msgspec.Struct, frozen=True, kw_only=True):
    """The dead rows that were put again, and what became of them; with `dry_run`, how many would be."""

    count: Count
    puts: list[RowPut] = []
    dry_run: bool = False


class DeadDropped(msgspec.Struct, frozen=True, kw_only=True):
    """How many dead rows are forgotten."""

    count: Count
    dry_run: bool = False


class ShownChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a key's row that the log still holds."""

    sequence: int
    date: Date
    change: str
    id: int
    detail: str = ""


class ShownSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A row that comes again. `schedule`: such as every 1h, or a cron expression, by the clocks of `zone`. `next_run`: its date where it
    waits; where it is being processed, the date behind this run."""

    key: Key
    id: int
    schedule: str
    zone: str | None
    next_run: Date


class EventRates(msgspec.Struct, frozen=True, kw_only=True):
    """Rows for each second of the last interval, which is a second or a little more."""

    puts: float
    claims: float
    done: float
    failed: float


class EventCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue holds, and how much happens in it. `due_lag_seconds`: how long the row that waits longest has been due."""

    rows: RowCounts
    rates: EventRates
    due_lag_seconds: float
    paused: bool
    waiting_claims: Count


class ShownEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rows have become due (`count` of them); a row has died, and why; or `counts`: what the queue holds by now. After `reset`, which has
    `counts`, too, events before it are missed. `position`: of the record that the event is of; `after` takes it."""

    kind: Literal["due", "dead", "counts", "reset"]
    date: Date
    position: Count = 0
    id: int = 0
    key: Key = ""
    reason: str = ""
    count: Count = 1
    counts: EventCounts | None = None

"""What is asked of queues: the requests of the operations, with what cannot be asked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from headwater.core.errors import BadInput
from headwater.core.units import Duration
from headwater.queue.handling import duration_of
from headwater.queue.json_form import key_in_path
from headwater.queue.row import NewRow
from headwater.queue.values import FailedClaim, State
from headwater.wire.operation import DryRun, Request, described, placed

NAME = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
MOST_ROWS = 65_536
MOST_CLAIMS = 10_000
_NAME = re.compile(NAME)
_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?([0-9]{1,9})")
_LONGEST = 30 * 86_400_000  # milliseconds that a claim may wait
QueueName = Annotated[str, described("The name of the queue.", pattern=NAME)]
Limit = Annotated[int, described("The most rows to answer with.", least=1, most=10_000)]
After = Annotated[int, described("Go on behind the row with this id.", least=0)]
KeyPrefix = Annotated[str, described("Only rows whose key begins so.")]
DeadReason = Annotated[
    Literal["timeouts", "attempts", "given-up"] | None, described("Only rows that died of this: timeouts, attempts or given-up.")
]


def checked_name(name: object) -> str:
    """The name of a queue. Errors: `BadInput`."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInput(
            f"{name!r:.120} cannot name a queue.",
            hint="Use up to 100 letters, digits, dots, dashes and underscores, a letter or digit first.",
        )
    return name


class ListQueues(Request, frozen=True, kw_only=True):
    """Nothing more."""


class QueueRequest(Request, frozen=True, kw_only=True):
    """A queue."""

    queue: QueueName

    def check(self) -> None:
        checked_name(self.queue)


class ChangeQueue(QueueRequest, frozen=True, kw_only=True):
    """What is changed."""

    dry_run: DryRun = False


class CreateQueue(ChangeQueue, frozen=True, kw_only=True):
    """Settings by name. Those that are left out are as configured for a new queue, and stay as they are for one that is there."""

    settings: Mapping[str, Any] = msgspec.field(default_factory=dict)
    declaration: str | None = None


class PutRows(QueueRequest, frozen=True, kw_only=True):
    """The rows of the body."""

    idempotency: Annotated[
        str | None,
        placed("header", "Names the put: one that is sent twice is done once.", pattern="^[!-~]{1,200}$", name="Idempotency-Key"),
    ] = None
    rows: Sequence[NewRow] = ()

    def check(self) -> None:
        checked_name(self.queue)
        if not self.rows:
            raise BadInput("A put without rows puts nothing.", hint="Give at least one row.")
        if len(self.rows) > MOST_ROWS:
            raise BadInput(f"A put of {len(self.rows)} rows is too large.", hint=f"Put up to {MOST_ROWS} at once.")


class ListRows(QueueRequest, frozen=True, kw_only=True):
    """Which rows."""

    state: Annotated[State | None, described("Only rows of this state: due, future, held or processing.")] = None
    key: KeyPrefix = ""
    after: After = 0
    limit: Limit = 100


class RowRequest(QueueRequest, frozen=True, kw_only=True):
    """A row by its key."""

    key: Annotated[str, described('The key; {"$binary": base64} where it is no text.')]

    def check(self) -> None:
        checked_name(self.queue)
        key_in_path(self.key)


class FindRow(RowRequest, frozen=True, kw_only=True):
    """What names the row."""

    by: Annotated[Literal["key", "id"], described("What names the row: its key, or its id.")] = "key"

    @property
    def wanted(self) -> bytes | int:
        """Errors: `BadInput` for what is no id."""
        if self.by == "key":
            return key_in_path(self.key)
        if not re.fullmatch("[0-9]{1,19}", self.key):
            raise BadInput(f"{self.key!r:.60} is no id of a row.", hint="Give the id that the put has answered.")
        return int(self.key)

    def check(self) -> None:
        super().check()
        _ = self.wanted


class FailedRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A row that could not be processed: why, and after how long it is tried again; `give_up`: never."""

    token: str
    error: str = ""
    retry_after: str | None = None
    give_up: bool = False

    def failure(self) -> FailedClaim:
        """Errors: `BadInput`."""
        after = None if self.retry_after is None else int(Duration.parse(self.retry_after))
        return FailedClaim(self.token, self.error, after, self.give_up)


class ClaimBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is claimed, and what became of rows that were claimed before. `n`: how many at most; 0 claims none.

    `done`, `fail`, `extend` and `release` are done in this order, before the claim. `wait`: how long to wait for the first row, such as
    20s, as the header Prefer says it in seconds. `lease`: of the claimed and the extended rows. `worker`: a name for the list of rows, and
    for the end of its waiting claims.
    """

    n: Annotated[int, msgspec.Meta(ge=0, le=MOST_CLAIMS)] = 1
    lease: str | None = None
    wait: str | None = None
    group: str = "default"
    worker: str = ""
    done: list[str] = []
    fail: list[FailedRow] = []
    extend: list[str] = []
    release: list[str] = []


class ClaimRows(QueueRequest, frozen=True, kw_only=True):
    """How long to wait. The body says the rest."""

    prefer: Annotated[str | None, placed("header", "wait=20: wait so many seconds for the first row.", name="Prefer")] = None
    body: ClaimBody = ClaimBody()

    @property
    def wait_ms(self) -> int:
        """Errors: `BadInput`."""
        if self.body.wait is not None:
            return _waited(duration_of(self.body.wait, "wait"))
        found = None if self.prefer is None else _WAIT.search(self.prefer)
        return 0 if found is None else _waited(int(found[1]) * 1000)

    def waits(self) -> float:
        return self.wait_ms / 1000 if self.body.n else 0.0

    @property
    def lease_ms(self) -> int | None:
        """Errors: `BadInput`."""
        return lease_of(self.body.lease)

    def check(self) -> None:
        checked_name(self.queue)
        _ = self.wait_ms, self.lease_ms
        if type(self.body.n) is not int or not 0 <= self.body.n <= MOST_CLAIMS:
            raise BadInput(f"n={self.body.n!r:.60} claims nothing.", hint=f"Give a number from 0 to {MOST_CLAIMS}.")
        for failed in self.body.fail:
            failed.failure()


class LeaveClaims(QueueRequest, frozen=True, kw_only=True):
    """Whose claims wait no longer."""

    worker: Annotated[str, placed("query", "The name that the claims were made with.", pattern="^[!-~]{1,200}$")]


class ClaimRequest(QueueRequest, frozen=True, kw_only=True):
    """A claim by its token."""

    token: Annotated[str, described("The token of the claim.", pattern="^[!-~]{1,200}$")]


class FailClaim(ClaimRequest, frozen=True, kw_only=True):
    """Why the row could not be processed."""

    error: Annotated[str, described("What went wrong, for people.")] = ""
    retry_after: Annotated[str | None, described("Try the row again after so long, such as 30s.")] = None
    give_up: Annotated[bool, described("Never try it again: it goes to the dead list.")] = False

    def failure(self) -> FailedClaim:
        """Errors: `BadInput`."""
        return FailedRow(token=self.token, error=self.error, retry_after=self.retry_after, give_up=self.give_up).failure()

    def check(self) -> None:
        super().check()
        self.failure()


class ExtendClaim(ClaimRequest, frozen=True, kw_only=True):
    """For how long from now."""

    lease: Annotated[str | None, described("The lease from now on, such as 60s. Left out: as the queue says.")] = None

    def check(self) -> None:
        super().check()
        lease_of(self.lease)


class ReleaseClaim(ClaimRequest, frozen=True, kw_only=True):
    """When the row may be claimed again."""

    delay: Annotated[str | None, described("Not before so long, such as 30s. Left out: at once.")] = None

    def check(self) -> None:
        super().check()
        _ = self.delay_ms

    @property
    def delay_ms(self) -> int | None:
        """Errors: `BadInput`."""
        return None if self.delay is None else int(Duration.parse(self.delay))


class PauseQueue(QueueRequest, frozen=True, kw_only=True):
    """Whether the queue gives out rows."""

    paused: Annotated[bool, described("true: give out no rows; false: give them out again.")]


class ListDeadRows(QueueRequest, frozen=True, kw_only=True):
    """Which dead rows."""

    key: KeyPrefix = ""
    reason: DeadReason = None
    after: After = 0
    limit: Limit = 100


class DeadRequest(QueueRequest, frozen=True, kw_only=True):
    """A dead row by its id."""

    id: Annotated[int, described("The id of the row.", least=0)]


class ChangeDead(DeadRequest, frozen=True, kw_only=True):
    """What is changed."""

    dry_run: DryRun = False


class ChangeAllDead(QueueRequest, frozen=True, kw_only=True):
    """Which dead rows."""

    key: Annotated[str, placed("query", "Only rows whose key begins so.")] = ""
    reason: Annotated[
        Literal["timeouts", "attempts", "given-up"] | None, placed("query", "Only rows that died of this: timeouts, attempts or given-up.")
    ] = None
    dry_run: DryRun = False


def lease_of(given: str | None) -> int | None:
    """Milliseconds of a lease. Errors: `BadInput`."""
    if given is None:
        return None
    lease = duration_of(given, "lease")
    if not 0 < lease <= _LONGEST:
        raise BadInput(f"A lease of {given} cannot be.", hint="Give from 1ms to 30d, such as 60s.")
    return lease


def _waited(ms: int) -> int:
    if ms > _LONGEST:
        raise BadInput("Nobody can wait so long.", hint="Give such as 20s, up to 30d.")
    return ms

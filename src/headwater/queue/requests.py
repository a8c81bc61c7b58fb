"""What is asked of queues: the requests of the operations, with what cannot be asked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

import msgspec

from headwater.core.errors import BadInput
from headwater.queue.checks import MOST_CLAIMS
from headwater.queue.checks import checked_name as checked_group
from headwater.queue.handling import duration_of
from headwater.queue.json_form import key_in_path
from headwater.queue.row import NewRow
from headwater.queue.values import FailedClaim, Reason, RowResult, State
from headwater.wire.operation import DryRun, Request, described, placed

NAME = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
MOST_ROWS = 65_536
_NAME = re.compile(NAME)
_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?([^\",;\s]*)", re.IGNORECASE)
_WAITS = "^([0-9]{1,9}ms|[0-9]{1,6}s|[0-9]{1,4}m|[0-6]?[0-9]{1,2}h|[0-2]?[0-9]d|30d)$"  # up to 30 days
_NAMED = re.compile("[!-~]{1,200}")
_SECONDS = re.compile("[0-9]{1,9}")
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


def checked_token(token: object) -> str:
    """The token of a claim. Errors: `BadInput`."""
    if not isinstance(token, str) or not token:
        raise BadInput(f"{token!r:.60} is no token of a claim.", hint="Give the token that the claim has answered.")
    return token


def checked_put_name(value: object) -> str:
    """The idempotency key of a put; nothing where there is none. Errors: `BadInput`."""
    if value is None:
        return ""
    if not isinstance(value, str) or not _NAMED.fullmatch(value):
        raise BadInput(f"{value!r:.60} cannot be an idempotency key.", hint="Use 1 to 200 printable ASCII characters without spaces.")
    return value


def _check_one_of(value: object, known: tuple[str, ...], what: str) -> None:
    if value is not None and (not isinstance(value, str) or value not in known):
        raise BadInput(f"{what}={value!r:.60} is none.", hint=f"It is one of {', '.join(known)}.")


def _check_prefix(value: object) -> None:
    if not isinstance(value, str):
        raise BadInput(f"{value!r:.60} begins no key.", hint='Give text, such as "page:".')


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
        checked_put_name(self.idempotency)
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

    def check(self) -> None:
        checked_name(self.queue)
        _check_one_of(self.state, get_args(State), "state")
        _check_prefix(self.key)


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
        after = None if self.retry_after is None else duration_of(self.retry_after, "retry_after")
        if not isinstance(self.error, str):
            raise BadInput(f"error={self.error!r:.60} is no text.", hint="Give such as str(error).")
        if not isinstance(self.give_up, bool):
            raise BadInput(f"give_up={self.give_up!r:.60} is neither true nor false.", hint="Give one of them.")
        return FailedClaim(checked_token(self.token), self.error, after, self.give_up)


class DoneRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A row that is processed, and its result: any JSON, or {"$binary": base64}."""

    token: str
    result: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class DoneBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What became of a row: any JSON, or {"$binary": base64}. It is kept for as long as the queue's setting `results` says."""

    result: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class ClaimBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is claimed, and what became of rows that were claimed before. `n`: how many at most; 0 claims none.

    `done`, `fail`, `extend` and `release` are done in this order, before the claim. `done` holds tokens, or tokens with results. `wait`:
    how long to wait for the first row, such as 20s, as the header Prefer says it in seconds. `lease`: of the claimed and the extended rows.
    `worker`: a name for the list of rows, and for the end of its waiting claims.
    """

    n: Annotated[int, msgspec.Meta(ge=0, le=MOST_CLAIMS)] = 1
    lease: str | None = None
    wait: str | None = None
    group: str = "default"
    worker: str = ""
    done: list[str | DoneRow] = []
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
        return waited(self.body.wait, self.prefer)

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
        checked_group(self.body.group, "The consumer group")
        checked_group(self.body.worker, "The worker's name")
        for failed in self.body.fail:
            failed.failure()


class LeaveClaims(QueueRequest, frozen=True, kw_only=True):
    """Whose claims wait no longer."""

    worker: Annotated[str, placed("query", "The name that the claims were made with.", pattern="^[!-~]{1,200}$")]

    def check(self) -> None:
        checked_name(self.queue)
        if not isinstance(self.worker, str) or not _NAMED.fullmatch(self.worker):
            raise BadInput(f"{self.worker!r:.60} names no worker.", hint="Give the name that its claims were made with.")


class ClaimRequest(QueueRequest, frozen=True, kw_only=True):
    """A claim by its token."""

    token: Annotated[str, described("The token of the claim.", pattern="^[!-~]{1,200}$")]

    def check(self) -> None:
        checked_name(self.queue)
        checked_token(self.token)


class DoneClaim(ClaimRequest, frozen=True, kw_only=True):
    """What became of the row. The body says it."""

    result: RowResult | None = None


class FindResult(QueueRequest, frozen=True, kw_only=True):
    """The row, and how long to wait for its end."""

    id: Annotated[int, described("The id of the row, as its put has answered.", least=0)]
    wait: Annotated[
        str | None, described("How long to wait for it, such as 20s; as the header Prefer says it in seconds.", pattern=_WAITS)
    ] = None
    prefer: Annotated[str | None, placed("header", "wait=20: wait so many seconds for it.", name="Prefer")] = None

    @property
    def wait_ms(self) -> int:
        """Errors: `BadInput`."""
        return waited(self.wait, self.prefer)

    def waits(self) -> float:
        return self.wait_ms / 1000

    def check(self) -> None:
        super().check()
        _ = self.wait_ms


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
        return None if self.delay is None else duration_of(self.delay, "delay")


class PauseQueue(QueueRequest, frozen=True, kw_only=True):
    """Whether the queue gives out rows."""

    paused: Annotated[bool, described("true: give out no rows; false: give them out again.")]


class ListDeadRows(QueueRequest, frozen=True, kw_only=True):
    """Which dead rows."""

    key: KeyPrefix = ""
    reason: DeadReason = None
    after: After = 0
    limit: Limit = 100

    def check(self) -> None:
        checked_name(self.queue)
        _check_one_of(self.reason, get_args(Reason), "reason")
        _check_prefix(self.key)


class DeadRequest(QueueRequest, frozen=True, kw_only=True):
    """A dead row by its id."""

    id: Annotated[int, described("The id of the row.", least=0)]

    def check(self) -> None:
        checked_name(self.queue)
        if type(self.id) is not int or self.id < 0:
            raise BadInput(f"{self.id!r:.60} is no id of a row.", hint="Give one that the dead list shows.")


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

    def check(self) -> None:
        checked_name(self.queue)
        _check_one_of(self.reason, get_args(Reason), "reason")
        _check_prefix(self.key)


def lease_of(text: str | None) -> int | None:
    """Milliseconds of a lease. Errors: `BadInput`."""
    if text is None:
        return None
    lease = duration_of(text, "lease")
    if not 0 < lease <= _LONGEST:
        raise BadInput(f"A lease of {text} cannot be.", hint="Give from 1ms to 30d, such as 60s.")
    return lease


def waited(wait: str | None, prefer: str | None) -> int:
    """Milliseconds to wait: as `wait` says, or else the header Prefer. Errors: `BadInput`."""
    match = None if wait is not None or prefer is None else _WAIT.search(prefer)
    if match is not None and not _SECONDS.fullmatch(match[1]):
        raise BadInput(f"Prefer: wait={match[1]:.60} is no number of seconds.", hint="Write it such as Prefer: wait=20.")
    ms = duration_of(wait, "wait") if wait is not None else 0 if match is None else int(match[1]) * 1000
    if ms > _LONGEST:
        raise BadInput("Nobody can wait so long.", hint="Give such as 20s, up to 30d.")
    return ms

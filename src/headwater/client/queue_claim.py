"""Rows as the door shows them, and claims: rows that the caller may process for a while."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from types import TracebackType
from typing import Any, NamedTuple, Self

from headwater.client.queue_result import NO_RESULT
from headwater.core.errors import BadInput, StaleClaim
from headwater.queue.answers import RowPut, ShownClaim, ShownDeadRow, ShownRow
from headwater.queue.handling import Backoff, GiveUp, Retry, duration_of
from headwater.queue.json_form import data_of, read_date, read_row, show_claim, show_dead, show_row, shown_key
from headwater.queue.requests import FailedRow, checked_token
from headwater.queue.result_form import result_bytes
from headwater.queue.row import Row, Status
from headwater.queue.values import ClaimedRow, DeadRow, Put, Reason, RowResult

_TEXT = 2000  # characters of an error


class QueueRow:
    """A row. Dates are milliseconds since 1970, UTC; 0 stands for none. `key` is text where it is that, else bytes."""

    __slots__ = ("_row", "_value")

    def __init__(self, row: Row) -> None:
        self._row = row
        self._value: Any = row  # until the data are decoded

    @property
    def id(self) -> int:
        return self._row.id

    @property
    def key(self) -> str | bytes:
        return shown_key(self._row.key)

    @property
    def data(self) -> Any:
        """The data: JSON decoded, or bytes as they were put."""
        if self._value is self._row:
            self._value = data_of(self._row.data, self._row.form)
        return self._value

    @property
    def priority(self) -> int:
        return self._row.priority

    @property
    def insertion_date(self) -> int:
        return self._row.insertion_date

    @property
    def process_date(self) -> int:
        return self._row.process_date

    @property
    def expiration_date(self) -> int:
        return self._row.expiration_date

    @property
    def status(self) -> Status:
        """W waiting, P being processed."""
        return self._row.status

    @property
    def start_processing_date(self) -> int:
        return self._row.start_processing_date

    @property
    def timeout_counter(self) -> int:
        """How often its lease has ended since its data changed."""
        return self._row.timeout_counter

    @property
    def attempts(self) -> int:
        """How often it was claimed."""
        return self._row.attempts

    @property
    def failures(self) -> int:
        """How often it has failed since its data changed."""
        return self._row.failures

    @property
    def lane(self) -> str | bytes:
        return shown_key(self._row.lane)

    @property
    def schedule(self) -> str:
        """By which it comes again, such as `every 1h`; empty: once it is done, it is gone."""
        return self._row.schedule

    @property
    def error(self) -> str:
        """Of the last failure."""
        return self._row.error

    @property
    def worker(self) -> str:
        """Who processes it."""
        return self._row.worker

    @property
    def follow_up(self) -> bool:
        """Whether it waits until the row of its key that is being processed is done."""
        return self._row.follow_up

    @property
    def after(self) -> tuple[int, ...]:
        """The ids of the rows that it still waits for."""
        return self._row.after

    @property
    def after_dead(self) -> str:
        """What a dead, cancelled or expired one of them does to it: `hold` or `cancel`; empty where it waits for none."""
        return self._row.after_dead

    def shown(self) -> ShownRow:
        """The row as JSON shows it."""
        return show_row(self._row)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.key!r}>"


class DeadQueueRow(QueueRow):
    """A row that the queue has given up: when, and why."""

    __slots__ = ("_dead",)

    def __init__(self, dead: DeadRow) -> None:
        super().__init__(dead.row)
        self._dead = dead

    @property
    def reason(self) -> Reason:
        """timeouts, attempts or given-up."""
        return self._dead.reason

    @property
    def date(self) -> int:
        """When it died."""
        return self._dead.date

    @property
    def error(self) -> str:
        return self._dead.error

    @property
    def worker(self) -> str:
        """Who processed it last."""
        return self._dead.worker

    def shown(self) -> ShownRow:
        return show_dead(self._dead)


class Exchanged(NamedTuple):
    """What a claim call has brought: rows, and which of the tokens that it told of no longer count."""

    claims: list[Claim]
    stale: list[str]


class Claim(QueueRow):
    """A row that the caller may process until `lease_until`: `async with claim: …` is done at its end, and fails with an exception.

    `Retry` and `GiveUp` end the block without an error; other exceptions go on to the caller. Errors of its calls: `StaleClaim` once the
    lease has ended, or after `done`, `fail` or `release`.
    """

    __slots__ = ("_settle", "_settled", "lease_until", "token")

    def __init__(self, row: Row, token: str, lease_until: int, settle: Callable[..., Awaitable[Exchanged]]) -> None:
        """`settle`: the queue's `exchange`."""
        super().__init__(row)
        self.token, self.lease_until, self._settle = token, lease_until, settle
        self._settled = False

    def shown(self) -> ShownRow:
        return show_claim(ClaimedRow(self._row, self.token, self.lease_until))

    async def done(self, result: Any = NO_RESULT) -> None:
        """The row is processed: it is gone. `result`: what became of it, JSON or bytes, for those who wait for it.

        Errors: `BadInput` for what is neither; `TooLarge`.
        """
        results = {} if result is NO_RESULT else {"results": {self.token: result_bytes(result)}}
        await self._tell(done=[self.token], **results)

    async def extend(self, lease: str | None = None) -> None:
        """Let the lease begin anew, as long as the queue's, or as given."""
        await self._told(lease, extend=[self.token])

    async def fail(self, error: str = "", *, retry_after: str | None = None, give_up: bool = False) -> None:
        """The row could not be processed: it is tried again after `retry_after`, at once where that is left out; `give_up`: never."""
        await self._tell(fail=[FailedRow(token=self.token, error=str(error)[:_TEXT], retry_after=retry_after, give_up=give_up)])

    async def release(self) -> None:
        """Give the row back unprocessed, at once."""
        await self._tell(release=[self.token])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if self._settled:
            return isinstance(error, Retry | GiveUp)
        if error is None:
            await self.done()
        elif isinstance(error, GiveUp):
            await self.fail(str(error), give_up=True)
        elif isinstance(error, Retry):
            await self.fail(str(error), retry_after=self._after(error.after))
        elif isinstance(error, Exception):
            await self.fail(f"{type(error).__name__}: {error}", retry_after=self._after(None))
        else:
            await self.release()
        return isinstance(error, Retry | GiveUp)

    def _after(self, delay: int | None) -> str:
        return f"{Backoff().wait_ms(self.failures + 1, Random()) if delay is None else delay}ms"

    async def _tell(self, **outcome: Any) -> None:
        await self._told(None, **outcome)
        self._settled = True

    async def _told(self, lease: str | None, /, **outcome: Any) -> None:
        if lease is not None:
            duration_of(lease, "lease")
        if (await self._settle(0, lease=lease, **outcome)).stale:
            raise StaleClaim(
                f"The claim of row {self.id} holds it no longer: its lease has ended, or it is done.",
                hint="Another worker may have it. Give a longer lease, or extend it in time.",
            )


def done_claims(done: Sequence[str | Claim | tuple[str | Claim, Any]]) -> tuple[list[str], dict[str, RowResult]]:
    """The tokens of claims whose rows are processed, and the results of those that have one. Errors: `BadInput`."""
    tokens, results = list[str](), dict[str, RowResult]()
    if isinstance(done, str) or not isinstance(done, Sequence):
        raise BadInput(f"done={done!r:.60} is no list of claims.", hint="Give such as done=[claim], or done=[(claim, result)].")
    for item in done:
        claim, result = item if isinstance(item, tuple) and len(item) == 2 else (item, NO_RESULT)
        tokens.append(checked_token(claim if isinstance(claim, str) else getattr(claim, "token", claim)))  # also of the blocking door's
        if result is not NO_RESULT:
            results[tokens[-1]] = result_bytes(result)
    return tokens, results


# -- what a server has answered -------------------------------------------------------------------------------


def row_of(shown: ShownRow) -> QueueRow:
    return QueueRow(read_row(shown))


def claim_of(shown: ShownClaim, settle: Callable[..., Awaitable[Exchanged]]) -> Claim:
    row = read_row(shown)
    return Claim(row, shown.token, row.lease_until, settle)


def dead_of(shown: ShownDeadRow) -> DeadQueueRow:
    return DeadQueueRow(DeadRow(read_row(shown), shown.reason, read_date(shown.date, "date"), shown.error, shown.worker))


def put_of(put: RowPut) -> Put:
    return Put(
        put.id, put.outcome, 0 if put.process_date is None else read_date(put.process_date, "process_date"), put.raised, put.replayed
    )


def limit_of(limit: object) -> int | None:
    """How many rows a list is to have; None: all. Errors: `BadInput`."""
    if limit is None or (type(limit) is int and limit >= 0):
        return limit
    raise BadInput(f"limit={limit!r:.60} is no number of rows.", hint="Give such as limit=100, or leave it out.")

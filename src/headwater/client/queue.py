"""The door's queues: rows that workers claim, over a directory or over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from headwater.client.backend import Backend
from headwater.client.put_batch import PutBatch
from headwater.client.queue_claim import Claim, DeadQueueRow, Exchanged, QueueRow, claim_of, dead_of, done_claims, limit_of, put_of, row_of
from headwater.client.queue_result import NO_RESULT, QueuePut, wait_for_result
from headwater.client.queue_rows import GivenAfter, new_row, rows_from
from headwater.client.queue_worker import QueueWorker
from headwater.core.clock import Clock
from headwater.core.errors import BadInput
from headwater.queue import dead_operations as ask_dead
from headwater.queue import operations as ask
from headwater.queue import requests
from headwater.queue.answers import (
    QueueDeleted,
    QueueSummary,
    RowCounts,
    ShownChange,
    ShownEvent,
    ShownResult,
    ShownSchedule,
    ShownStatistics,
)
from headwater.queue.follow_request import FollowQueue
from headwater.queue.handling import Backoff, duration_of
from headwater.queue.json_form import GivenDate, key_bytes, path_key
from headwater.queue.requests import ClaimBody, FailedRow, checked_name, checked_put_name, checked_token, lease_of
from headwater.queue.result_form import done_rows, result_bytes, result_value
from headwater.queue.row import NewRow
from headwater.queue.settings import QueueSettings
from headwater.queue.settings_form import given_settings
from headwater.queue.values import Reason, RowResult, State

if TYPE_CHECKING:
    from headwater.client.queue_performer import QueuePerformer
    from headwater.queue.manager import OpenQueue

_PAGE = 1000


class Queues:
    """Every queue: `pages = await hw.queue("pages", create=QueueSettings(lease="60s"))`, then `await pages.put("page:/about", {…})`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __call__(self, name: str, *, create: QueueSettings | bool = False, declaration: str | Path | None = None) -> OneQueue:
        """A queue by its name. Does no I/O. Awaiting it opens it, and with `create` makes one that is not there. Errors: `BadInput`."""
        return OneQueue(self._backend, checked_name(name), create=create, declaration=declaration)

    async def list(self) -> Sequence[QueueSummary]:
        """Every queue with its settings, sorted by name."""
        return await self._backend.ask(ask.LIST, requests.ListQueues())

    async def create(
        self, name: str, settings: QueueSettings | None = None, *, declaration: str | Path | None = None, dry_run: bool = False
    ) -> QueueSummary:
        """Create a queue, or change the settings of one that is there: those that are given, the others stay.

        Errors: `BadInput`; `Conflict` for a setting that cannot change.
        """
        written = {} if settings is None else given_settings(settings)
        return await self.create_from(name, written, declaration=declaration, dry_run=dry_run)

    async def create_from(
        self, name: str, settings: Mapping[str, Any], *, declaration: str | Path | None = None, dry_run: bool = False
    ) -> QueueSummary:
        """`create` with settings by name, such as {"lease": "60s"}."""
        declared = declaration.read_text("utf-8") if isinstance(declaration, Path) else declaration
        request = requests.CreateQueue(queue=name, settings=dict(settings), declaration=declared, dry_run=dry_run)
        return await self._backend.ask(ask.CREATE, request)

    async def delete(self, name: str, *, dry_run: bool = False) -> QueueDeleted:
        """Delete a queue with all of its rows, for good. Errors: `UnknownQueue`."""
        return await self._backend.ask(ask.DELETE, requests.ChangeQueue(queue=name, dry_run=dry_run))


class OneQueue:
    """A queue: rows with a key, a priority and a date. Workers claim rows that are due; a row that is done is gone.

    Nothing creates a queue but `create`. Errors of every call: `UnknownQueue`; `BadInput`; `NotOwner` where another process owns the queue
    and serves at no address; `Unavailable`, such as `OutcomeUnknown`, where the log could not be written. Over HTTP also `Unreachable`.
    """

    def __init__(self, backend: Backend, name: str, *, create: QueueSettings | bool = False, declaration: str | Path | None = None) -> None:
        self._backend, self.name, self._create, self._declaration = backend, name, create, declaration
        self._performer: QueuePerformer | None = backend.performer_here(ask.QUEUE.name)
        self._puts = PutBatch(backend, name)

    def __await__(self) -> Generator[Any, None, OneQueue]:
        return self.open().__await__()

    async def open(self) -> OneQueue:
        """Open the queue, and create it first where that was asked for; over HTTP the server does. Errors: `UnknownQueue`."""
        if self._create is not False:
            settings = None if self._create is True else self._create
            await Queues(self._backend).create(self.name, settings, declaration=self._declaration)
        await self.count()
        return self

    # -- putting ----------------------------------------------------------------------------------------------

    async def put(
        self,
        key: str | bytes,
        data: Any = None,
        *,
        priority: int | None = None,
        delay: str | None = None,
        process_date: GivenDate | None = None,
        expiration_date: GivenDate | None = None,
        insertion_date: GivenDate | None = None,
        lane: str | None = None,
        every: str | None = None,
        cron: str | None = None,
        zone: str | None = None,
        unique_for: str | None = None,
        after: GivenAfter | None = None,
        after_dead: str | None = None,
        idempotency_key: str | None = None,
    ) -> QueuePut:
        """Put a row; return once it is durable. A row whose key waits already is merged into that one: the newest data, the latest
        process date, the smallest priority.

        `data`: JSON, or bytes. `priority`: 0 first, 255 last. `delay`, such as "10s", or `process_date`: not before. `expiration_date`: not
        after. `lane`: rows of one lane run in their order. `idempotency_key`: a put that is sent twice is done once.

        `every`, such as "1h", or `cron`, such as "0 6 * * 1-5", by the clocks of a `zone`: the row comes again when it is done or given up;
        missed runs come once. A put without them keeps the schedule of its key, every="never" ends it. Errors: `BadInput` for a bad one.

        `unique_for`, such as "10m": the put is `ignored` where its key was done within it; left out, as the queue's setting says.
        `after`: ids of rows, or what their puts have returned: the row waits until they are gone. One that is dead holds it until it is
        retried and done, or dropped; with after_dead="cancel", one that is dead, cancelled or expired cancels it. A cycle is `BadInput`.
        `await put.result()` waits until the row is done, and returns what its worker has said of it.
        """
        row = new_row(
            key, data, priority=priority, delay=delay, process_date=process_date, expiration_date=expiration_date,
            insertion_date=insertion_date, lane=lane, every=every, cron=cron, zone=zone, unique_for=unique_for, after=after,
            after_dead=after_dead,
        )  # fmt: skip
        near = self._near()
        if near is not None and self._performer is not None:
            return QueuePut((await self._performer.put_here(near, (row,), checked_put_name(idempotency_key)))[0], self)
        if idempotency_key is None:
            return QueuePut(put_of(await self._puts.put(row)), self)
        return (await self._put([row], idempotency_key))[0]

    async def put_many(self, rows: Iterable[Mapping[str, Any] | tuple[Any, ...]], *, idempotency_key: str | None = None) -> list[QueuePut]:
        """Put rows, all of them or none, as one record. A row is (key, data), or a mapping with the names of `put`."""
        made = rows_from(rows)
        near = self._near()
        if near is not None and self._performer is not None:
            return [QueuePut(put, self) for put in await self._performer.put_here(near, made, checked_put_name(idempotency_key))]
        return await self._put(made, idempotency_key)

    async def _put(self, rows: Sequence[NewRow], idempotency: str | None) -> list[QueuePut]:
        answer = await self._backend.ask(ask.PUT, requests.PutRows(queue=self.name, rows=rows, idempotency=idempotency))
        return [QueuePut(put_of(put), self) for put in PutBatch.puts(answer)]

    async def result(self, id: int, *, timeout: str | None = None) -> Any:
        """What the worker of a row has said of it when it was done. Waits until then; with `timeout`, such as "30s", no longer than that.

        A row that comes again has the result of its last run. Errors: `Timeout`; `NotFound` where the row has left no result, is cancelled
        or expired, or its result is forgotten, as the setting `results` says; `Conflict` where the row is dead.
        """
        return result_value(await self.shown_result(id, timeout=timeout))

    async def shown_result(self, id: int, *, timeout: str | None = None) -> ShownResult:
        """`result` as JSON has it, with every digit, and until when it is kept."""
        return await wait_for_result(self._backend, self.name, id, timeout)

    # -- claiming ---------------------------------------------------------------------------------------------

    async def claim(
        self,
        n: int = 1,
        *,
        lease: str | None = None,
        wait: str = "20s",
        group: str = "default",
        worker: str = "",
        done: Sequence[str | Claim | tuple[str | Claim, Any]] = (),
    ) -> list[Claim]:
        """Claim up to `n` rows that are due, for as long as the queue's lease, or as given; wait so long for the first.

        Empty where none came. `done`: claims whose rows are processed, or pairs of a claim and its result; stale ones are passed over.
        Errors: `Paused` with wait="0s"; `BadInput` and `TooLarge` for a result.
        """
        tokens, results = done_claims(done)
        return (await self.exchange(n, lease=lease, wait=wait, group=group, worker=worker, done=tokens, results=results)).claims

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
    ) -> Exchanged:
        """Say what became of rows by their tokens, and claim up to `n` others, in one call. A stale token never spoils the rest."""
        for token in chain(done, extend, release):
            checked_token(token)
        for name in (group, worker):
            if not isinstance(name, str):
                raise BadInput(f"{name!r:.60} names neither a consumer group nor a worker.", hint='Give text, such as worker="crawler-7".')
        lasts, waits = lease_of(lease), duration_of(wait, "wait")
        near = self._near()
        if near is not None and self._performer is not None and type(n) is int and n >= 0:
            failed = [failed_row.failure() for failed_row in fail] if fail else ()
            if waits and n:
                claimed = await self._performer.claim_here(
                    near, n, lease=lasts, wait=waits, group=group, worker=worker, done=done, results=results, fail=failed, extend=extend,
                    release=release,
                )  # fmt: skip
            else:
                claimed = await near.queue.claim(
                    n, lease=lasts, group=group, worker=worker, done=done, results=results, fail=failed, extend=extend, release=release
                )  # fmt: skip
            return Exchanged([Claim(row.row, row.token, row.lease_until, self.exchange) for row in claimed.claims], claimed.stale)
        body = ClaimBody(
            n=n, lease=lease, wait=wait, group=group, worker=worker,
            done=done_rows(done, results), fail=list(fail), extend=list(extend), release=list(release),
        )  # fmt: skip
        answer = await self._backend.ask(ask.CLAIM, requests.ClaimRows(queue=self.name, body=body))
        return Exchanged([claim_of(shown, self.exchange) for shown in answer.claims], answer.stale)

    async def leave(self, worker: str) -> None:
        """End the claims of a worker that wait for rows; they return at once."""
        await self._backend.ask(ask.LEAVE, requests.LeaveClaims(queue=self.name, worker=worker))

    async def done(self, *tokens: str, result: Any = NO_RESULT) -> list[str]:
        """The rows of these claims are processed: they are gone. Returns the tokens that no longer count.

        `result`: what became of them, JSON or bytes. Errors: `BadInput` for what is neither; `TooLarge`.
        """
        results = None if result is NO_RESULT else dict.fromkeys(tokens, result_bytes(result))
        return (await self.exchange(0, done=tokens, results=results)).stale

    async def extend(self, *tokens: str, lease: str | None = None) -> list[str]:
        """Let the leases of claims begin anew. Returns the tokens that no longer count."""
        return (await self.exchange(0, extend=tokens, lease=lease)).stale

    async def fail(self, token: str, error: str = "", *, retry_after: str | None = None, give_up: bool = False) -> None:
        """The row of a claim could not be processed. Errors: `StaleClaim`."""
        request = requests.FailClaim(queue=self.name, token=token, error=error, retry_after=retry_after, give_up=give_up)
        await self._backend.ask(ask.FAIL, request)

    async def release(self, token: str, *, delay: str | None = None) -> None:
        """Give the row of a claim back unprocessed, to be claimed after `delay`. Errors: `StaleClaim`."""
        await self._backend.ask(ask.RELEASE, requests.ReleaseClaim(queue=self.name, token=token, delay=delay))

    def worker(
        self,
        function: Callable[[Any], Any],
        *,
        concurrency: int = 8,
        lease: str | None = None,
        group: str = "default",
        grace: str = "30s",
        drain: bool = False,
        retry: Backoff | None = None,
        on_dead: Callable[[Any], Any] | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> QueueWorker:
        """A worker that runs a function for each row: `async with pages.worker(rebuild, concurrency=8) as w: await w.run()`.

        `on_dead`: called with each row that dies while the worker runs, whichever worker had it; not with those that died before.
        """
        return QueueWorker(
            self, function, concurrency=concurrency, lease=lease, group=group, grace=grace, drain=drain, retry=retry, on_dead=on_dead,
            clock=clock, random=random,
        )  # fmt: skip

    # -- looking ----------------------------------------------------------------------------------------------

    async def get(self, key: str | bytes) -> QueueRow:
        """The row of a key: the one that is being processed, where there is one. Errors: `NotFound`."""
        return row_of(await self._backend.ask(ask.GET, requests.FindRow(queue=self.name, key=path_key(key_bytes(key)))))

    async def get_id(self, id: int) -> QueueRow:
        """The row of an id. Errors: `NotFound`."""
        return row_of(await self._backend.ask(ask.GET, requests.FindRow(queue=self.name, key=str(id), by="id")))

    async def rows(self, *, state: State | None = None, prefix: str = "", limit: int | None = None) -> AsyncIterator[QueueRow]:
        """Rows by id; of one state (due, future, held, processing), of keys that begin with `prefix`."""
        after, left = 0, limit_of(limit)
        while left is None or left > 0:
            most = _PAGE if left is None else min(left, _PAGE)
            request = requests.ListRows(queue=self.name, state=state, key=prefix, after=after, limit=most)
            page = await self._backend.ask(ask.ROWS, request)
            for shown in page.items:
                yield row_of(shown)
            if page.next is None:
                return
            after, left = int(page.next), None if left is None else left - len(page.items)

    async def count(self) -> RowCounts:
        """How many rows are in each state."""
        return await self._backend.ask(ask.COUNT, self._request())

    async def statistics(self) -> ShownStatistics:
        """What the queue holds, and what has happened since it was opened."""
        return await self._backend.ask(ask.STATISTICS, self._request())

    async def show(self) -> QueueSummary:
        """Its settings, and the declaration of its columns."""
        return await self._backend.ask(ask.SHOW, self._request())

    async def history(self, key: str | bytes) -> Sequence[ShownChange]:
        """What the log still holds of a key, the oldest first."""
        return await self._backend.ask(ask.HISTORY, requests.RowRequest(queue=self.name, key=path_key(key_bytes(key))))

    async def schedules(self) -> Sequence[ShownSchedule]:
        """The rows that come again, by key: their schedules, and when they run next."""
        return await self._backend.ask(ask.SCHEDULES, self._request())

    async def listen(self, *, after: int | None = None) -> AsyncIterator[ShownEvent]:
        """Rows that become due, rows that die, and how many there are, from now on, for ever. `after`: the position of the last event that
        was seen; rows that died since, and are dead still, come first. `reset`: events were missed, and this is what there is."""
        follow = partial(FollowQueue, queue=self.name)
        async for event in self._backend.stream(ask.LISTEN, follow(after=after), lambda event: follow(after=event.position)):
            yield event

    # -- changing ---------------------------------------------------------------------------------------------

    async def cancel(self, key: str | bytes) -> QueueRow:
        """Remove the waiting row of a key, and return it. Errors: `NotFound`; `Conflict` while it is being processed."""
        return row_of(await self._backend.ask(ask.CANCEL, requests.RowRequest(queue=self.name, key=path_key(key_bytes(key)))))

    async def run_now(self, key: str | bytes) -> QueueRow:
        """Let the waiting row of a key be due now, whatever its date; its schedule stays. Errors: `NotFound`; `Conflict` as of `cancel`."""
        return row_of(await self._backend.ask(ask.RUN, requests.RowRequest(queue=self.name, key=path_key(key_bytes(key)))))

    async def pause(self) -> None:
        """Give out no rows until `resume`. Puts, and what becomes of claimed rows, go on."""
        await self._backend.ask(ask.PAUSE, requests.PauseQueue(queue=self.name, paused=True))

    async def resume(self) -> None:
        """Give out rows again."""
        await self._backend.ask(ask.PAUSE, requests.PauseQueue(queue=self.name, paused=False))

    # -- dead rows --------------------------------------------------------------------------------------------

    async def dead(self, *, prefix: str = "", reason: Reason | None = None, limit: int | None = None, after: int = 0) -> list[DeadQueueRow]:
        """The rows that the queue has given up, by id, behind the id `after`; of keys that begin with `prefix`, of one reason."""
        rows, left = list[DeadQueueRow](), limit_of(limit)
        while left is None or left > len(rows):
            most = _PAGE if left is None else min(left - len(rows), _PAGE)
            request = requests.ListDeadRows(queue=self.name, key=prefix, reason=reason, after=after, limit=most)
            page = await self._backend.ask(ask_dead.DEAD, request)
            rows += [dead_of(shown) for shown in page.items]
            if page.next is None:
                break
            after = int(page.next)
        return rows

    async def dead_show(self, id: int) -> DeadQueueRow:
        """A dead row. Errors: `NotFound`."""
        return dead_of(await self._backend.ask(ask_dead.DEAD_SHOW, requests.DeadRequest(queue=self.name, id=id)))

    async def dead_retry(self, id: int, *, dry_run: bool = False) -> int:
        """Put a dead row again; it may merge with a waiting row of its key. Returns 1. Errors: `NotFound`."""
        return (await self._backend.ask(ask_dead.DEAD_RETRY, requests.ChangeDead(queue=self.name, id=id, dry_run=dry_run))).count

    async def dead_retry_all(self, *, prefix: str = "", reason: Reason | None = None, dry_run: bool = False) -> int:
        """Put every dead row again, or those that a filter finds; return how many."""
        request = requests.ChangeAllDead(queue=self.name, key=prefix, reason=reason, dry_run=dry_run)
        return (await self._backend.ask(ask_dead.DEAD_RETRY_ALL, request)).count

    async def dead_drop(self, id: int, *, dry_run: bool = False) -> int:
        """Forget a dead row, for good. Returns 1. Errors: `NotFound`."""
        return (await self._backend.ask(ask_dead.DEAD_DROP, requests.ChangeDead(queue=self.name, id=id, dry_run=dry_run))).count

    async def dead_drop_all(self, *, prefix: str = "", reason: Reason | None = None, dry_run: bool = False) -> int:
        """Forget every dead row, or those that a filter finds, for good; return how many."""
        request = requests.ChangeAllDead(queue=self.name, key=prefix, reason=reason, dry_run=dry_run)
        return (await self._backend.ask(ask_dead.DEAD_DROP_ALL, request)).count

    def _near(self) -> OpenQueue | None:
        """The queue itself, where this process owns it: a call then costs nothing beside the queue's own work."""
        return None if self._performer is None else self._performer.opened(self.name)

    def _request(self) -> requests.QueueRequest:
        return requests.QueueRequest(queue=self.name)

"""Performs the operations on queues in this process, which then owns the queues that they name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any

import msgspec

from headwater.client.claim_waits import ClaimWaits
from headwater.client.local import LocalLog
from headwater.client.notice_post import post_notice
from headwater.client.wal_performer import WalPerformer
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Closed, HeadwaterError, NotOwner, StaleClaim
from headwater.core.metrics import Metrics
from headwater.core.settings import Settings
from headwater.queue import answers, operations, requests
from headwater.queue.answer import RecalledAnswer
from headwater.queue.event_json import show_event
from headwater.queue.follow_request import FollowQueue
from headwater.queue.json_form import key_in_path, show_claim, show_date, show_dead, show_row, show_schedule
from headwater.queue.listing import ends_early
from headwater.queue.manager import OpenQueue, QueueManager
from headwater.queue.metrics import QueueMetrics
from headwater.queue.notes import NOTES
from headwater.queue.queue import Queue
from headwater.queue.region_hints import NAMESPACE
from headwater.queue.requests import QueueRequest
from headwater.queue.result_form import show_result, told_done
from headwater.queue.row import BINARY, NewRow
from headwater.queue.summary import summary_of
from headwater.queue.values import Claimed, HistoryEntry, Put
from headwater.wire.operation import Operation, Reply

_audit = logging.getLogger("headwater.audit")
_logger = logging.getLogger("headwater.queue")
_PATIENCE = (0.05, 0.1, 0.2, 0.4, 0.8)  # seconds: a command beside this one owns the queue for one call
_FREQUENT = {operations.PUT, operations.CLAIM, operations.LEAVE, operations.DONE, operations.FAIL, operations.EXTEND, operations.RELEASE}


def measure(metrics: Metrics, performer: QueuePerformer, log: object) -> None:
    """Let the metrics read what the queues hold."""
    metrics.add(performer.metrics)


async def opens(performer: QueuePerformer, log: object) -> None:
    """Begin to serve: open the queues of the directory in the background, so that their dates and leases count."""
    performer.serve()


async def closes(performer: QueuePerformer, log: object) -> None:
    """Finish the calls under way, and let others own the queues."""
    await performer.aclose()


class QueuePerformer:
    """One method for each operation of the same name. The first call of a queue owns it. Belongs to one event loop."""

    def __init__(
        self, *, log: LocalLog, wal: WalPerformer, clock: Clock | None = None, settings: Settings | None = None, address: str = ""
    ) -> None:
        self._log, self._wal, self._clock, self._settings = log, wal, clock or SystemClock(), settings or Settings()
        self._address = address
        self._manager: QueueManager | None = None
        self._serving: asyncio.Task[None] | None = None
        self._closed = False
        self.waits = ClaimWaits()
        self.metrics = QueueMetrics()
        self.metrics.read = lambda: [] if self._manager is None else self._manager.readings()

    # -- how it runs ------------------------------------------------------------------------------------------

    async def perform(self, operation: Operation[Any, Any], request: Any, who: str = "") -> Any:
        answer = await getattr(self, operation.name)(request)
        if operation.changes and operation not in _FREQUENT and not getattr(request, "dry_run", False):
            _audit.info("%s: %s %s", who or "this process", operation.id, msgspec.structs.asdict(request))
        return answer

    async def stream(self, operation: Operation[Any, Any], request: FollowQueue) -> AsyncIterator[answers.ShownEvent]:
        queue = await self._queue(request)
        async for event in queue.listen(request.last):
            yield show_event(event)

    def serve(self) -> None:
        """Open every queue of the directory in the background; on Kafka, those that this server has owned and nobody owns now."""
        self._wal.open_again_by(NAMESPACE, self._open_again)
        self._serving = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        if (await self._log.open()).engine != "embedded":
            return  # on Kafka a queue is owned by whom its calls come to first: opening all would take them from other servers' reach
        try:
            manager = await self._managed()
            for entry in await manager.list():
                try:
                    await manager.open(entry.name)
                except HeadwaterError as error:
                    _logger.warning("Queue %s was not opened: %s", entry.name, error)
        except HeadwaterError as error:
            _logger.warning("The queues were not listed, and are opened with their first call: %s", error)

    async def _open_again(self, region: int) -> None:
        """Open the queues of a region; one without any, such as the catalogue's, as it is."""
        manager = await self._managed()
        name = next((entry.name for entry in await manager.list() if entry.region == region), None)
        if name is None:
            await (await self._wal.manager(NAMESPACE)).open(region)
        else:
            await manager.open(name)

    async def aclose(self) -> None:
        """Close every queue. Closing twice is no error."""
        self._closed = True
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)
        self.waits.end_all()
        manager, self._manager = self._manager, None
        if manager is not None:
            await manager.aclose()

    async def _managed(self) -> QueueManager:
        if self._closed:
            raise Closed("This headwater is closed.", hint="Open it again.")
        if self._manager is None:
            log, regions = await self._log.open(), await self._wal.manager(NAMESPACE)
            if self._manager is None:
                self._manager = QueueManager(
                    log, regions, clock=self._clock, settings=self._settings, serves=bool(self._address), post=post_notice
                )
        return self._manager

    def opened(self, name: str) -> OpenQueue | None:
        """A queue that is open in this process."""
        return None if self._manager is None else self._manager.known(name)

    async def _queue(self, request: QueueRequest) -> Queue:
        return (await self._known(request)).queue

    async def _known(self, request: QueueRequest) -> OpenQueue:
        manager = self._manager or await self._managed()
        known = manager.known(request.queue)
        while known is None:  # one that is closed between is opened anew
            await self._open(manager, request.queue)
            known = manager.known(request.queue)
        return known

    async def _open(self, manager: QueueManager, name: str) -> None:
        """Own a queue. Waits a little for an owner that serves nobody, as commands do that use a directory at the same time."""
        for wait in _PATIENCE:
            try:
                await manager.open(name)
                return
            except NotOwner as error:
                if error.address or self._address:
                    raise
            await self._clock.sleep(wait)
        await manager.open(name)

    # -- calls of this process, without a request -------------------------------------------------------------

    def begin_claim(self, known: OpenQueue, n: int, *, wait: int, worker: str, **options: Any) -> Awaitable[Claimed]:
        """A claim that is made at once; `options` as of `Queue.claim`. Where its caller gives it up, what was claimed is released."""
        queue = known.queue
        answer = queue.claim(n, wait=wait, worker=worker, **options)
        if not wait or not n or isinstance(answer, asyncio.Future | RecalledAnswer):
            return answer
        return self.waits.begin(known.entry.name, worker, asyncio.ensure_future(answer), lambda tokens: self._give_back(queue, tokens))

    async def claim_here(self, known: OpenQueue, n: int, **options: Any) -> Claimed:
        """`begin_claim`, awaited. Where the caller is cancelled just as the answer comes, its rows are released."""
        claim = self.begin_claim(known, n, **options)
        try:
            return await claim
        except asyncio.CancelledError:
            if isinstance(claim, asyncio.Future) and not claim.cancel() and not claim.cancelled() and claim.exception() is None:
                self._give_back(known.queue, [row.token for row in claim.result().claims])
            raise

    def _give_back(self, queue: Queue, tokens: Sequence[str]) -> None:
        if not tokens:
            return
        released = asyncio.ensure_future(queue.release(tokens))
        released.add_done_callback(lambda done: None if done.cancelled() else done.exception())  # the lease ends them otherwise

    async def put_rows(self, request: requests.PutRows) -> Sequence[Put]:
        """What became of the rows of a put."""
        return await self.put_here(await self._known(request), request.rows, request.idempotency or "")

    @staticmethod
    def put_here(known: OpenQueue, rows: Sequence[NewRow], idempotency: str = "") -> Awaitable[Sequence[Put]]:
        """Put rows into an open queue. Errors: `BadInput` for data that are not as declared."""
        declaration = known.declaration
        if declaration.columns:
            for row in rows:
                if not row.key.startswith(NOTES):
                    declaration.check(row.data, binary=row.form == BINARY)
            rows = [msgspec.structs.replace(row, declaration=known.entry.declared) for row in rows]
        return known.queue.put(rows, idempotency=idempotency)

    async def claim_rows(self, request: requests.ClaimRows) -> Claimed:
        """What a claim has brought."""
        body = request.body
        done, results = told_done(body.done)
        return await self.claim_here(
            await self._known(request), body.n, lease=request.lease_ms, wait=request.wait_ms, group=body.group, worker=body.worker,
            done=done, results=results, fail=[failed_row.failure() for failed_row in body.fail], extend=body.extend, release=body.release,
        )  # fmt: skip

    # -- queues -----------------------------------------------------------------------------------------------

    async def list(self, request: requests.ListQueues) -> Sequence[answers.QueueSummary]:
        return [summary_of(entry) for entry in await (await self._managed()).list()]

    async def create(self, request: requests.CreateQueue) -> Reply[answers.QueueSummary]:
        manager = await self._managed()
        entry, new = await manager.create(request.queue, request.settings, request.declaration, dry_run=request.dry_run)
        return Reply(summary_of(entry, created=new, dry_run=request.dry_run), 201 if new and not request.dry_run else 200)

    async def show(self, request: QueueRequest) -> answers.QueueSummary:
        return summary_of(await (await self._managed()).entry(request.queue))

    async def delete(self, request: requests.ChangeQueue) -> answers.QueueDeleted:
        manager = await self._managed()
        if request.dry_run:
            rows = sum(await (await self._queue(request)).count())
        else:
            rows = await manager.delete(request.queue)
        return answers.QueueDeleted(queue=request.queue, rows=rows, dry_run=request.dry_run)

    async def count(self, request: QueueRequest) -> answers.RowCounts:
        return answers.RowCounts(**(await (await self._queue(request)).count())._asdict())

    async def statistics(self, request: QueueRequest) -> answers.ShownStatistics:
        queue = await self._queue(request)
        entry = await (await self._managed()).entry(request.queue)
        statistics = queue.statistics()
        numbers = {name: getattr(statistics, name) for name in statistics.__struct_fields__ if name not in ("counts", "oldest_due")}
        rows = answers.RowCounts(**statistics.counts._asdict())
        return answers.ShownStatistics(
            queue=request.queue, region=entry.region, rows=rows, oldest_due=show_date(statistics.oldest_due), **numbers
        )

    async def pause(self, request: requests.PauseQueue) -> answers.QueuePaused:
        queue = await self._queue(request)
        await (queue.pause() if request.paused else queue.resume())
        return answers.QueuePaused(queue=request.queue, paused=request.paused)

    # -- rows -------------------------------------------------------------------------------------------------

    async def put(self, request: requests.PutRows) -> answers.RowsPut:
        puts = [show_put(put) for put in await self.put_rows(request)]
        return answers.RowsPut(puts=puts)

    async def rows(self, request: requests.ListRows) -> answers.RowsPage:
        queue = await self._queue(request)
        rows = await queue.rows(state=request.state, prefix=request.key.encode(), after=request.after, limit=request.limit + 1)
        shown = [show_row(row) for row in rows[: request.limit]]
        return answers.RowsPage(shown, str(shown[-1].id) if len(rows) > request.limit or ends_early(rows) else None)

    async def get(self, request: requests.FindRow) -> answers.ShownRow:
        return show_row(await (await self._queue(request)).get(request.wanted))

    async def cancel(self, request: requests.RowRequest) -> answers.ShownRow:
        return show_row(await (await self._queue(request)).cancel(key_in_path(request.key)))

    async def run_now(self, request: requests.RowRequest) -> answers.ShownRow:
        return show_row(await (await self._queue(request)).run(key_in_path(request.key)))

    async def history(self, request: requests.RowRequest) -> Sequence[answers.ShownChange]:
        return [_shown_change(entry) for entry in await (await self._queue(request)).history(key_in_path(request.key))]

    async def schedules(self, request: QueueRequest) -> Sequence[answers.ShownSchedule]:
        return [show_schedule(schedule) for schedule in await (await self._queue(request)).schedules()]

    # -- claims -----------------------------------------------------------------------------------------------

    async def claim(self, request: requests.ClaimRows) -> answers.RowsClaimed:
        claimed = await self.claim_rows(request)
        return answers.RowsClaimed(claims=[show_claim(claim) for claim in claimed.claims], stale=claimed.stale)

    async def leave(self, request: requests.LeaveClaims) -> None:
        await self._known(request)
        self.waits.leave(request.queue, request.worker)

    async def done(self, request: requests.DoneClaim) -> None:
        results = None if request.result is None else {request.token: request.result}
        await _told(request, (await self._queue(request)).done([request.token], results))

    async def result(self, request: requests.FindResult) -> Reply[answers.ShownResult]:
        result = await (await self._queue(request)).result(request.id, wait=request.wait_ms)
        return Reply(show_result(request.id, result), 202 if result is None else 200)

    async def fail(self, request: requests.FailClaim) -> None:
        await _told(request, (await self._queue(request)).fail([request.failure()]))

    async def extend(self, request: requests.ExtendClaim) -> None:
        await _told(request, (await self._queue(request)).extend([request.token], requests.lease_of(request.lease)))

    async def release(self, request: requests.ReleaseClaim) -> None:
        await _told(request, (await self._queue(request)).release([request.token], request.delay_ms))

    # -- dead rows --------------------------------------------------------------------------------------------

    async def dead(self, request: requests.ListDeadRows) -> answers.DeadPage:
        queue, prefix = await self._queue(request), request.key.encode()
        dead_rows = await queue.dead_list(prefix=prefix, reason=request.reason or "", after=request.after, limit=request.limit + 1)
        shown = [show_dead(dead) for dead in dead_rows[: request.limit]]
        more = len(dead_rows) > request.limit or ends_early(dead.row for dead in dead_rows)
        return answers.DeadPage(shown, str(shown[-1].id) if more else None)

    async def dead_show(self, request: requests.DeadRequest) -> answers.ShownDeadRow:
        return show_dead(await (await self._queue(request)).dead_get(request.id))

    async def dead_retry(self, request: requests.ChangeDead) -> answers.DeadRetried:
        queue = await self._queue(request)
        if request.dry_run:
            await queue.dead_get(request.id)
            return answers.DeadRetried(count=1, dry_run=True)
        return _retried(await queue.dead_retry([request.id]))

    async def dead_retry_all(self, request: requests.ChangeAllDead) -> answers.DeadRetried:
        queue, prefix, reason = await self._queue(request), request.key.encode(), request.reason or ""
        if request.dry_run:
            return answers.DeadRetried(count=await _count_dead(queue, prefix, reason), dry_run=True)
        return _retried(await queue.dead_retry(prefix=prefix, reason=reason))

    async def dead_drop(self, request: requests.ChangeDead) -> answers.DeadDropped:
        queue = await self._queue(request)
        if request.dry_run:
            await queue.dead_get(request.id)
            return answers.DeadDropped(count=1, dry_run=True)
        return answers.DeadDropped(count=await queue.dead_drop([request.id]))

    async def dead_drop_all(self, request: requests.ChangeAllDead) -> answers.DeadDropped:
        queue, prefix, reason = await self._queue(request), request.key.encode(), request.reason or ""
        if request.dry_run:
            return answers.DeadDropped(count=await _count_dead(queue, prefix, reason), dry_run=True)
        return answers.DeadDropped(count=await queue.dead_drop(prefix=prefix, reason=reason))


# -- answers --------------------------------------------------------------------------------------------------


def show_put(put: Put) -> answers.RowPut:
    """What became of a row, as JSON."""
    return answers.RowPut(
        id=put.id, outcome=put.outcome, process_date=show_date(put.process_date), raised=put.raised, replayed=put.replayed
    )


async def _told(request: requests.ClaimRequest, call: Awaitable[list[str]]) -> None:
    if await call:
        raise StaleClaim(
            f"The claim {request.token} holds its row no longer: its lease has ended, or the row is done.",
            hint=f"Another worker may have the row. See `headwater queue rows {request.queue}`.",
        )


async def _count_dead(queue: Queue, prefix: bytes, reason: str) -> int:
    count, after = 0, 0
    while dead_rows := await queue.dead_list(prefix=prefix, reason=reason, after=after, limit=1000):
        count, after = count + len(dead_rows), dead_rows[-1].row.id
    return count


def _retried(puts: Sequence[Put]) -> answers.DeadRetried:
    return answers.DeadRetried(count=len(puts), puts=[show_put(put) for put in puts])


def _shown_change(entry: HistoryEntry) -> answers.ShownChange:
    return answers.ShownChange(
        sequence=entry.sequence, date=show_date(entry.date) or "", change=entry.change, id=entry.id, detail=entry.detail
    )

"""The owner's side of one partition of documents: decides the calls that wait, appends their records as one batch, applies them, answers.

One batch is in flight at a time. Its steps:
  1. settle what is not known of the batch before: claim anew, read the log
  2. decide each call against the store, with the durable records that it lacks and those of this batch on top
  3. append the records, with one sync: from here on they are accepted
  4. apply them to the store, with those that it lacks
  5. answer
A failure in 1 to 3 fails everything that was decided, so that no revision is left out. A failure in 4 fails nobody: the log has them,
readers take them from there, and they are applied with the next batch or by recovery.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple

from headwater.cluster import OwnedPartition, PartitionOwner, not_owner
from headwater.core.clock import Clock
from headwater.core.errors import (
    BadInput,
    Busy,
    Closed,
    Conflict,
    DiskFull,
    Fenced,
    HeadwaterError,
    LogGap,
    NotFound,
    NotOwner,
    OutcomeUnknown,
    ReadOnly,
    Unavailable,
)
from headwater.core.ids import Ids
from headwater.documents.base import DocumentBases
from headwater.documents.calls import RedriveCall
from headwater.documents.commit import Outcome, PlannedCommit, Request
from headwater.documents.decisions import Moment
from headwater.documents.idempotency import WriteKeys
from headwater.documents.known_heads import KnownHeads
from headwater.documents.overlaid_view import OverlaidView
from headwater.documents.partition_reads import PartitionReads, store_ahead
from headwater.documents.rebuild import fold_log, rebuild_partition
from headwater.documents.store import DocumentStore
from headwater.log import Log
from headwater.log.commit_thread import CommitThread

_logger = logging.getLogger("headwater.documents")
_MOST_CALLS = 4096  # of one batch
_PATIENCE = 5.0  # seconds for which writes wait while others write into the store: a write is durable by then, and reads have it
_REST = 9  # times as long as a store has taken to fail, writes leave it alone
_MOST_BEHIND = 256 << 20  # bytes in memory of records that are not applied
_NOT_APPENDED = (BadInput, Closed, DiskFull, NotFound, ReadOnly)  # errors after which the log is as it was
_Call = tuple[Request, "asyncio.Future[Any]"]


class PartitionLimits(NamedTuple):
    """`max_record`: of the topic, in bytes. `max_backlog`: so many records may be durable and not applied before writes are refused."""

    max_record: int
    max_backlog: int


class DocumentPartition(CommitThread[_Call]):
    """Group commit of one owned partition, from one event loop.

    Errors of its futures: those of `headwater.documents.decisions`, of one call alone; `KeyReused`, `TooLarge`; `Busy` while too much is
    not applied; `NotOwner` where another process owns the partition by now: nothing was written, and `lost` is called; `OutcomeUnknown`
    where the log could not be asked what became of the records; `Unavailable`, where nothing was written; `Closed`.
    """

    def __init__(
        self,
        log: Log,
        owned: OwnedPartition,
        store: DocumentStore,
        *,
        reads: PartitionReads,
        clock: Clock,
        ids: Ids,
        limits: PartitionLimits,
        bases: DocumentBases | None,
        owner: Callable[[], PartitionOwner | None],
        lost: Callable[[DocumentPartition], None],
    ) -> None:
        """`bases`: for a store that is folded anew. `owner`: finds the owner, for errors. `lost`: is told, in the loop, that another
        process has taken over."""
        self._log, self._owned, self._store, self._tail, self._reads = log, owned, store, reads.tail, reads
        self._clock, self._ids, self._limits, self._owner, self._on_lost = clock, ids, limits, owner, lost
        self.topic, self.number, self._bases = owned.topic, owned.partition, bases
        self._keys = WriteKeys(log, self.topic, self.number, now=clock.now_ms)
        self._heads = KnownHeads()
        self._unsettled = True  # what lies at the log's end is not known
        self._lost = self._behind = False
        self._rests_until = 0.0  # a store that lets its writers wait before it fails: until then they do not ask it
        self.end = self.applied = 0
        """Every record below `end` is durable, and every one below `applied` is in the store."""
        self._stored = 0  # the store's own offset, behind its last record: claims and what does not count may follow it
        self.accepted = self.unapplied_commits = self.commits = 0
        self.unapplied_error = ""
        """Why the store has not taken what is durable."""
        super().__init__(name=f"{self.topic}-{self.number}")

    def call(self, request: Request) -> asyncio.Future[Any]:
        """Queue a call of the event loop's: see `Outcome`."""
        future = self._future()
        if self._stopping:
            future.set_exception(Closed("The documents have been closed.", hint="Open them again."))
            return future
        self._queue.append((request, future))
        if self._idle:
            self._rouse()
        return future

    @property
    def backlog(self) -> int:
        """How many offsets are durable and not applied."""
        return self.end - self.applied

    @property
    def queued(self) -> int:
        """How many calls wait."""
        return len(self._queue)

    def delete_before(self, offset: int) -> int:
        """Delete the log below an offset; return its start. Blocking, in any thread. Errors: those of `Writer.delete_before`."""
        return self._owned.writer.delete_before(offset)

    async def aclose(self) -> None:
        """Finish the calls that wait, and let another process own the partition."""
        await super().aclose()
        self._reads.owner = None
        await asyncio.get_running_loop().run_in_executor(None, self._owned.release)

    # -- in the thread ----------------------------------------------------------------------------------------

    def _commit(self) -> None:
        waiting = self._queue[:_MOST_CALLS]
        if isinstance(waiting[0][0], RedriveCall):
            waiting = waiting[:1]
        outcomes: Sequence[Outcome]
        try:
            outcomes = self._committed([request for request, _ in waiting])
            waiting = waiting[: len(outcomes)]
        except Exception as error:
            if not isinstance(error, HeadwaterError):
                _logger.exception("A commit of %s/%s has failed.", self.topic, self.number)
                self._unsettled = True
                error = OutcomeUnknown(f"The write may or may not be there: {_message(error)}", hint="Read before you write again.")
            outcomes = [error] * len(waiting)
        del self._queue[: len(waiting)]
        self._tell(_resolve, waiting, outcomes)

    def _committed(self, requests: Sequence[Request]) -> Sequence[Outcome]:
        """The outcomes of the first calls, at least one."""
        if self._lost:
            raise self._not_owner()
        self._settle()
        if isinstance(requests[0], RedriveCall):
            return [self._redriven(requests[0])]
        much = self.backlog > self._limits.max_backlog or (self.backlog and self._tail.size > _MOST_BEHIND)
        if much and not self._apply():
            raise Busy(
                f"{self.backlog} records of {self.topic}/{self.number} are durable, but not in the store yet.",
                hint="Writes are taken again once the store has applied them: `headwater doc status` shows why it has not.",
            )
        plan = self._planned(requests)
        if not plan.records:
            return plan.outcomes
        self.commits += 1
        return self._appended(plan)

    def _planned(self, requests: Sequence[Request]) -> PlannedCommit:
        now = max(self._clock.now_ms(), self._tail.last_time)  # so that times of records do not decrease
        with self._store.view() as stored:
            # 2. decide
            is_current = stored.applied() == self.end
            if not is_current:
                self._heads.clear()
            lacking = () if is_current else self._tail.records(stored.applied(), self.end)
            state = OverlaidView(self._heads.over(stored) if is_current else stored, lacking)
            plan = PlannedCommit(
                state,
                self.number,
                end=self.end,
                moment=Moment(now, self._ids),
                keys=self._keys,
                max_record=self._limits.max_record,
                kafka=self._log.engine == "kafka",
            )
            for request in requests:
                if plan.full or (isinstance(request, RedriveCall) and plan.outcomes):
                    break
                plan.add(request)
        return plan

    def _appended(self, plan: PlannedCommit) -> Sequence[Outcome]:
        try:
            offsets = self._owned.writer.append(plan.records)  # 3. append
        except Fenced:
            self._lose()
            plan.refused(self._not_owner())
        except _NOT_APPENDED as error:
            plan.refused(error)
        except Exception as error:
            self._find(plan, error)
        else:
            self._tail.add(plan.appended(offsets), since=self.end, epoch=self._owned.writer.epoch, size=plan.size)
            self._ends(offsets[-1] + 1)
            self.accepted += len(offsets)
            if applied := self._apply():  # 4. apply
                self._heads.take(plan.heads())
            plan.accepted(offsets, applied=applied)
        return plan.answers()  # 5. answer

    def _find(self, plan: PlannedCommit, error: Exception) -> None:
        """After an append of unknown outcome: let the log decide.

        Claiming anew ends what is under way, so that a record which is not there by then never comes. Where another process has claimed
        the partition, its claim did the same.
        """
        self._unsettled = True
        self._heads.clear()
        since = self.end
        try:
            try:
                self._settle()
            except NotOwner:
                self._read_end()
            offsets = plan.offsets_of(self._tail.records(since, self.end))
        except Exception as unread:
            unknown = OutcomeUnknown(
                f"The write may or may not be there: {_message(error)} Reading it back failed: {_message(unread)}",
                hint="Read before you write again, or send it again with the same idempotency key.",
            )
            plan.refused(unknown)
            return
        self.accepted += len(offsets)
        plan.accepted(offsets, applied=self.applied >= self.end or (not self._lost and self._apply()))
        if self._lost:
            plan.refused(self._not_owner(), len(offsets))
        else:
            refusal = Unavailable(f"The log did not take the write: {_message(error)}", hint="Nothing was written: send it again.")
            plan.refused(refusal, len(offsets))

    # -- what is durable, and what is applied -------------------------------------------------------------------

    def _settle(self) -> None:
        """1. Claim anew where an outcome is not known, and read what is durable. Errors: `NotOwner`; those of the log and the store."""
        if not self._unsettled:
            return
        try:
            self._owned.renew()
        except Fenced:
            self._lose()
            raise self._not_owner() from None
        self._read_end()
        self._unsettled = False

    def _read_end(self) -> None:
        """Take what the log has as what is durable."""
        self._keys.forget()
        self._heads.clear()
        self._tail.reset()
        end = self._log.bounds(self.topic, self.number).end
        with self._store.view() as stored:
            self.applied = self._stored = stored.applied()
        self._tail.records(min(self.applied, end), end)  # read, so that a damaged record is found here, and its time is known
        self._ends(end)

    def _ends(self, end: int) -> None:
        self.end = self._reads.owned_end = end

    def catch_up(self, *, anew: bool = False) -> None:
        """Before the first call, in any thread: apply everything that is durable. `anew`: whatever the store has, fold all of the log.

        Errors: those of the log and the store; `Differs` where the store has more than the log, or was folded from another; `LogGap` where
        the log begins behind it.
        """
        if anew:
            self._fold_anew()
        bounds = self._log.bounds(self.topic, self.number)
        name = f"{self.topic}/{self.number}"
        with self._store.view() as stored:
            applied = stored.applied()
            if applied > bounds.end:
                raise store_ahead(name, applied, bounds.end)
            if applied < bounds.start:
                raise LogGap(
                    f"The store has applied {name} up to offset {applied}, and the log begins at {bounds.start}.",
                    hint="Bring back the store, or fold it anew from its base copy with `headwater doc rebuild`.",
                )
            self._reads.check_lineage(stored)
        try:
            for _ in fold_log(self._log, self._store, self._reads.topic, self.number, bounds.end):
                continue
        except Unavailable:
            if bounds.end - applied > self._limits.max_backlog:
                raise
            self._behind = True  # a short tail is read with the store, until that takes it
        self._read_end()
        self._unsettled, self._reads.owner = False, self._owned

    def _apply(self) -> bool:
        """Apply what is durable; false where the store does not take it now."""
        if self.applied >= self.end:
            return True
        began = self._clock.monotonic()
        if began < self._rests_until:
            self.unapplied_commits += 1
            return False
        try:
            records = self._tail.records(self.applied, self.end)
            if records:
                self._store.apply(records, records[-1].offset + 1, since=self._stored, patience=_PATIENCE)
                self._stored = records[-1].offset + 1
        except Exception as error:
            self._heads.clear()  # they are as of before these records, and by now the store may have them, or get them from recovery
            self._unsettled = self._unsettled or isinstance(error, Conflict)  # the store was exchanged: see how far this one is
            self.unapplied_commits += 1
            now = self._clock.monotonic()
            self._rests_until = now + _REST * (now - began)
            if not self._behind:  # once for each outage
                _logger.warning("Records of %s/%s are durable, but not applied yet: %s", self.topic, self.number, error)
            self._behind, self.unapplied_error = True, _message(error)
            return False
        self._behind, self.unapplied_error = False, ""
        self.applied = self.end
        self._tail.forget_before(self.applied)
        return True

    def _redriven(self, request: RedriveCall) -> int:
        before = self.applied
        if request.rebuild:
            before = 0
            self._fold_anew()
        elif not self._apply():
            raise Unavailable(f"The store does not take the records of {self.topic}/{self.number}.", hint="They are applied later.")
        return self.applied - before

    def _fold_anew(self) -> None:
        self._tail.reset()
        self._heads.clear()
        topic, number = self._reads.topic, self.number
        try:
            with nullcontext() if self._bases is None else self._bases.opened(topic, number) as base:
                rebuild_partition(self._log, self._store, topic, number, base=base)
        finally:
            with suppress(HeadwaterError), self._store.view() as stored:  # a failure in the midst leaves a part of it
                self.applied = self._stored = stored.applied()
        self.applied = max(self.applied, self.end)

    # -- losing it ------------------------------------------------------------------------------------------------

    def _lose(self) -> None:
        self._lost, self._reads.owner = True, None
        self._owned.release()
        self._tell(self._on_lost, self)

    def _not_owner(self) -> HeadwaterError:
        try:
            owner = self._owner()
        except HeadwaterError:
            owner = None
        return not_owner(self.topic, self.number, owner)


def _message(error: Exception) -> str:
    return error.message if isinstance(error, HeadwaterError) else f"{type(error).__name__}: {error}."


def _resolve(waiting: Sequence[_Call], outcomes: Sequence[Outcome]) -> None:
    """Tell callers, on their event loop, what became of their calls."""
    for (_, future), outcome in zip(waiting, outcomes, strict=True):
        if future.done():
            continue  # the caller has given up; its record is there nevertheless
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

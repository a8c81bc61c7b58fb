"""The writer of one partition of journals: numbers the events of the calls that wait, and appends them as one batch with one sync.

Numbers and `expected` are exact. The writer knows the last number of each journal as of one offset of the partition. It numbers a batch
by that, and appends it with a guard (`headwater.log.guard`) from that offset on: records that other processes have appended since are
shown to the guard under the partition's lock. If one of them concerns a journal of the batch, nothing is appended, and the batch is
numbered anew with what they say.

A journal that the writer does not know is looked up before the commit, in another thread (`headwater.journal.last_numbers`): its calls wait
for that, in their order, and those of other journals do not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from headwater.core.errors import BadBounds, BadInput, Closed, OffsetGone, TooLarge, UnreadableRecord
from headwater.journal.action import Purge
from headwater.journal.append_draft import AppendDraft, PlainDraft
from headwater.journal.idempotency import KeyIndex
from headwater.journal.journal_log import ClaimLost, JournalLog
from headwater.journal.last_numbers import LastNumbers
from headwater.journal.numbering import BatchNumbering, NumberedBatch, WriteCall
from headwater.journal.sealing import KeysMoved, PartitionSealing
from headwater.journal.wire import read_record
from headwater.journal.write import (
    ALWAYS,
    ActionPlaced,
    Appended,
    Condition,
    Draft,
    EraseDraft,
    MarkDraft,
    Outcome,
    replayed,
    resolve,
)
from headwater.log import Guard
from headwater.log.commit_thread import MOST_BYTES, CommitThread
from headwater.log.record import Header, Record

MOST_HEADS = 100_000
_MOST_CALLS = 65_536  # the guard of another process is shown no more records
_OTHER_SIZE = 5000  # bytes: about the most that an action without events takes
_MOST_BEHIND = 10_000  # records: it is quicker to look at the journals that are asked for than to read more
_REFUSALS = (BadInput, TooLarge)  # of a record: nothing else is doubted
_APPENDS = (PlainDraft, AppendDraft)
_NO_HEADERS: tuple[Header, ...] = ()


class _Renumber(Exception):
    """Another process has appended to a journal of the batch."""


class PartitionWriter(CommitThread[WriteCall]):
    """Group commit for the journals of one partition, from one event loop. One call is one record, whole or not at all.

    `write` answers once the record is durable. Errors of its future: `WrongExpected`, `KeyReused`, `TooLarge`, `BadInput`, `NotOwner`
    (nothing was appended); those of the store, for a journal whose last number has to be read there; those of `Log.append`, for the whole
    batch, among them `OutcomeUnknown`; `Closed`. Calls of one journal are appended in their order.
    """

    def __init__(
        self,
        log: JournalLog,
        *,
        partition: int,
        keys: KeyIndex,
        by: tuple[str | None, str | None] = (None, None),
        name: str = "journal",
        max_record: int = 16 << 20,
        most_heads: int = MOST_HEADS,
        sealing: PartitionSealing | None = None,
    ) -> None:
        self._sealing, self._sealed = sealing, False  # `sealed`: the batch under way is encrypted
        self._log, self._partition, self._keys = log, partition, keys
        # As of `_known`.
        self._lasts: LastNumbers[WriteCall] = LastNumbers(
            lambda id, end: log.last_number(id, end), arrived=lambda: self._wake.put(None), most=most_heads
        )
        self._numbering = BatchNumbering(log, self._lasts, keys, by=by, max_record=max_record, sealing=sealing)
        self._known: int | None = None  # everything below this offset counts in `_lasts`; None: read the end anew
        super().__init__(name=name)

    def write(self, draft: Draft, condition: Condition = ALWAYS) -> asyncio.Future[Outcome]:
        """Queue a call of the event loop's."""
        future: asyncio.Future[Outcome] = self._future()
        if self._stopping:
            future.set_exception(Closed("The journals have been closed.", hint="Open them again."))
            return future
        self._queue.append((draft, condition, future))
        if self._idle:
            self._rouse()
        return future

    # -- in the thread ----------------------------------------------------------------------------------------

    def _ready(self) -> bool:
        return bool(self._queue or self._lasts.ended)

    def _under_way(self) -> bool:
        return bool(self._lasts.waiting)

    def _commit(self) -> None:
        calls: list[WriteCall] = []
        try:
            self._queue_ended()
            calls += self._taken()
            self._commit_calls(calls)
        except Exception as error:  # the thread goes on, or nobody would ever be answered again
            self._known = None  # the next commit forgets first what is known
            if not calls:
                calls += self._queue
                del self._queue[: len(calls)]
            self._tell(resolve, calls, [error] * len(calls))

    def _queue_ended(self) -> None:
        """Queue the calls of look-ups that have ended, before all others."""
        while self._lasts.ended:
            lookup = self._lasts.take_ended()
            calls = lookup.calls
            if (error := lookup.error) is not None:
                failed = [call for call in calls if self._needs_last(call[0], call[1])]
                self._tell(resolve, failed, [error] * len(failed))
                calls = [call for call in calls if not self._needs_last(call[0], call[1])]
            self._queue[:0] = calls  # one step for the interpreter, as the loop's append is

    def _commit_calls(self, waiting: list[WriteCall]) -> None:
        """Commit calls, and tell them. Those that wait for a look-up are taken out of `waiting`."""
        calls = waiting
        try:
            outcomes = self._written(waiting)
        except Exception as error:
            one_by_one = len(waiting) > 1 and isinstance(error, BadInput)  # one caller's bad input must not fail the others
            if not one_by_one or type(error) not in _REFUSALS:
                self._reset()
            if one_by_one:
                calls, outcomes = self._one_by_one(waiting)
            else:
                outcomes = [error] * len(waiting)
        self._lasts.fresh.clear()
        if calls:
            self._tell(resolve, calls, outcomes)

    def _taken(self) -> list[WriteCall]:
        """The calls that wait, as many as fit into one batch, and at least one."""
        waiting = self._queue[:_MOST_CALLS]
        size = 0
        for count, (draft, _, _) in enumerate(waiting):
            size += draft.size if isinstance(draft, _APPENDS) else _OTHER_SIZE
            if count and (size > MOST_BYTES or isinstance(draft, EraseDraft) or isinstance(waiting[0][0], EraseDraft)):
                del waiting[count:]  # an erasure is a batch of its own
                break
        del self._queue[: len(waiting)]
        self._hold(waiting)
        return waiting

    def _hold(self, waiting: list[WriteCall]) -> None:
        """Let calls wait for the look-ups of their journals that are under way: calls of one journal stay in their order."""
        if lookups := self._lasts.waiting:
            for call in waiting:
                if (lookup := lookups.get(call[0].id)) is not None:
                    lookup.calls.append(call)
            waiting[:] = [call for call in waiting if call[0].id not in lookups]

    def _one_by_one(self, waiting: Sequence[WriteCall]) -> tuple[list[WriteCall], list[Outcome]]:
        """The calls that need not wait, with their outcomes."""
        calls: list[WriteCall] = []
        outcomes: list[Outcome] = []
        for call in waiting:
            single = [call]
            try:
                outcomes += self._written(single)
            except Exception as error:
                self._reset()
                outcomes += [error] * len(single)
            calls += single
        return calls, outcomes

    def _reset(self) -> None:
        """After a failure: what was known may have been cut off, or lies before records that were never seen."""
        self._lasts.clear()
        self._keys.forget()
        self._known = None
        if self._sealing is not None:
            self._sealing.clear()

    def _erased(self, draft: EraseDraft) -> Outcome:
        """Erase a journal, or finish an erasure that has stopped midway. Each step is durable before the next one."""
        if (sealing := self._sealing) is None or not sealing.on():
            raise BadInput("The topic is not encrypted: nothing makes its events unreadable.", hint="`headwater journal purge TOPIC ID`.")
        self._left_behind(sealing, (), self._caught_up())
        if not sealing.retire(draft.id, there=self._last(self._caught_up(), draft.id) > 0, who=draft.who, why=draft.why):
            return None
        return self._finished(sealing, draft)

    def _finished(self, sealing: PartitionSealing, draft: EraseDraft) -> ActionPlaced:
        purged = self._appended([(draft, ALWAYS, None)])[0]  # type: ignore[list-item]  # nobody waits for it
        if isinstance(purged, BaseException):
            raise purged
        offset = purged.offset if isinstance(purged, ActionPlaced) else -1
        sealing.finish(draft.id, offset)
        return ActionPlaced(self._partition, offset)

    def _left_behind(self, sealing: PartitionSealing, ids: Sequence[str], known: int) -> bool:
        """Make the keys of these journals ready; true: others have erased some, or were about to, and all is to be looked at again."""
        try:
            unfinished = sealing.prepare(ids, partial(self._last, known), known)
        except KeysMoved:
            return True
        for id in unfinished:
            self._finished(sealing, EraseDraft(id))
        return bool(unfinished)

    def _last(self, known: int, id: str) -> int:
        """The last number of a journal, looked up where that is needed."""
        last = self._lasts.known.get(id)
        return self._lasts.load(id, known, -1) if last is None else last

    def _written(self, waiting: list[WriteCall]) -> list[Outcome]:
        """Append what the calls ask for. Those whose journals are to be looked up first are taken out of `waiting`."""
        return self._appended(waiting, waits=True) if waiting else []

    def _look_up(self, waiting: list[WriteCall], known: int) -> None:
        """Take calls out whose journals are not known here, and look these up where that may take long."""
        self._hold(waiting)  # an earlier call of this commit may have begun one
        cold = {draft.id for draft, _, _ in waiting} - self._lasts.known.keys()
        cold = cold and {draft.id for draft, condition, _ in waiting if draft.id in cold and self._needs_last(draft, condition)}
        if not cold or self._log.near(known):
            return
        calls: dict[str, list[WriteCall]] = {}
        for call in waiting:
            calls.setdefault(call[0].id, []).append(call)
        for id in cold:
            self._lasts.begin(id, known, calls[id])
        waiting[:] = [call for call in waiting if call[0].id not in cold]

    def _needs_last(self, draft: Draft, condition: Condition) -> bool:
        """Whether a call asks for the last number of its journal."""
        if not isinstance(draft, _APPENDS):
            return type(draft) is not MarkDraft
        return self._sealed or (self._log.exact and (not draft.first or condition.expected is not None or bool(condition.key)))

    def _appended(self, waiting: list[WriteCall], *, waits: bool = False) -> list[Outcome]:
        """`waits`: calls may be taken out of `waiting`."""
        while True:
            if self._log.prepare():
                self._reset()
            known = self._caught_up()
            sealing = self._sealing
            appends = sealing is not None and any(isinstance(draft, _APPENDS) for draft, _, _ in waiting)
            self._sealed = appends and sealing is not None and sealing.on()  # others need no key: they go on without
            if waits:
                self._look_up(waiting, known)
                if not waiting:
                    return []
                if isinstance(erased := waiting[0][0], EraseDraft):
                    return [self._erased(erased)]
            if self._sealed and sealing is not None:
                ids = [draft.id for draft, _, _ in waiting if isinstance(draft, _APPENDS)]
                if self._left_behind(sealing, ids, known):
                    continue
            numbered = self._numbering.number(waiting, known, sealed=self._sealed)
            if not numbered.records:
                return numbered.outcomes
            try:
                guard = Guard(known, partial(self._see, numbered.changed), self._log.generation)
                offsets = self._log.append(numbered.records, guard if self._log.exact and not self._log.alone else None)
            except _Renumber:
                continue
            except ClaimLost:
                self._reset()
                continue
            except (BadBounds, OffsetGone):  # too much was appended since: look at the journals anew
                self._reset()
                continue
            return self._answered(numbered, offsets)

    def _caught_up(self) -> int:
        """Let everything durable count, so that no caller is refused because of what was long ago; returns the end."""
        if self._log.alone and self._known is not None:
            return self._known
        end, known = self._log.end(), self._known
        asked = self._lasts.fresh or self._lasts.waiting  # to ask for them anew each time might never end
        if known is None or not known <= end or (end > known + _MOST_BEHIND and not asked):
            self._reset()
        elif not self._log.exact:
            self._lasts.keep_fresh()
            self._keys.forget()
        else:
            try:
                while known < end:
                    for record in (records := self._log.read(known)):
                        self._fold(record)
                    known = end if not records else (records[-1].offset or 0) + 1
                end = known
            except OffsetGone:  # copied and deleted since: the store knows what they said
                self._reset()
                end = self._log.end()
        self._known = end
        return end

    def _see(self, changed: dict[str, int], records: Sequence[Record]) -> None:
        """Under the partition's lock: the records since `_known`. Raises `_Renumber` where one concerns a journal of the batch."""
        concerned = False
        for record in records:
            id = self._fold(record)
            concerned = concerned or (id is not None and changed.get(id, -1) >= 0)
        if records:
            self._known = (records[-1].offset or 0) + 1
        if concerned:
            raise _Renumber

    def _fold(self, record: Record) -> str | None:
        """Let a record of another process count; returns its journal."""
        try:
            action_record = read_record(record)
        except UnreadableRecord:
            return None  # it has no number that could count
        if action_record is None:
            return None
        if self._sealing is not None and isinstance(action_record.action, Purge):
            self._sealing.drop(action_record.id)
        self._lasts.fold(action_record)
        return action_record.id

    def _answered(self, numbered: NumberedBatch, offsets: Sequence[int]) -> list[Outcome]:
        outcomes, partition = numbered.outcomes, self._partition
        for (index, first, last), offset in zip(numbered.placed, offsets, strict=True):
            outcomes[index] = Appended(first, last, partition, offset) if first else ActionPlaced(partition, offset, last)
        for index, same in numbered.same:
            outcomes[index] = replayed(outcomes[same])
        self._lasts.settle(numbered.changed)
        self._known = offsets[-1] + 1
        return outcomes

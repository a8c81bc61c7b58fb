"""The writer of one partition of journals: numbers the events of the calls that wait, and appends them as one batch with one sync.

Numbers and `expected` are exact. The writer knows the last number of each journal as of one offset of the partition. It numbers a batch
by that, and appends it with a guard (`headwater.log.guard`) from that offset on: records that other processes have appended since are
shown to the guard under the partition's lock. If one of them concerns a journal of the batch, nothing is appended, and the batch is
numbered anew with what they say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from headwater.core.errors import BadBounds, BadInput, Closed, HeadwaterError, OffsetGone, TooLarge, UnreadableRecord
from headwater.journal.action import Append, Delete, Mark, Purge
from headwater.journal.append_draft import AppendDraft, PlainDraft, header_ending
from headwater.journal.event import MAX_SEQ_NR
from headwater.journal.idempotency import KeyIndex, key_headers, key_reused
from headwater.journal.journal_log import ClaimLost, JournalLog
from headwater.journal.sealing import KeysMoved, PartitionSealing
from headwater.journal.wire import read_record, write_record
from headwater.journal.write import (
    ALWAYS,
    ActionPlaced,
    Appended,
    Condition,
    DeleteDraft,
    Draft,
    EraseDraft,
    ExpireDraft,
    MarkDraft,
    Outcome,
    PurgeDraft,
    not_exact,
    replayed,
    resolve,
    wrong_expected,
)
from headwater.log import Guard
from headwater.log.commit_thread import MOST_BYTES, CommitThread
from headwater.log.record import Header, Record

MOST_HEADS = 100_000
_MOST_CALLS = 65_536  # the guard of another process is shown no more records
_OTHER_SIZE = 5000  # bytes: about the most that an action without events takes
_MOST_BEHIND = 10_000  # records: it is quicker to look at the journals that are asked for than to read more
_APPENDS = (PlainDraft, AppendDraft)
_NO_HEADERS: tuple[Header, ...] = ()
_Call = tuple[Draft, Condition, "asyncio.Future[Outcome]"]


_Place = tuple[int, int, int]
"""What a record answers: the index of its call, and the numbers of its events; 0 and the number up to which it deletes for others."""


class _Numbered(NamedTuple):
    records: list[Record]
    placed: list[_Place]
    outcomes: list[Outcome]
    changed: dict[str, int]
    same: list[tuple[int, int]]
    """Calls that repeat another one of the batch, under the same idempotency key."""


class _Renumber(Exception):
    """Another process has appended to a journal of the batch."""


class PartitionWriter(CommitThread[_Call]):
    """Group commit for the journals of one partition, from one event loop. One call is one record, whole or not at all.

    `write` answers once the record is durable. Errors of its future: `WrongExpected`, `KeyReused`, `TooLarge`, `BadInput`, `NotOwner`
    (nothing was appended); those of the store, for a journal whose last number has to be read there; those of `Log.append`, for the whole
    batch, among them `OutcomeUnknown`; `Closed`.
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
        self._log, self._partition, self._keys, self._by = log, partition, keys, by
        self._ending, self._max_record, self._most_heads = header_ending(*by), max_record, most_heads
        self._lasts: dict[str, int] = {}  # the last number of each journal as of `_known`; the least recently written one first
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

    def _commit(self) -> None:
        waiting = self._taken()
        try:
            erased = isinstance(waiting[0][0], EraseDraft)
            outcomes = [self._erased(waiting[0][0])] if erased else self._written(waiting)  # type: ignore[arg-type]
        except Exception as error:
            self._reset()
            if len(waiting) > 1 and isinstance(error, BadInput):  # one caller's bad input must not fail the others
                outcomes = [self._alone(call) for call in waiting]
            else:
                outcomes = [error] * len(waiting)
        self._tell(resolve, waiting, outcomes)

    def _taken(self) -> list[_Call]:
        """The calls that wait, as many as fit into one batch, and at least one."""
        waiting = self._queue[:_MOST_CALLS]
        size = 0
        for count, (draft, _, _) in enumerate(waiting):
            size += draft.size if isinstance(draft, _APPENDS) else _OTHER_SIZE
            if count and (size > MOST_BYTES or isinstance(draft, EraseDraft) or isinstance(waiting[0][0], EraseDraft)):
                del waiting[count:]  # an erasure is a batch of its own
                break
        del self._queue[: len(waiting)]
        return waiting

    def _alone(self, call: _Call) -> Outcome:
        try:
            return self._written([call])[0]
        except Exception as error:
            self._reset()
            return error

    def _reset(self) -> None:
        """After a failure: what was known may have been cut off, or lies before records that were never seen."""
        self._lasts.clear()
        self._keys.forget()
        self._known = None
        if self._sealing is not None:
            self._sealing.clear()

    def _erased(self, draft: EraseDraft) -> Outcome:
        """Erase a journal, or finish an erasure that has stopped midway. Each step is durable before the next one."""
        if self._log.prepare():
            self._reset()
        if (sealing := self._sealing) is None or not sealing.on():
            raise BadInput("The topic is not encrypted: nothing makes its events unreadable.", hint="`headwater journal purge TOPIC ID`.")
        self._left_behind(sealing, (), self._caught_up())
        if not sealing.retire(draft.id, there=self._load(draft.id, self._caught_up(), -1) > 0, who=draft.who, why=draft.why):
            return None
        return self._finished(sealing, draft)

    def _finished(self, sealing: PartitionSealing, draft: EraseDraft) -> ActionPlaced:
        purged = self._written([(draft, ALWAYS, None)])[0]  # type: ignore[list-item]  # nobody waits for it
        if isinstance(purged, BaseException):
            raise purged
        offset = purged.offset if isinstance(purged, ActionPlaced) else -1
        sealing.finish(draft.id, offset)
        return ActionPlaced(self._partition, offset)

    def _left_behind(self, sealing: PartitionSealing, ids: Sequence[str], known: int) -> bool:
        """Make the keys of these journals ready; true: others have erased some, or were about to, and all is to be looked at again."""
        try:
            unfinished = sealing.prepare(ids, lambda id: self._lasts[id] if id in self._lasts else self._load(id, known, -1), known)
        except KeysMoved:
            return True
        for id in unfinished:
            self._finished(sealing, EraseDraft(id))
        return bool(unfinished)

    def _written(self, waiting: Sequence[_Call]) -> list[Outcome]:
        while True:
            if self._log.prepare():
                self._reset()
            known = self._caught_up()
            ids = [draft.id for draft, _, _ in waiting if isinstance(draft, _APPENDS)]
            self._sealed = bool(ids) and self._sealing is not None and self._sealing.on()  # others need no key: they go on without
            if self._sealed and self._sealing is not None and self._left_behind(self._sealing, ids, known):
                continue
            numbered = self._number(waiting, known)
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
        if known is None or not known <= end <= known + _MOST_BEHIND or not self._log.exact:
            self._reset()
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
            found = read_record(record)
        except UnreadableRecord:
            return None  # it has no number that could count
        if found is None:
            return None
        if self._sealing is not None and isinstance(found.action, Purge):
            self._sealing.drop(found.id)
        if (last := self._lasts.get(found.id)) is not None:
            if isinstance(found.action, Append):
                self._lasts[found.id] = max(last, found.action.last)
            elif isinstance(found.action, Purge):
                self._lasts[found.id] = 0
        return found.id

    def _answered(self, numbered: _Numbered, offsets: Sequence[int]) -> list[Outcome]:
        outcomes, lasts, partition = numbered.outcomes, self._lasts, self._partition
        for (index, first, last), offset in zip(numbered.placed, offsets, strict=True):
            outcomes[index] = Appended(first, last, partition, offset) if first else ActionPlaced(partition, offset, last)
        for index, same in numbered.same:
            outcomes[index] = replayed(outcomes[same])
        for id, last in numbered.changed.items():
            lasts.pop(id, None)
            if last >= 0:
                lasts[id] = last
        if len(lasts) > self._most_heads:
            for id in list(lasts)[: len(lasts) - self._most_heads * 9 // 10]:
                del lasts[id]
        self._known = offsets[-1] + 1
        return outcomes

    # -- numbering --------------------------------------------------------------------------------------------

    def _number(self, waiting: Sequence[_Call], known: int) -> _Numbered:
        """The records of the calls, numbered by what is known below `known`, and the outcome of calls that write none."""
        records: list[Record] = []
        placed: list[_Place] = []
        repeated: list[tuple[int, int]] = []
        outcomes: list[Outcome] = [None] * len(waiting)
        changed: dict[str, int] = {}  # the last number; -1 - n: it is not known, and the batch has given n
        lasts, ending, exact = self._lasts, self._ending, self._log.exact
        pending: dict[tuple[str, str], tuple[str, int]] = {}
        sealing = self._sealing if self._sealed else None
        for index, (draft, condition, _) in enumerate(waiting):
            id = draft.id
            last = changed.get(id)
            if last is None:
                last = lasts.get(id, -1)
            try:
                if not isinstance(draft, _APPENDS):
                    self._number_other(draft, index, records, placed, changed=changed, known=known, last=last)
                    continue
                own = _NO_HEADERS
                entity = None
                if sealing is not None:
                    entity = sealing.entity(id)
                    if last < 0:
                        last = self._load(id, known, last)  # so that the guard sees a Purge, after which another key may be needed
                if condition is not ALWAYS:
                    if condition.key:
                        if entity is not None:
                            condition = condition._replace(digest=entity.digest(condition.digest))
                        same = self._same(draft, condition, pending, known)
                        if isinstance(same, int):
                            repeated.append((index, same))
                            continue
                        if same is not None:
                            outcomes[index] = same
                            continue
                        own = key_headers(condition.key, condition.digest)
                    expected = condition.expected
                    if expected is not None:
                        if not exact:
                            raise not_exact(id)
                        if last < 0:
                            last = self._load(id, known, last)
                        if expected != last:
                            raise wrong_expected(id, expected, last)
                first = draft.first
                if first:
                    newest = draft.last
                    if last < 0 and exact and condition.key:
                        last = self._load(id, known, last)  # so that the guard lets the key of another process count
                    after = max(last, newest) if last >= 0 else min(last, -newest - 1)
                else:
                    if not exact:
                        raise not_exact(id)
                    if last < 0:
                        last = self._load(id, known, last)
                    first = last + 1
                    newest = after = last + draft.count
                    if newest > MAX_SEQ_NR:
                        raise BadInput(f"Journal {id!r:.60} has no numbers left.", hint="Events end at 2^63 - 1.")
                if draft.size > self._max_record:
                    raise TooLarge(f"An Append of {draft.size} bytes is too large.", hint=f"Append less at once: {self._max_record} bytes.")
                sealed = None if sealing is None or entity is None else sealing.record(draft, entity, first, own)
                records.append(sealed or draft.record(first, ending, own))
                changed[id] = after
                placed.append((index, first, newest))
                if condition is not ALWAYS and condition.key:
                    pending[id, condition.key] = (condition.digest, index)
            except HeadwaterError as error:
                outcomes[index] = error
        return _Numbered(records, placed, outcomes, changed, repeated)

    def _number_other(
        self,
        draft: DeleteDraft | PurgeDraft | ExpireDraft | EraseDraft | MarkDraft,
        index: int,
        records: list[Record],
        placed: list[_Place],
        *,
        changed: dict[str, int],
        known: int,
        last: int,
    ) -> None:
        """A Delete and a Purge of a journal that is not there write nothing."""
        id = draft.id
        if type(draft) is MarkDraft:
            records.append(write_record(id, Mark(draft.mark, *self._by)))
            placed.append((index, 0, 0))
            return
        if last < 0:
            last = self._load(id, known, last)
        if type(draft) is EraseDraft:
            if self._sealing is None or not self._sealing.unfinished(id):
                return  # another process has finished it
            last = last or 1  # a Purge also where nothing is seen: a record of unknown outcome may come back with the next append
        if not last:
            changed.setdefault(id, 0)  # where another process creates it meanwhile, this is to be looked at again
            return
        if type(draft) is ExpireDraft and (id in changed or not self._log.expired(id, draft.today, known)):
            return
        if type(draft) is DeleteDraft:
            to = min(draft.to, last)
            records.append(write_record(id, Delete(to, *self._by)))
            placed.append((index, 0, to))
            changed[id] = last
        else:
            records.append(write_record(id, Purge(*self._by)))
            placed.append((index, 0, 0))
            changed[id] = 0

    def _load(self, id: str, known: int, given: int) -> int:
        """The last number of a journal of which nothing is known here but what the batch has given it."""
        last = self._lasts[id] = self._log.last_number(id, known)
        return max(last, -given - 1)

    def _same(
        self, draft: PlainDraft | AppendDraft, condition: Condition, pending: dict[tuple[str, str], tuple[str, int]], known: int
    ) -> Appended | int | None:
        """The answer of the call that came first under this key, or its index in the batch; None: this is the first."""
        under_way = pending.get((draft.id, condition.key))
        if under_way is not None:
            if under_way[0] != condition.digest:
                raise key_reused(draft.id, condition.key)
            return under_way[1]
        found = self._keys.answer(draft.id, condition.key, condition.digest, known, self._log.epoch)
        return None if found is None else Appended(found.first, found.last, self._partition, found.offset, True)

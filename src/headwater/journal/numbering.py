"""Gives the calls of a batch their numbers and their records, by what the writer of a partition knows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from headwater.core.errors import BadInput, HeadwaterError, TooLarge
from headwater.journal.action import Delete, Mark, Purge
from headwater.journal.append_draft import AppendDraft, PlainDraft, header_ending
from headwater.journal.event import MAX_SEQ_NR
from headwater.journal.idempotency import KeyIndex, key_headers, key_reused
from headwater.journal.journal_log import JournalLog
from headwater.journal.last_numbers import LastNumbers
from headwater.journal.sealing import PartitionSealing
from headwater.journal.wire import write_record
from headwater.journal.write import (
    ALWAYS,
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
    wrong_expected,
)
from headwater.log.record import Header, Record

_APPENDS = (PlainDraft, AppendDraft)
_NO_HEADERS: tuple[Header, ...] = ()
WriteCall = tuple[Draft, Condition, "asyncio.Future[Outcome]"]


_Place = tuple[int, int, int]
"""What a record answers: the index of its call, and the numbers of its events; 0 and the number up to which it deletes for others."""


class NumberedBatch(NamedTuple):
    """The records of a batch of calls, and what becomes of these once they are appended. `changed`: the last number of each journal of
    it; -1 - n: it is not known, and the batch has given n. `same`: calls that repeat another one, under the same idempotency key."""

    records: list[Record]
    placed: list[_Place]
    outcomes: list[Outcome]
    changed: dict[str, int]
    same: list[tuple[int, int]]


class BatchNumbering:
    """Used by the thread of one partition's writer. `lasts`: what it knows. `sealing`: encrypts; None where nothing is encrypted."""

    def __init__(
        self,
        log: JournalLog,
        lasts: LastNumbers[WriteCall],
        keys: KeyIndex,
        *,
        by: tuple[str | None, str | None],
        max_record: int,
        sealing: PartitionSealing | None,
    ) -> None:
        self._log, self._lasts, self._keys, self._by = log, lasts, keys, by
        self._ending, self._max_record, self._sealing = header_ending(*by), max_record, sealing

    def number(self, waiting: Sequence[WriteCall], known: int, *, sealed: bool) -> NumberedBatch:
        """The records of the calls, numbered by what is known below `known`, and the outcome of calls that write none."""
        records: list[Record] = []
        placed: list[_Place] = []
        repeated: list[tuple[int, int]] = []
        outcomes: list[Outcome] = [None] * len(waiting)
        changed: dict[str, int] = {}  # the last number; -1 - n: it is not known, and the batch has given n
        lasts, load, ending, exact = self._lasts.known, self._lasts.load, self._ending, self._log.exact
        pending: dict[tuple[str, str], tuple[str, int]] = {}
        sealing = self._sealing if sealed else None
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
                        last = load(id, known, last)  # so that the guard sees a Purge, after which another key may be needed
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
                            last = load(id, known, last)
                        if expected != last:
                            raise wrong_expected(id, expected, last)
                first = draft.first
                if first:
                    newest = draft.last
                    if last < 0 and exact and condition.key:
                        last = load(id, known, last)  # so that the guard lets the key of another process count
                    after = max(last, newest) if last >= 0 else min(last, -newest - 1)
                else:
                    if not exact:
                        raise not_exact(id)
                    if last < 0:
                        last = load(id, known, last)
                    first = last + 1
                    newest = after = last + draft.count
                    if newest > MAX_SEQ_NR:
                        raise BadInput(f"Journal {id!r:.60} has no numbers left.", hint="Events end at 2^63 - 1.")
                size = draft.size + sum(len(name) + len(value or b"") for name, value in own) if own else draft.size
                if size > self._max_record:
                    raise TooLarge(f"An Append of {size} bytes is too large.", hint=f"Append less at once: {self._max_record} bytes.")
                record = None if sealing is None or entity is None else sealing.record(draft, entity, first, own)
                records.append(record or draft.record(first, ending, own))
                changed[id] = after
                placed.append((index, first, newest))
                if condition is not ALWAYS and condition.key:
                    pending[id, condition.key] = (condition.digest, index)
            except HeadwaterError as error:
                outcomes[index] = error
        return NumberedBatch(records, placed, outcomes, changed, repeated)

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
            last = self._lasts.load(id, known, last)
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

    def _same(
        self, draft: PlainDraft | AppendDraft, condition: Condition, pending: dict[tuple[str, str], tuple[str, int]], known: int
    ) -> Appended | int | None:
        """The answer of the call that came first under this key, or its index in the batch; None: this is the first."""
        under_way = pending.get((draft.id, condition.key))
        if under_way is not None:
            if under_way[0] != condition.digest:
                raise key_reused(draft.id, condition.key)
            return under_way[1]
        answer = self._keys.answer(draft.id, condition.key, condition.digest, known, self._log.epoch)
        return None if answer is None else Appended(answer.first, answer.last, answer.partition, answer.offset, True)

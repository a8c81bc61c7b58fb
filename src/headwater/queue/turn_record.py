"""The record that the short calls of one turn of the event loop share: many callers at once cost one record, not one each.

A turn is short, and the record has one time: it ends with the turn, with the millisecond, before any other record begins, before anybody
looks at the rows, and when it is full. Each of its calls is answered when the record is durable.

A call decides at once which row it inserts, claims or finishes, and puts it out of the others' reach. What else that takes is done for all
of them at the end, in few steps for each: nobody sees the rows before that. The record tells of the done rows first, then of the inserted
and the claimed ones: no row is done before the record that has claimed it is durable, and slots become free at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headwater.queue.answer import RecalledAnswer
from headwater.queue.bulk import claim_slots, finish_slots
from headwater.queue.queue_log import QueueLog
from headwater.queue.records import DONE, HEADER, encode_claim_slots, encode_header, encode_slots
from headwater.queue.shared_calls import SharedCalls
from headwater.queue.values import Claimed, ClaimedRow
from headwater.queue.waiting import WaitingClaims

MOST_CALLS = 128
"""That one record has: as all keys and data in it are short, and each call has few rows, it fits into every log."""
_CLOSED = -1  # the time of no record


class TurnRecord:
    """Belongs to the event loop of its queue."""

    def __init__(
        self, log: QueueLog, waiting: WaitingClaims, *, wake: Callable[[], None], give_back: Callable[[list[ClaimedRow]], None]
    ) -> None:
        """`wake`: serves the claims that wait, at the next turn. `give_back`: releases rows whose claim has reached nobody."""
        self._log, self._waiting, self._wake, self.give_back = log, waiting, wake, give_back
        self._call_soon = asyncio.get_running_loop().call_soon
        self._scheduled = False  # `_turn_over` is
        self.now = _CLOSED
        """The time of the record that is open."""
        self.claims = False
        """Whether the first due row may be claimed without a look at anything else, as long as the record is open."""
        self.keeps = False
        """Whether the data of rows that are put are kept in memory, as long as the record is open."""
        self.calls = SharedCalls([], [])
        """Those of the open record. The answers of claims are made at its end."""
        self.first_id = 0
        """Of the first row that it inserts; that of each further one is by one higher."""
        self.inserted: list[bytes] = []
        """The bodies of the rows that it inserts, which are the changes, too."""
        self.finished: list[int] = []
        """The slots of rows that are done, whose tokens count no longer."""
        self.claimed: dict[tuple[str, str], tuple[list[int], list[tuple[int, int]]]] = {}
        """By consumer group and worker: the slots of rows that are claimed; the place of each call that has claimed some, and how many."""

    def begin(self, now: int) -> bool:
        """Begin a record, and end the one that is open. False: something is to be done first; then none is open."""
        self.end()
        log = self._log
        decisions = log.decisions
        if log.broken or decisions.overdue(now):
            return False
        fold = decisions.fold
        fold.begin(now)
        self.now, self.calls, self.inserted, self.finished, self.claimed = now, SharedCalls([], []), [], [], {}
        self.first_id, order, self.keeps = fold.next_id, fold.order, decisions.has_room
        self.claims = not (
            fold.paused
            or fold.follow_ups
            or fold.columns.waits.waiters
            or order.lanes.by_name
            or decisions.limited
            or self._waiting.claims
            or order.future.earliest <= now
        )
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._turn_over)
        if self._waiting.claims:
            self._wake()
        return True

    def end(self) -> None:
        """Make what is left of the changes, and write the record that is open, where it has a call."""
        if self.now == _CLOSED:
            return
        now, self.now, calls = self.now, _CLOSED, self.calls
        if not calls.futures:
            self._log.decisions.fold.abandon()
            return
        try:
            value = self._changed(now)
        except Exception as error:  # nobody would ever answer the calls
            self._log.fail(calls, error)
            return
        self._log.append_for(value, calls)

    def _changed(self, now: int) -> bytes:
        """Make what is left of the changes; return the record."""
        decisions, answers = self._log.decisions, self.calls.answers
        fold, totals, parts = decisions.fold, decisions.totals, [encode_header(*HEADER, now)]
        if self.finished:
            totals.done += len(self.finished)
            parts.append(encode_slots(DONE, self.finished, finish_slots(fold, self.finished)))
        if self.inserted:
            totals.puts += len(self.inserted)
            fold.count_inserted(self.inserted)
            parts += self.inserted
        until = now + decisions.settings.lease
        for (group, worker), (slots, callers) in self.claimed.items():
            totals.claims += len(slots)
            ids, claims = claim_slots(fold, slots, until, group, worker)
            parts.append(encode_claim_slots(until, group.encode(), worker.encode(), slots, ids))
            first = 0
            for place, count in callers:
                answers[place] = Claimed(claims[first : first + count], [])
                first += count
        value = b"".join(parts)
        fold.end(len(value))
        return value

    def _turn_over(self) -> None:
        self._scheduled = False
        self.end()
        self._log.region.start()  # not before: those who come within the turn would wait for another sync


class TurnAnswer(RecalledAnswer[Claimed], eq=False):
    """The answer of a claim that shares a record. `place`: among the calls of the record."""

    turn: TurnRecord
    calls: SharedCalls
    place: int

    def recall(self) -> None:
        self.turn.end()  # the claim is known then
        claimed: Claimed | None = self.calls.answers[self.place]
        if claimed is not None:  # else it has failed
            self.turn.give_back(claimed.claims)

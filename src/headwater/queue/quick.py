"""The calls that a queue gets most, each as one short function: a put of a new row, a claim of one row, a row that is done, and both.

What is out of the ordinary is left to the general way, which does the same in more steps: they say None, and have changed nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from headwater.queue.answer import RecalledAnswer
from headwater.queue.body import BODY
from headwater.queue.checks import FORMS, MAX_KEY, checked_name
from headwater.queue.columns import PROCESSING, Extras
from headwater.queue.data_place import DataPlace
from headwater.queue.records import CLAIM, DONE, HEADER, HEADER_CLAIM, HEADER_DONE, HEADER_DONE_CLAIM, INSERT, encode_header
from headwater.queue.row import NewRow
from headwater.queue.row_view import claimed_row
from headwater.queue.runtime import QueueRuntime
from headwater.queue.values import Claimed, ClaimedRow, Put

_NAMES = 10_000  # pairs of names whose bytes are kept
_VERSION, _FORMAT = HEADER
_pack_body, _pack_done, _pack_claim, _pack_done_claim = BODY.pack, HEADER_DONE.pack, HEADER_CLAIM.pack, HEADER_DONE_CLAIM.pack


def _stays(extras: Extras | None) -> bool:
    """Whether something of a row stays when it is done: its next run, or its key."""
    return extras is not None and bool(extras.schedule or extras.unique_for)


class QuickPut:
    """Puts a row of a new key, whose dates are left to the queue."""

    def __init__(self, runtime: QueueRuntime) -> None:
        self._runtime, self._log, self._now_ms = runtime, runtime.log, runtime.now_ms

    def put(self, new: NewRow) -> asyncio.Future[list[Put]] | None:
        """The answer. None: this is no such put, or something is to be done first."""
        log, now = self._log, self._now_ms()
        decisions = log.decisions
        fold, key, data, priority = decisions.fold, new.key, new.data, new.priority
        if priority is None:
            priority = decisions.settings.priority
        if (
            log.broken
            or new.process_date is not None
            or new.insertion_date is not None
            or new.delay is not None
            or new.expiration_date
            or new.lane
            or new.schedule is not None
            or new.unique_for is not None
            or decisions.remembers
            or new.after
            or new.after_dead
            or type(key) is not bytes
            or type(data) is not bytes
            or new.form not in FORMS
            or type(priority) is not int
            or not 0 <= priority <= 255
            or not 0 < len(key) <= MAX_KEY
            or len(data) > decisions.large
            or key in fold.by_key
            or fold.answers
            or fold.finished.earliest <= now
            or fold.claims.earliest < now
            or fold.expiries.earliest <= now
        ):
            return None
        columns = fold.columns
        slot = columns.free.pop() if columns.free else columns.take()
        body = _pack_body(INSERT, slot, new.form, priority, new.declaration, now, now, 0, len(key), len(data)) + key + data
        decisions.totals.puts += 1
        id = fold.insert_alone(slot, key, body, priority, now)
        future = log.append(encode_header(_VERSION, _FORMAT, now) + body, [Put(id, "inserted", now)])
        if self._runtime.waiting.claims:
            self._runtime.wake()
        return future  # None: the log is folded anew, and the row is not in it


class QuickClaim:
    """Claims the first due row, for the usual lease; and removes one row that is done."""

    def __init__(self, runtime: QueueRuntime, recall: Callable[[Claimed], object]) -> None:
        """`recall`: is called with a claim that has not reached its caller."""
        self._runtime, self._log, self._now_ms, self._recall = runtime, runtime.log, runtime.now_ms, recall
        self._names: dict[tuple[str, str], tuple[int, int, bytes]] = {}

    def claim(self, group: str, worker: str, done: Sequence[str]) -> Awaitable[Claimed] | None:
        """The answer. None: no row below the slow band is due, a token does not count, or something is to be done first."""
        log, now, runtime = self._log, self._now_ms(), self._runtime
        decisions = log.decisions
        fold = decisions.fold
        order, claims, columns = fold.order, fold.claims, fold.columns
        finished = claims.by_token.get(done[0], -1) if done else 0
        if (
            log.broken
            or finished < 0
            or (done and (decisions.remembers or decisions.watched or (columns.extras and _stays(columns.extras.get(finished)))))
            or (done and columns.waits.waiters)
            or order.future.earliest <= now
            or fold.paused
            or fold.answers
            or fold.follow_ups
            or order.lanes.by_name
            or decisions.limited
            or runtime.waiting.claims
            or claims.earliest < now
            or fold.expiries.earliest <= now
            or fold.finished.earliest <= now
        ):
            return None
        names = self._names.get((group, worker)) or self._encoded(group, worker)
        slot = order.pop_quick()
        if slot < 0:
            return None
        id, until, totals = columns.ids[slot], now + decisions.settings.lease, decisions.totals
        fold.sequence = sequence = fold.sequence + 1  # `begin` and `end` of a record that is no row's home
        fold.now = now
        if done:
            ended = columns.ids[finished]
            value = _pack_done_claim(
                _VERSION, _FORMAT, now, DONE, 1, finished, ended, CLAIM, until, names[0], names[1], 1, slot, id
            ) + names[2]  # fmt: skip
            fold.done(finished)
            totals.done += 1
        else:
            value = _pack_claim(_VERSION, _FORMAT, now, CLAIM, until, names[0], names[1], 1, slot, id) + names[2]
        columns.states[slot] = PROCESSING
        token = claims.add(slot, sequence, now, until, group, worker, True)
        row = claimed_row(fold, slot, now, until, group, worker)
        totals.claims += 1
        fold.homes.note(0, len(value))
        claimed = Claimed([ClaimedRow(row, token, until)], [])
        future = log.append(value, claimed)
        if future is None:
            return None
        answer = RecalledAnswer(future, claimed, self._recall)
        return answer if type(row.data) is not DataPlace else runtime.claims.completed(answer)

    def done(self, token: str) -> asyncio.Future[list[str]] | None:
        """A row is processed, and goes. The answer; None: the token does not count, or something is to be done first."""
        log, now = self._log, self._now_ms()
        decisions = log.decisions
        fold = decisions.fold
        slot = fold.claims.by_token.get(token)
        if slot is None or log.broken or fold.answers or fold.claims.earliest < now:
            return None
        if fold.expiries.earliest <= now or fold.finished.earliest <= now:
            return None
        if decisions.remembers or decisions.watched or (fold.columns.extras and _stays(fold.columns.extras.get(slot))):
            return None
        value = _pack_done(_VERSION, _FORMAT, now, DONE, 1, slot, fold.columns.ids[slot])
        fold.sequence += 1
        fold.now = now
        fold.done(slot)
        decisions.totals.done += 1
        fold.homes.note(0, len(value))
        stale: list[str] = []
        future = log.append(value, stale)
        if self._runtime.waiting.claims:
            self._runtime.wake()
        return future

    def _encoded(self, group: str, worker: str) -> tuple[int, int, bytes]:
        """The lengths of the names, and their bytes."""
        encoded = checked_name(group, "The consumer group"), checked_name(worker, "The worker's name")
        if len(self._names) >= _NAMES:  # names that change with every call
            self._names.clear()
        names = self._names[group, worker] = len(encoded[0]), len(encoded[1]), encoded[0] + encoded[1]
        return names

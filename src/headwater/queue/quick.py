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
from headwater.queue.records import CLAIM, CLAIM_ONE, DONE, DONE_CLAIM, DONE_ONE, INSERT
from headwater.queue.row import NewRow
from headwater.queue.row_view import claimed_row
from headwater.queue.runtime import QueueRuntime
from headwater.queue.turn_record import MOST_CALLS
from headwater.queue.values import Claimed, ClaimedRow, Put

_NAMES = 10_000  # pairs of names whose bytes are kept
_pack_body, _pack_done, _pack_claim, _pack_done_claim = BODY.pack, DONE_ONE.pack, CLAIM_ONE.pack, DONE_CLAIM.pack


def _stays(extras: Extras | None) -> bool:
    """Whether something of a row stays when it is done: its next run, or its key."""
    return extras is not None and bool(extras.schedule or extras.unique_for)


class QuickPut:
    """Puts a row of a new key, whose dates are left to the queue."""

    def __init__(self, runtime: QueueRuntime) -> None:
        self._log, self._now_ms, self._turn = runtime.log, runtime.now_ms, runtime.turn
        self._future = asyncio.get_running_loop().create_future

    def put(self, new: NewRow) -> asyncio.Future[list[Put]] | None:
        """The answer. None: this is no such put, or something is to be done first."""
        now, turn, decisions = self._now_ms(), self._turn, self._log.decisions
        fold, key, data, priority = decisions.fold, new.key, new.data, new.priority
        if priority is None:
            priority = decisions.settings.priority
        if (
            new.process_date is not None
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
        ):
            return None
        if (turn.now != now or len(turn.futures) >= MOST_CALLS) and not turn.begin(now):
            return None
        columns = fold.columns
        slot = columns.free.pop() if columns.free else columns.take()
        body = _pack_body(INSERT, slot, new.form, priority, new.declaration, now, now, 0, len(key), len(data)) + key + data
        decisions.totals.puts += 1
        future: asyncio.Future[list[Put]] = self._future()
        turn.futures.append(future)
        turn.answers.append([Put(fold.insert_due(slot, key, body, priority), "inserted", now)])
        turn.parts.append(body)
        return future


class QuickClaim:
    """Claims the first due row, for the usual lease; and removes one row that is done."""

    def __init__(self, runtime: QueueRuntime, recall: Callable[[Claimed], object]) -> None:
        """`recall`: is called with a claim that has not reached its caller."""
        self._log, self._now_ms, self._turn, self._recall = runtime.log, runtime.now_ms, runtime.turn, recall
        self._complete = runtime.claims.completed
        self._future = asyncio.get_running_loop().create_future
        self._names: dict[tuple[str, str], tuple[int, int, bytes]] = {}

    def claim(self, group: str, worker: str, done: Sequence[str]) -> Awaitable[Claimed] | None:
        """The answer. None: no row below the slow band is due, a token does not count, or something is to be done first."""
        now, turn, decisions = self._now_ms(), self._turn, self._log.decisions
        fold = decisions.fold
        claims, columns = fold.claims, fold.columns
        if done:
            finished = claims.by_token.get(done[0], -1)
            if (
                finished < 0
                or decisions.remembers
                or decisions.watched
                or columns.waits.waiters
                or (columns.extras and _stays(columns.extras.get(finished)))
            ):
                return None
        names = self._names.get((group, worker)) or self._encoded(group, worker)
        if (turn.now != now or len(turn.futures) >= MOST_CALLS) and not turn.begin(now):
            return None
        slot = fold.order.pop_quick() if turn.claims else -1
        if slot < 0:
            turn.end()  # it may have been begun in vain
            return None
        id, until, totals = columns.ids[slot], now + decisions.settings.lease, decisions.totals
        if done:
            change = _pack_done_claim(
                DONE, 1, finished, columns.ids[finished], CLAIM, until, names[0], names[1], 1, slot, id
            ) + names[2]  # fmt: skip
            fold.done(finished)
            totals.done += 1
        else:
            change = _pack_claim(CLAIM, until, names[0], names[1], 1, slot, id) + names[2]
        columns.states[slot] = PROCESSING
        token = claims.add(slot, fold.sequence, now, until, group, worker, True)
        row = claimed_row(fold, slot, now, until, group, worker)
        totals.claims += 1
        claimed = Claimed([ClaimedRow(row, token, until)], [])
        future: asyncio.Future[Claimed] = self._future()
        turn.parts.append(change)
        turn.futures.append(future)
        turn.answers.append(claimed)
        answer = RecalledAnswer(future, claimed, self._recall)
        return answer if type(row.data) is not DataPlace else self._complete(answer)

    def done(self, token: str) -> asyncio.Future[list[str]] | None:
        """A row is processed, and goes. The answer; None: the token does not count, or something is to be done first."""
        now, turn, decisions = self._now_ms(), self._turn, self._log.decisions
        fold = decisions.fold
        columns, slot = fold.columns, fold.claims.by_token.get(token)
        if slot is None or decisions.remembers or decisions.watched or (columns.extras and _stays(columns.extras.get(slot))):
            return None
        if (turn.now != now or len(turn.futures) >= MOST_CALLS) and not turn.begin(now):
            return None
        future: asyncio.Future[list[str]] = self._future()
        turn.parts.append(_pack_done(DONE, 1, slot, columns.ids[slot]))
        turn.futures.append(future)
        turn.answers.append([])
        fold.done(slot)
        decisions.totals.done += 1
        return future

    def _encoded(self, group: str, worker: str) -> tuple[int, int, bytes]:
        """The lengths of the names, and their bytes."""
        encoded = checked_name(group, "The consumer group"), checked_name(worker, "The worker's name")
        if len(self._names) >= _NAMES:  # names that change with every call
            self._names.clear()
        names = self._names[group, worker] = len(encoded[0]), len(encoded[1]), encoded[0] + encoded[1]
        return names

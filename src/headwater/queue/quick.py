"""The calls that a queue gets most, each as one short function: a put of a new row, a claim of one row, a row that is done, and both.

What is out of the ordinary is left to the general way, which does the same in more steps: they say None, and have changed nothing.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Sequence

from headwater.queue.body import BODY
from headwater.queue.checks import FORMS, MAX_KEY, checked_name
from headwater.queue.claim_reader import lacks_data
from headwater.queue.columns import Extras
from headwater.queue.data_place import LARGE
from headwater.queue.key_index import WHOLE_KEY
from headwater.queue.records import INSERT
from headwater.queue.row import NewRow
from headwater.queue.runtime import QueueRuntime
from headwater.queue.turn_record import MOST_CALLS, TurnAnswer
from headwater.queue.values import Claimed, Put

MOST_ROWS = 100
"""That one call claims, or says to be done: so many calls, of as many rows, fit into a record."""
_NAMES = 10_000  # pairs of names that are known to be names
_pack_body = BODY.pack


def _stays(extras: Extras | None) -> bool:
    """Whether something of a row stays when it is done: its next run, or its key."""
    return extras is not None and bool(extras.schedule or extras.unique_for)


class QuickPut:
    """Puts a row of a new key, whose dates are left to the queue."""

    def __init__(self, runtime: QueueRuntime) -> None:
        self._log, self._now_ms, self._turn = runtime.log, runtime.now_ms, runtime.turn
        self._large = min(runtime.decisions.large, LARGE)  # many of them share a record
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
            or len(data) > self._large
            or (name := key if len(key) <= WHOLE_KEY else fold.by_key.name(key)) in fold.by_key
        ):
            return None
        if (turn.now != now or len(turn.calls.futures) >= MOST_CALLS) and not turn.begin(now):
            return None
        if not turn.keeps:
            turn.end()  # it may have been begun in vain
            return None
        columns, calls, inserted = fold.columns, turn.calls, turn.inserted
        slot = columns.free.pop() if columns.free else columns.take()
        try:
            body = _pack_body(INSERT, slot, new.form, priority, new.declaration, now, now, 0, len(key), len(data)) + key + data
        except struct.error:  # the declaration is none
            columns.free.append(slot)
            return None
        id = turn.first_id + len(inserted)
        fold.insert_due(slot, name, body, priority, id)
        inserted.append(body)
        future: asyncio.Future[list[Put]] = self._future()
        calls.futures.append(future)
        calls.answers.append([Put(id, "inserted", now)])
        return future


class QuickClaim:
    """Claims the first due row, for the usual lease; and removes one row that is done."""

    def __init__(self, runtime: QueueRuntime) -> None:
        self._log, self._now_ms, self._turn, self._complete = runtime.log, runtime.now_ms, runtime.turn, runtime.claims.completed
        self._future = asyncio.get_running_loop().create_future
        self._names: set[tuple[str, str]] = set()

    def claim(self, group: str, worker: str, done: Sequence[str]) -> Awaitable[Claimed] | None:
        """The answer. None: no row below the slow band is due, a token does not count, or something is to be done first."""
        now, turn, decisions = self._now_ms(), self._turn, self._log.decisions
        fold, names = decisions.fold, (group, worker)
        if done:
            finished, columns = fold.claims.by_token.get(done[0], -1), fold.columns
            if finished < 0 or decisions.remembers or decisions.watched or (columns.extras and _stays(columns.extras.get(finished))):
                return None
        if names not in self._names:
            self._check(group, worker)
        if (turn.now != now or len(turn.calls.futures) >= MOST_CALLS) and not turn.begin(now):
            return None
        slot = fold.order.pop_quick() if turn.claims else -1
        if slot < 0:
            turn.end()  # it may have been begun in vain
            return None
        if done:
            del fold.claims.by_token[done[0]]
            turn.finished.append(finished)
        calls, run = turn.calls, turn.claimed.get(names)
        if run is None:
            run = turn.claimed[names] = ([], [])
        place = len(calls.futures)
        run[0].append(slot)
        run[1].append((place, 1))
        future: asyncio.Future[Claimed] = self._future()
        calls.futures.append(future)
        calls.answers.append(None)
        answer = TurnAnswer(future, turn, calls, place)
        return answer if not fold.data.bytes else self._completed(answer)

    def claim_some(self, n: int, group: str, worker: str, done: Sequence[str]) -> Awaitable[Claimed] | None:
        """`claim` of up to `n` rows, with several done ones: `MOST_ROWS` of each at most."""
        now, turn, decisions = self._now_ms(), self._turn, self._log.decisions
        fold, names = decisions.fold, (group, worker)
        finished = self._finished(done) if done else []
        if finished is None or fold.data.bytes:  # large rows are counted while they are claimed
            return None
        if names not in self._names:
            self._check(group, worker)
        if (turn.now != now or len(turn.calls.futures) >= MOST_CALLS) and not turn.begin(now):
            return None
        order = fold.order
        slots = order.pop_many(n) if turn.claims else []
        while turn.claims and len(slots) < n and (slot := order.pop_quick()) >= 0:
            slots.append(slot)
        if not slots:
            turn.end()  # it may have been begun in vain
            return None
        self._finish(done, finished)
        calls = turn.calls
        run, place = turn.claimed.setdefault(names, ([], [])), len(calls.futures)
        run[0].extend(slots)
        run[1].append((place, len(slots)))
        future: asyncio.Future[Claimed] = self._future()
        calls.futures.append(future)
        calls.answers.append(None)
        return TurnAnswer(future, turn, calls, place)

    def _completed(self, answer: TurnAnswer) -> Awaitable[Claimed]:
        """The answer, where rows have data that are on the log alone: this may be one of them."""
        self._turn.end()  # the row is known then
        claimed: Claimed | None = answer.calls.answers[answer.place]  # None: it has failed
        return self._complete(answer) if claimed is not None and lacks_data(claimed.claims) else answer

    def done(self, token: str) -> asyncio.Future[list[str]] | None:
        """A row is processed, and goes. The answer; None: the token does not count, or something is to be done first."""
        now, turn, decisions = self._now_ms(), self._turn, self._log.decisions
        by_token, columns = decisions.fold.claims.by_token, decisions.fold.columns
        slot = by_token.get(token)
        if slot is None or decisions.remembers or decisions.watched or (columns.extras and _stays(columns.extras.get(slot))):
            return None
        if (turn.now != now or len(turn.calls.futures) >= MOST_CALLS) and not turn.begin(now):
            return None
        del by_token[token]
        turn.finished.append(slot)
        future: asyncio.Future[list[str]] = self._future()
        turn.calls.futures.append(future)
        turn.calls.answers.append([])
        return future

    def done_some(self, tokens: Sequence[str]) -> asyncio.Future[list[str]] | None:
        """`done` of several rows: `MOST_ROWS` at most."""
        now, turn, finished = self._now_ms(), self._turn, self._finished(tokens)
        if finished is None or ((turn.now != now or len(turn.calls.futures) >= MOST_CALLS) and not turn.begin(now)):
            return None
        self._finish(tokens, finished)
        future: asyncio.Future[list[str]] = self._future()
        turn.calls.futures.append(future)
        turn.calls.answers.append([])
        return future

    def _finished(self, tokens: Sequence[str]) -> list[int] | None:
        """The slots of rows that are done, and of which nothing stays. None: a token does not count, or something does."""
        decisions = self._log.decisions
        by_token, extras = decisions.fold.claims.by_token, decisions.fold.columns.extras
        slots = [by_token.get(token, -1) for token in tokens]
        if -1 in slots or len(set(slots)) < len(slots) or decisions.remembers or decisions.watched:
            return None
        return None if extras and any(_stays(extras.get(slot)) for slot in slots) else slots

    def _finish(self, tokens: Sequence[str], slots: list[int]) -> None:
        by_token = self._log.decisions.fold.claims.by_token
        for token in tokens:
            del by_token[token]
        self._turn.finished.extend(slots)

    def _check(self, group: str, worker: str) -> None:
        """Errors: `BadInput` for names that are none."""
        checked_name(group, "The consumer group")
        checked_name(worker, "The worker's name")
        if len(self._names) >= _NAMES:  # names that change with every call
            self._names.clear()
        self._names.add((group, worker))

"""Replays records of a queue's log: each change is made by the function of the fold by which a live call has made it."""

from __future__ import annotations

from headwater.queue import records
from headwater.queue.body import FOLLOW_UP, fields
from headwater.queue.columns import PROCESSING
from headwater.queue.fold import QueueFold
from headwater.queue.quick_replay import replay_claim, replay_done, replay_rows
from headwater.queue.records import Change, Malformed, decode_record


def replay(fold: QueueFold, sequence: int, payload: bytes, done: frozenset[int] = frozenset()) -> None:
    """Apply a record to a fold whose replay is not finished. `done`: ids of rows that are gone by a later record. Errors: `Malformed`."""
    if replay_rows(fold, sequence, payload, done):
        return
    now, changes = decode_record(payload)
    fold.skip_to(sequence)
    fold.begin(now)
    try:
        for change in changes:
            _APPLY[change.kind](fold, change)
    except (TypeError, LookupError, OverflowError) as error:
        raise Malformed(f"a change does not fit the rows before it: {error!r}") from error
    fold.end(len(payload))


def _insert(fold: QueueFold, change: Change) -> None:
    row = change.row
    assert row is not None
    _, slot, flags, priority, _, _, process, expiration, key, _ = fields(row.body)
    fold.columns.grow(slot + 1)
    if flags & FOLLOW_UP:
        fold.insert_follow_up(slot, key, row.body)
    else:
        fold.insert(slot, key, row.body, priority, process)
    if row.extras:
        fold.columns.keep_rare(slot, row.extras)
    if expiration:
        fold.expire_at(slot, expiration)


def _write(fold: QueueFold, change: Change) -> None:
    assert change.row is not None
    fold.columns.grow(change.row.slot + 1)
    fold.write(change.row)


def _claim(fold: QueueFold, change: Change) -> None:
    until, group, worker = change.values
    fold.starts.note(fold.now, fold.sequence, len(change.rows))
    if not fold.follow_ups:
        replay_claim(fold, change.rows, until, group, worker)
        return
    for slot, id in change.rows:
        if fold.holds(slot, id):
            fold.claim(slot, until, group, worker)


def _done(fold: QueueFold, change: Change) -> None:
    slots = _processed(fold, change)
    if not fold.follow_ups:
        replay_done(fold, slots)
    else:
        for slot in slots:
            fold.done(slot)
    _let_go(fold, change)


def _extend(fold: QueueFold, change: Change) -> None:
    for slot in _processed(fold, change):
        fold.claims.extend(slot, fold.now, change.values[0])


def _release(fold: QueueFold, change: Change) -> None:
    for slot in _processed(fold, change):
        fold.give_back(slot, change.values[0])


def _next(fold: QueueFold, change: Change) -> None:
    for slot in _processed(fold, change):
        fold.run_again(slot, change.values[0])
    _let_go(fold, change)


def _fail(fold: QueueFold, change: Change) -> None:
    for slot in _processed(fold, change):
        fold.give_back(slot, change.values[0], failures=1, error=change.values[1])


def _lose(fold: QueueFold, change: Change) -> None:
    for slot in _processed(fold, change):
        fold.give_back(slot, timeouts=1)


def _die(fold: QueueFold, change: Change) -> None:
    for slot in _processed(fold, change):
        fold.die(slot, *change.values)
    for _, id in change.rows:
        fold.columns.waits.dead(id)


def _remove(fold: QueueFold, change: Change) -> None:
    failed = change.kind in (records.CANCEL, records.EXPIRE)
    for slot, id in change.rows:
        if fold.holds(slot, id) and fold.columns.states[slot] != PROCESSING:
            fold.remove(slot, failed=failed)
    _let_go(fold, change, failed=failed)


def _let_go(fold: QueueFold, change: Change, *, failed: bool = False) -> None:
    """Rows are gone: also those of which the log no longer holds the beginning, and for which others wait."""
    if fold.columns.waits.waiters:
        for _, id in change.rows:
            fold.let_go(id, failed=failed)


def _follow(fold: QueueFold, change: Change) -> None:
    fold.columns.waits.move(*change.values)


def _processed(fold: QueueFold, change: Change) -> list[int]:
    """The slots of the change's rows that are known to be processed."""
    states, ids, most = fold.columns.states, fold.columns.ids, len(fold.columns)
    return [slot for slot, id in change.rows if slot < most and ids[slot] == id and states[slot] == PROCESSING]


def _pause(fold: QueueFold, change: Change) -> None:
    fold.pause()


def _resume(fold: QueueFold, change: Change) -> None:
    fold.resume()


def _answer(fold: QueueFold, change: Change) -> None:
    fold.answers.keep(*change.values)


def _nothing(fold: QueueFold, change: Change) -> None: ...


def _keep(fold: QueueFold, change: Change) -> None:
    fold.finished.keep(*change.values)


def _forget(fold: QueueFold, change: Change) -> None:
    fold.finished.forget(id for _, id in change.rows)


def _remember(fold: QueueFold, change: Change) -> None:
    fold.finished.remember(*change.values)


_APPLY = {
    records.INSERT: _insert,
    records.MERGE: _write,
    records.CARRY: _write,
    records.CLAIM: _claim,
    records.DONE: _done,
    records.EXTEND: _extend,
    records.RELEASE: _release,
    records.FAIL: _fail,
    records.LOST: _lose,
    records.EXPIRE: _remove,
    records.DEAD: _die,
    records.CANCEL: _remove,
    records.DROP: _remove,
    records.ABSORB: _remove,
    records.PAUSE: _pause,
    records.RESUME: _resume,
    records.ANSWERED: _answer,
    records.NEXT: _next,
    records.FOLLOW: _follow,
    records.DATA: _nothing,
    records.RESULT: _keep,
    records.FORGET: _forget,
    records.UNIQUE: _remember,
}

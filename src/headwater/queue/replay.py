"""Replays records of a queue's log: each change is made by the function of the fold by which a live call has made it."""

from __future__ import annotations

from headwater.queue import records
from headwater.queue.columns import DEAD, HELD, PROCESSING, WAITING
from headwater.queue.fold import QueueFold
from headwater.queue.records import Change, decode_record


def replay(fold: QueueFold, sequence: int, payload: bytes) -> None:
    """Apply a record to a fold whose replay is not finished. Errors: `Malformed`."""
    now, changes = decode_record(payload)
    fold.skip_to(sequence)
    fold.begin(now)
    for change in changes:
        _APPLY[change.kind](fold, change)
    fold.end(len(payload))


def _insert(fold: QueueFold, change: Change) -> None:
    row = change.row
    assert row is not None
    fold.columns.grow(row.slot + 1)
    fold.insert(*row[:9], row.extras)


def _write(fold: QueueFold, change: Change) -> None:
    assert change.row is not None
    fold.columns.grow(change.row.slot + 1)
    fold.write(change.row)


def _claim(fold: QueueFold, change: Change) -> None:
    until, group, worker = change.values
    for slot, id in change.rows:
        if fold.holds(slot, id, WAITING, HELD):
            fold.claim(slot, until, group, worker)


def _done(fold: QueueFold, change: Change) -> None:
    for slot, id in change.rows:
        if fold.holds(slot, id, PROCESSING):
            fold.done(slot)


def _extend(fold: QueueFold, change: Change) -> None:
    for slot, id in change.rows:
        if fold.holds(slot, id, PROCESSING):
            fold.claims.extend(slot, fold.now, change.values[0])


def _release(fold: QueueFold, change: Change) -> None:
    for slot, id in change.rows:
        if fold.holds(slot, id, PROCESSING):
            fold.give_back(slot, change.values[0])


def _fail(fold: QueueFold, change: Change) -> None:
    [(slot, id)] = change.rows
    if fold.holds(slot, id, PROCESSING):
        fold.fail(slot, *change.values)


def _lose(fold: QueueFold, change: Change) -> None:
    for slot, id in change.rows:
        if fold.holds(slot, id, PROCESSING):
            fold.lose(slot)


def _die(fold: QueueFold, change: Change) -> None:
    [(slot, id)] = change.rows
    if fold.holds(slot, id, PROCESSING):
        fold.die(slot, *change.values)


def _remove(fold: QueueFold, change: Change) -> None:
    for slot, id in change.rows:
        if fold.holds(slot, id, WAITING, HELD, DEAD):
            fold.remove(slot)


def _pause(fold: QueueFold, change: Change) -> None:
    fold.pause()


def _resume(fold: QueueFold, change: Change) -> None:
    fold.resume()


def _answer(fold: QueueFold, change: Change) -> None:
    fold.answer(*change.values)


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
}

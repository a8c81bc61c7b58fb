"""Replays records of a queue's log: each change is made by the function of the fold by which a live call has made it."""

from __future__ import annotations

from headwater.queue import records
from headwater.queue.body import BINARY, BODY, BODY_SIZE, FOLLOW_UP, fields
from headwater.queue.columns import PROCESSING, Extras
from headwater.queue.fold import QueueFold
from headwater.queue.records import HEADER_SIZE, Change, decode_record

_AT = HEADER_SIZE - 1  # where the first change begins: the region's byte is not part of a payload
_SHORTEST = _AT + BODY_SIZE


def replay(fold: QueueFold, sequence: int, payload: bytes) -> None:
    """Apply a record to a fold whose replay is not finished. Errors: `Malformed`."""
    if len(payload) > _SHORTEST and payload[_AT] == records.INSERT and payload[0] == records.FORMAT and not fold.answers:
        _, slot, flags, _, _, _, _, expiration, length, size = BODY.unpack_from(payload, _AT)
        if _SHORTEST + length + size == len(payload) and flags <= BINARY and not expiration and fold.sequence + 1 == sequence:
            fold.replay_insert(slot, payload[_SHORTEST : _SHORTEST + length], payload[_AT:])
            return
    now, changes = decode_record(payload)
    fold.skip_to(sequence)
    fold.begin(now)
    for change in changes:
        _APPLY[change.kind](fold, change)
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
        fold.columns.extras[slot] = Extras(**row.extras)
    if expiration:
        fold.expire_at(slot, expiration)


def _write(fold: QueueFold, change: Change) -> None:
    assert change.row is not None
    fold.columns.grow(change.row.slot + 1)
    fold.write(change.row)


def _claim(fold: QueueFold, change: Change) -> None:
    until, group, worker = change.values
    for slot, id in change.rows:
        if fold.holds(slot, id):
            fold.claim(slot, until, group, worker)


def _done(fold: QueueFold, change: Change) -> None:
    for slot in _processed(fold, change):
        fold.done(slot)


def _extend(fold: QueueFold, change: Change) -> None:
    for slot in _processed(fold, change):
        fold.claims.extend(slot, fold.now, change.values[0])


def _release(fold: QueueFold, change: Change) -> None:
    for slot in _processed(fold, change):
        fold.give_back(slot, change.values[0])


def _fail(fold: QueueFold, change: Change) -> None:
    for slot in _processed(fold, change):
        fold.give_back(slot, change.values[0], failures=1, error=change.values[1])


def _lose(fold: QueueFold, change: Change) -> None:
    for slot in _processed(fold, change):
        fold.give_back(slot, timeouts=1)


def _die(fold: QueueFold, change: Change) -> None:
    for slot in _processed(fold, change):
        fold.die(slot, *change.values)


def _remove(fold: QueueFold, change: Change) -> None:
    for slot, id in change.rows:
        if fold.holds(slot, id) and fold.columns.states[slot] != PROCESSING:
            fold.remove(slot)


def _processed(fold: QueueFold, change: Change) -> list[int]:
    """The slots of the change's rows that are known to be processed."""
    return [slot for slot, id in change.rows if fold.holds(slot, id) and fold.columns.states[slot] == PROCESSING]


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

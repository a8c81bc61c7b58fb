"""Replays records of a queue's log: each change is made by the function of the fold by which a live call has made it."""

from __future__ import annotations

from headwater.queue import records
from headwater.queue.body import BINARY, BODY, BODY_SIZE, FOLLOW_UP, fields
from headwater.queue.columns import PROCESSING, Extras
from headwater.queue.fold import QueueFold
from headwater.queue.records import HEADER_SIZE, Change, Malformed, decode_record

_AT = HEADER_SIZE - 1  # where the first change begins: the region's byte is not part of a payload
_SHORTEST = _AT + BODY_SIZE
_unpack = BODY.unpack_from


def replay(fold: QueueFold, sequence: int, payload: bytes) -> None:
    """Apply a record to a fold whose replay is not finished. Errors: `Malformed`."""
    if len(payload) > _SHORTEST and payload[_AT] == records.INSERT and payload[0] == records.FORMAT and not fold.answers:
        rows = _plain_inserts(payload)
        if rows and fold.sequence + 1 == sequence:
            fold.replay_inserts(rows, len(payload) + 1)
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


def _plain_inserts(payload: bytes) -> list[tuple[int, bytes, bytes]]:
    """The slots, keys and bodies of a record that has nothing but inserts of waiting rows without extras and expiry; else none.

    Most records are such, and taking them apart as `decode_record` does would take most of the time of opening a queue.
    """
    rows, at, end = [], _AT, len(payload)
    while at + BODY_SIZE <= end:
        kind, slot, flags, _, _, _, _, expiration, length, size = _unpack(payload, at)
        middle = at + BODY_SIZE + length
        if kind != records.INSERT or flags > BINARY or expiration or middle + size > end:
            return []
        rows.append((slot, payload[at + BODY_SIZE : middle], payload[at : middle + size]))
        at = middle + size
    return rows if at == end else []


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


def _next(fold: QueueFold, change: Change) -> None:
    for slot in _processed(fold, change):
        fold.run_again(slot, change.values[0])


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
    records.NEXT: _next,
}

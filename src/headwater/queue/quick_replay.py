"""Replays what most of a log is, in few steps for each row: new rows and carried ones that nothing is peculiar of, claims, and rows done.

What is out of the ordinary is left to the general way, which does the same in more steps.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from headwater.queue.body import BINARY, FLAGS
from headwater.queue.bulk import leave_homes
from headwater.queue.columns import FREE, PROCESSING, RUN
from headwater.queue.fold import QueueFold
from headwater.queue.records import CARRY, FORMAT, HEADER_SIZE, INSERT, MOST_ROWS, SlotId
from headwater.queue.replayed import ReplayedClaims

_AT = HEADER_SIZE - 1  # where the first change begins: the region's byte is not part of a payload
_BODY = struct.Struct(">BIB3xQ8xQHI")  # of a body: kind, slot, flags, insertion, expiration and the two lengths
_STATE = struct.Struct(">qQBHBH")  # an id that is below 0 is none


def replay_rows(fold: QueueFold, sequence: int, payload: bytes) -> bool:
    """Apply a record of nothing but plain rows: all of them inserted, or all carried. False: it is another one; nothing has changed."""
    if len(payload) < _AT + _BODY.size or payload[0] != FORMAT or fold.sequence + 1 != sequence:
        return False
    apply = {INSERT: _insert, CARRY: _carry}.get(payload[_AT])
    return apply is not None and apply(fold, payload)


def _insert(fold: QueueFold, payload: bytes) -> bool:
    at, end, slots, found = _AT, len(payload), list[int](), list[bytes]()
    while at < end:
        if at + _BODY.size > end:
            return False
        kind, slot, flags, _, expiration, key, data = _BODY.unpack_from(payload, at)
        stop = at + _BODY.size + key + data
        if kind != INSERT or flags > BINARY or expiration or stop > end:
            return False
        slots.append(slot)
        found.append(payload[at:stop])
        at = stop
    _begin(fold, payload, slots)
    columns = fold.columns
    states, ids, bodies, id = columns.states, columns.ids, columns.bodies, fold.sequence * MOST_ROWS
    for slot, body in zip(slots, found, strict=True):
        ids[slot] = id
        bodies[slot] = body
        states[slot] = RUN
        id += 1
    fold.live_bytes += end - _AT
    fold.homes.note(len(slots), end + 1)
    return True


def _carry(fold: QueueFold, payload: bytes) -> bool:
    """Rows that wait, have not been tried, and are not known: the records that had them are gone mostly."""
    at, end, slots, found, numbers = _AT, len(payload), list[int](), list[bytes](), list[int]()
    columns, live, updates = fold.columns, 0, dict[int, int]()
    states, known = columns.states, len(columns)
    while at < end:
        if at + _BODY.size > end:
            return False
        kind, slot, flags, insertion, expiration, key, data = _BODY.unpack_from(payload, at)
        stop = at + _BODY.size + key + data
        if kind != CARRY or flags > BINARY or expiration or stop + _STATE.size > end:
            return False
        id, update, state, attempts, timeouts, failures = _STATE.unpack_from(payload, stop)
        if id < 0 or state != RUN or attempts or timeouts or failures or (slot < known and states[slot] != FREE):
            return False
        if update != insertion:
            updates[slot] = update
        slots.append(slot)
        numbers.append(id)
        found.append(payload[at:stop])
        live += stop - at
        at = stop + _STATE.size
    _begin(fold, payload, slots)
    ids, bodies = columns.ids, columns.bodies
    for slot, id, body in zip(slots, numbers, found, strict=True):
        ids[slot] = id
        bodies[slot] = body
        states[slot] = RUN
    columns.homes.update(dict.fromkeys(slots, fold.sequence))
    columns.updates.update(updates)
    fold.live_bytes += live
    fold.homes.note(len(slots), end + 1)
    return True


def _begin(fold: QueueFold, payload: bytes, slots: Sequence[int]) -> None:
    fold.begin(int.from_bytes(payload[1:_AT], "big"))
    last = max(slots)
    if last >= len(fold.columns):
        fold.columns.grow(max(last + 1, last * 9 // 8))


def replay_claim(fold: QueueFold, rows: Sequence[SlotId], until: int, group: str, worker: str) -> None:
    """Rows are claimed, where no row is held."""
    columns, claims = fold.columns, fold.claims
    assert isinstance(claims, ReplayedClaims)
    states, ids, most = columns.states, columns.ids, len(columns)
    slots = [slot for slot, id in rows if slot < most and ids[slot] == id and states[slot] != FREE]
    for slot in slots:
        states[slot] = PROCESSING
    claims.add_all(slots, fold.sequence, fold.now, until, group, worker)


def replay_done(fold: QueueFold, slots: Sequence[int]) -> None:
    """Processed rows are gone, where no row is held."""
    columns, bodies, by_slot = fold.columns, fold.columns.bodies, fold.claims.by_slot
    if any(bodies[slot][FLAGS] > BINARY or fold.home(slot) == fold.sequence for slot in slots):
        for slot in slots:
            fold.done(slot)
        return
    for slot in slots:
        del by_slot[slot]
    leave_homes(fold, slots)
    fold.live_bytes -= sum([len(bodies[slot]) for slot in slots])
    columns.give_back_all(slots)

"""Replays what most of a log is, in few steps for each row: new rows and carried ones that nothing is peculiar of, claims, and rows done.

What is out of the ordinary is left to the general way, which does the same in more steps.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import numpy as np

from headwater.queue.body import BINARY, BODY_SIZE, FLAGS
from headwater.queue.bulk import leave_homes
from headwater.queue.columns import FREE, PROCESSING, RUN
from headwater.queue.fold import QueueFold
from headwater.queue.records import CARRY, DONE, FORMAT, HEADER_SIZE, INSERT, MOST_ROWS, SlotId
from headwater.queue.replayed import ReplayedClaims

_AT = HEADER_SIZE - 1  # where the first change begins: the region's byte is not part of a payload
_BODY = struct.Struct(">BIB3xQ8xQHI")  # of a body: kind, slot, flags, insertion, expiration and the two lengths
_ROW, _ROWS_AT = struct.Struct(">IQ"), _AT + 3  # the rows of a first change that has nothing else: behind its kind, and how many they are
_LENGTHS, _LENGTHS_AT = struct.Struct(">HI"), BODY_SIZE - 6  # of the key and of the data, the last of a body before them
_HEAD = np.dtype(
    {
        "names": ["kind", "slot", "flags", "insertion", "expiration"],
        "formats": ["u1", ">u4", "u1", ">u8", ">u8"],
        "offsets": [0, 1, 5, 9, 25],
    }
)
_STATE = np.dtype([("id", ">i8"), ("update", ">u8"), ("state", "u1"), ("attempts", ">u2"), ("timeouts", "u1"), ("failures", ">u2")])


def replay_rows(fold: QueueFold, sequence: int, payload: bytes, done: frozenset[int] = frozenset()) -> bool:
    """Apply a record of nothing but plain rows: all of them inserted, or all carried. False: it is another one; nothing has changed.

    `done`: ids of rows that are known to be gone by a later record.
    """
    if len(payload) < _AT + _BODY.size or payload[0] != FORMAT or fold.sequence + 1 != sequence:
        return False
    if sequence * MOST_ROWS in done and payload[_AT] == INSERT and _pass_over(fold, payload, done):
        return True
    apply = {INSERT: _insert, CARRY: _carry}.get(payload[_AT])
    return apply is not None and apply(fold, payload)


def done_ids(payloads: Iterable[bytes]) -> frozenset[int]:
    """The ids of rows that these records tell first to be done: a row of a queue that keeps up is done soon after it was put."""
    ids = set[int]()
    for payload in payloads:
        if len(payload) > _ROWS_AT and payload[_AT] == DONE:
            end = _ROWS_AT + _ROW.size * (payload[_ROWS_AT - 2] << 8 | payload[_ROWS_AT - 1])
            ids.update([id for _, id in _ROW.iter_unpack(payload[_ROWS_AT:end])] if end <= len(payload) else ())
    return frozenset(ids)


def _pass_over(fold: QueueFold, payload: bytes, done: frozenset[int]) -> bool:
    """A record whose rows are all done later: nobody will ever see them, and a change of a row that is not known does nothing."""
    at, end, rows = _AT, len(payload), 0
    while at + _BODY.size <= end:
        kind, _, flags, _, expiration, key, data = _BODY.unpack_from(payload, at)
        if kind != INSERT or flags > BINARY or expiration:
            return False
        at += _BODY.size + key + data
        rows += 1
    first = (fold.sequence + 1) * MOST_ROWS
    if at != end or not done.issuperset(range(first, first + rows)):
        return False
    fold.begin(int.from_bytes(payload[1:_AT], "big"))
    fold.homes.note(0, end + 1)
    return True


def _insert(fold: QueueFold, payload: bytes) -> bool:
    at, end, slots, row_bodies = _AT, len(payload), list[int](), list[bytes]()
    while at < end:
        if at + _BODY.size > end:
            return False
        kind, slot, flags, _, expiration, key, data = _BODY.unpack_from(payload, at)
        stop = at + _BODY.size + key + data
        if kind != INSERT or flags > BINARY or expiration or stop > end:
            return False
        slots.append(slot)
        row_bodies.append(payload[at:stop])
        at = stop
    _begin(fold, payload, slots)
    columns = fold.columns
    states, ids, bodies, id = columns.states, columns.ids, columns.bodies, fold.sequence * MOST_ROWS
    for slot, body in zip(slots, row_bodies, strict=True):
        ids[slot] = id
        bodies[slot] = body
        states[slot] = RUN
        id += 1
    fold.live_bytes += end - _AT
    fold.homes.note(len(slots), end + 1)
    return True


def _carry(fold: QueueFold, payload: bytes) -> bool:
    """Rows that wait, have not been tried, and are not known: the records that had them are gone mostly. They come by hundreds."""
    at, end, places, row_bodies = _AT, len(payload), list[int](), list[bytes]()
    while at + BODY_SIZE <= end:
        key, data = _LENGTHS.unpack_from(payload, at + _LENGTHS_AT)
        stop = at + BODY_SIZE + key + data
        places.append(at)
        row_bodies.append(payload[at:stop])
        at = stop + _STATE.itemsize
    if at != end:
        return False
    heads = _columns(payload, places, _HEAD)
    states = _columns(payload, [place + len(body) for place, body in zip(places, row_bodies, strict=True)], _STATE)
    if np.any((heads["kind"] != CARRY) | (heads["flags"] > BINARY) | (heads["expiration"] != 0)):
        return False
    tried = states["attempts"] | states["timeouts"] | states["failures"]
    if np.any((states["state"] != RUN) | (tried != 0) | (states["id"] < 0)):  # an id below 0 is none
        return False
    slots, columns = heads["slot"].astype(np.int64), fold.columns
    if np.frombuffer(columns.states, np.uint8)[slots[slots < len(columns)]].any():
        return False
    numbers: list[int] = slots.tolist()
    _begin(fold, payload, numbers)
    np.frombuffer(columns.ids, np.int64)[slots] = states["id"]
    np.frombuffer(columns.states, np.uint8)[slots] = RUN
    bodies = columns.bodies
    for slot, body in zip(numbers, row_bodies, strict=True):
        bodies[slot] = body
    np.frombuffer(columns.use_homes(), np.int64)[slots] = fold.sequence
    updated = np.flatnonzero(states["update"] != heads["insertion"])
    if len(updated):
        columns.updates.update(zip(slots[updated].tolist(), states["update"][updated].tolist(), strict=True))
    fold.live_bytes += sum(map(len, row_bodies))
    fold.homes.note(len(row_bodies), end + 1)
    return True


def _columns(payload: bytes, places: Sequence[int], of: np.dtype) -> np.ndarray:
    """What lies at each place."""
    anywhere = np.ndarray((len(payload) - of.itemsize + 1,), of, payload, strides=(1,))
    columns: np.ndarray = anywhere[places]
    return columns


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
    gone = [bodies[slot] for slot in slots]
    if not gone or max([body[FLAGS] for body in gone]) > BINARY or _is_recent(fold, slots):
        for slot in slots:
            fold.done(slot)
        return
    for slot in slots:
        del by_slot[slot]
    leave_homes(fold, slots)
    fold.live_bytes -= sum(map(len, gone))
    columns.give_back_all(slots)


def _is_recent(fold: QueueFold, slots: Sequence[int]) -> bool:
    """Whether the record that is being made has inserted one of these rows, or written it again."""
    ids, homes = fold.columns.ids, fold.columns.homes
    return max([ids[slot] for slot in slots]) >= fold.sequence * MOST_ROWS or (
        bool(homes) and max([homes[slot] for slot in slots]) >= fold.sequence
    )

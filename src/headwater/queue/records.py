"""The bytes of a queue's records: one WAL payload for a call, whatever it changes, or for short calls of one moment. Big-endian.

    record     format u8 = 1 | now u64 | changes
    insert     1  | body, whose first byte is this kind [| extras]
    merge      2  | body | state [| extras]                                           the whole row as it is after the merge
    carry      3  | body | state [| extras]                                           a row as it is, so that older records can go
    claim      4  | lease end u64 | group length u8 | worker length u8 | count u16 | count × row | group | worker
    done       5  | count u16 | count × row
    extend     6  | lease end u64 | count u16 | count × row
    release    7  | process u64, 0: as it was | count u16 | count × row
    fail       8  | row | process u64 | error length u16 | error
    lost       9  | count u16 | count × row                                           leases that have ended
    expire     10 | count u16 | count × row
    dead       11 | row | reason u8 | error length u16 | error                        given up
    cancel     12 | count u16 | count × row
    drop       13 | count u16 | count × row                                           dead rows that are forgotten
    absorb     14 | count u16 | count × row                  follow-up rows that the next change, a merge, takes into the row of their key
    pause      15
    resume     16
    answered   17 | expires u64 | name length u16 | digest 16 bytes | count u32 | name | count × put
    next       18 | process u64 | count u16 | count × row        a run of rows with a schedule is done: they wait for the next, at this date
    follow     19 | id u64 | id u64                              those that wait for the first row wait for the second instead
    data       24 | length u32 | data            of a row of this record, whose body has their place: before all other changes
    result     21 | id u64 | expires u64 | form u8 | length u32 | value      what the worker of a done row has said of it; carried alike
    forget     22 | count u16 | count × row, of slot 0                   results that are forgotten before their date
    unique     23 | id u64 | done u64 | until u64 | key length u16 | key    a key that was done, and until when that is known; carried alike
    row        slot u32 | id u64
    state      id u64 | update u64 | state u8 | attempts u16 | timeouts u8 | failures u16
    put        id u64 | outcome u8 | process u64 | raised u8
    extras     length u32 | MessagePack map of what few rows have: lane, error, schedule and the date of its run; after, a list of the ids
               of the rows that it waits for, 0 where it is to be cancelled, and after_dead; in a merge or carry also claim and death.
               `absorbed` are the ids of follow-up rows that the row has taken up; `unique_for` is in milliseconds

Where a row with a schedule is given up, an insert of the same record has the row of its next run. Where its key was put meanwhile, a merge
gives that row the schedule.

A body is described in `headwater.queue.body`; extras follow where its flags say so. The id of an inserted row is the record's
sequence × 65 536 + its place among the record's inserts: it is not stored. States are 1 waiting, 4 held, 5 processed, 6 dead.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, starmap
from typing import Any, NamedTuple

import msgspec

from headwater.queue.body import HAS_EXTRAS, body_end
from headwater.queue.columns import NO_TRIES, Tries
from headwater.queue.values import Outcome, Reason
from headwater.wal.layout import EMPTY

FORMAT = 1
MOST_ROWS = 1 << 16
"""Rows that one record inserts at most."""

INSERT, MERGE, CARRY, CLAIM, DONE, EXTEND, RELEASE, FAIL, LOST, EXPIRE, DEAD, CANCEL, DROP, ABSORB, PAUSE, RESUME, ANSWERED = range(1, 18)
NEXT, FOLLOW = 18, 19
DATA = 24
RESULT, FORGET, UNIQUE = 21, 22, 23
NAMES: tuple[str, ...] = (
    "",
    "insert",
    "merge",
    "carry",
    "claim",
    "done",
    "extend",
    "release",
    "fail",
    "lost",
    "expire",
    "dead",
    "cancel",
    "drop",
    "absorb",
)
NAMES += ("pause", "resume", "answered", "next", "follow", "", "result", "forget", "unique")

REASONS: tuple[Reason, ...] = ("timeouts", "attempts", "given-up")
OUTCOMES: tuple[Outcome, ...] = ("inserted", "merged", "follow-up", "stale", "ignored")

_HEADER = struct.Struct(">BBQ")  # the region's version of a value with one payload, then ours
_STATE = struct.Struct(">QQBHBH")
_CLAIM = struct.Struct(">BQBBH")
_CLAIM_ONE = struct.Struct(">BQBBHIQ")
_ROWS = struct.Struct(">BH")
_ONE_ROW = struct.Struct(">BHIQ")
_DATED = struct.Struct(">BQH")
_FAIL = struct.Struct(">BIQQH")
_DEAD = struct.Struct(">BIQBH")
_ANSWERED = struct.Struct(">BQH16sI")
_RESULT = struct.Struct(">BQQBI")
_UNIQUE = struct.Struct(">BQQQH")
_FOLLOW = struct.Struct(">BQQ")
_PUT = struct.Struct(">QBQB")
PUT_SIZE = _PUT.size
"""Bytes of an answer that is kept, for each of its puts."""
ANSWER_SIZE = _ANSWERED.size
"""Bytes of it beside them and its name."""
STATE_SIZE = _STATE.size
"""Bytes of a whole row beside its body and its extras."""
_ROW = struct.Struct(">IQ")
_LENGTH = struct.Struct(">I")
_KIND_SLOT = struct.Struct(">BI")
_DATA = struct.Struct(">BI")
DATA_HEAD = _DATA.size
"""Bytes of a change that holds data, before them."""
_FLAGS = 5  # the place of a body's flags
_NONE: dict[str, Any] = {}
_MOST = 65_535
_FEW = 256  # rows
_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode

SlotId = tuple[int, int]


class Malformed(ValueError):
    """Bytes that no writer of this version has made. Its text says what is wrong with them."""


class WholeRow(NamedTuple):
    """A row whole, as records have it. That of an insert has no more than its body and extras."""

    slot: int
    body: bytes
    id: int
    update: int
    state: int
    tries: Tries
    extras: dict[str, Any]


class Change(NamedTuple):
    """One change of a decoded record. What it has beside its rows is in `values`, in the order of the page above."""

    kind: int
    rows: Sequence[SlotId]
    values: tuple[Any, ...] = ()
    row: WholeRow | None = None


encode_header = _HEADER.pack
HEADER = (EMPTY[0], FORMAT)
HEADER_SIZE = _HEADER.size
OVERHEAD = 96
"""The most bytes of an inserted row beside its key, its data and its extras."""


def encode_extras(extras: dict[str, Any]) -> bytes:
    """What follows a body whose flags have `HAS_EXTRAS`."""
    text = _encode(extras)
    return _LENGTH.pack(len(text)) + text


def has_data(payload: bytes) -> bool:
    """Whether a record holds data of rows apart from these: they come first."""
    return len(payload) >= HEADER_SIZE and payload[HEADER_SIZE - 1] == DATA


def encode_data_head(length: int) -> bytes:
    """What comes before the data of a row that stay on the log."""
    return _DATA.pack(DATA, length)


def encode_whole(kind: int, row: WholeRow) -> bytes:
    """A merge or a carry."""
    flags = row.body[_FLAGS] & ~HAS_EXTRAS | (HAS_EXTRAS if row.extras else 0)
    attempts, timeouts, failures = row.tries
    parts = (
        bytes((kind,)) + row.body[1:_FLAGS] + bytes((flags,)) + row.body[_FLAGS + 1 :],
        _STATE.pack(row.id, row.update, row.state, attempts, timeouts, failures),
        encode_extras(row.extras) if row.extras else b"",
    )
    return b"".join(parts)


def encode_rows(kind: int, rows: Sequence[SlotId]) -> bytes:
    """A change that has nothing but rows; as several where they are many."""
    if len(rows) == 1:
        return _ONE_ROW.pack(kind, 1, *rows[0])
    return b"".join(_ROWS.pack(kind, len(some)) + _joined(some) for some in _slices(rows))


def encode_dated(kind: int, date: int, rows: Sequence[SlotId]) -> bytes:
    """An extend, a release or a next run."""
    return b"".join(_DATED.pack(kind, date, len(some)) + _joined(some) for some in _slices(rows))


def encode_claim(lease_until: int, group: bytes, worker: bytes, rows: Sequence[SlotId]) -> bytes:
    if len(rows) == 1:
        return _CLAIM_ONE.pack(CLAIM, lease_until, len(group), len(worker), 1, *rows[0]) + group + worker
    return b"".join(
        _CLAIM.pack(CLAIM, lease_until, len(group), len(worker), len(some)) + _joined(some) + group + worker for some in _slices(rows)
    )


def encode_slots(kind: int, slots: Sequence[int], ids: Sequence[int]) -> bytes:
    """`encode_rows` of rows whose slots and ids stand apart: 65 535 at most."""
    return _ROWS.pack(kind, len(slots)) + _paired(slots, ids)


def encode_claim_slots(lease_until: int, group: bytes, worker: bytes, slots: Sequence[int], ids: Sequence[int]) -> bytes:
    """`encode_claim`, likewise."""
    return b"".join((_CLAIM.pack(CLAIM, lease_until, len(group), len(worker), len(slots)), _paired(slots, ids), group, worker))


def encode_fail(slot: int, id: int, process: int, error: bytes) -> bytes:
    return _FAIL.pack(FAIL, slot, id, process, len(error)) + error


def encode_dead(slot: int, id: int, reason: int, error: bytes) -> bytes:
    return _DEAD.pack(DEAD, slot, id, reason, len(error)) + error


def encode_follow(old: int, new: int) -> bytes:
    return _FOLLOW.pack(FOLLOW, old, new)


def encode_answered(expires: int, name: bytes, digest: bytes, puts: Iterable[tuple[int, int, int, int]]) -> bytes:
    packed = [_PUT.pack(*put) for put in puts]
    return _ANSWERED.pack(ANSWERED, expires, len(name), digest, len(packed)) + name + b"".join(packed)


def encode_result(id: int, expires: int, form: int, value: bytes) -> bytes:
    return _RESULT.pack(RESULT, id, expires, form, len(value)) + value


def encode_unique(key: bytes, id: int, done: int, until: int) -> bytes:
    return _UNIQUE.pack(UNIQUE, id, done, until, len(key)) + key


def _joined(rows: Sequence[SlotId]) -> bytes:
    if len(rows) <= _FEW:
        return _rows_of(len(rows)).pack(*chain.from_iterable(rows))
    return b"".join(starmap(_ROW.pack, rows))


def _paired(slots: Sequence[int], ids: Sequence[int]) -> bytes:
    if len(slots) == 1:
        return _ROW.pack(slots[0], ids[0])
    numbers = [0] * (2 * len(slots))
    numbers[::2], numbers[1::2] = slots, ids
    if len(slots) <= _FEW:
        return _rows_of(len(slots)).pack(*numbers)
    parts = [numbers[at : at + 2 * _FEW] for at in range(0, len(numbers), 2 * _FEW)]
    return b"".join([_rows_of(len(part) // 2).pack(*part) for part in parts])


@lru_cache(maxsize=_FEW)
def _rows_of(count: int) -> struct.Struct:
    """So many rows in one step."""
    return struct.Struct(">" + "IQ" * count)


def _slices(rows: Sequence[SlotId]) -> Iterable[Sequence[SlotId]]:
    return (rows,) if len(rows) <= _MOST else (rows[at : at + _MOST] for at in range(0, len(rows), _MOST))


# -- decoding -------------------------------------------------------------------------------------------------------


def decode_record(payload: bytes) -> tuple[int, list[Change]]:
    """A record's time and its changes, in order. Errors: `Malformed`."""
    try:
        return _decoded(payload)
    except (struct.error, IndexError, msgspec.MsgspecError, UnicodeError, RecursionError, TypeError) as error:
        raise Malformed(f"its changes end within one of them, or are none: {error}") from error


def _decoded(payload: bytes) -> tuple[int, list[Change]]:
    form, now = struct.unpack_from(">BQ", payload)
    if form != FORMAT:
        raise Malformed(f"it has format {form}; this headwater knows format {FORMAT}")
    changes, at, end = [], 9, len(payload)
    while at < end:
        kind = payload[at]
        decode = _DECODERS[kind] if 0 < kind < len(_DECODERS) else _FAR_DECODERS.get(kind)
        if decode is None:
            raise Malformed(f"it has a change of kind {kind}")
        change, at = decode(payload, at)
        changes.append(change)
    if at != end:
        raise Malformed(f"its last change ends at byte {at}, and it ends at byte {end}")
    return now, changes


def _row(payload: bytes, at: int) -> tuple[Change, int]:
    kind, slot = _KIND_SLOT.unpack_from(payload, at)
    end = body_end(payload, at)
    if end > len(payload):
        raise Malformed(f"a row ends at byte {end}, and the record at byte {len(payload)}")
    body, extras = payload[at:end], _NONE
    id = update = state = 0
    tries = NO_TRIES
    if kind != INSERT:
        id, update, state, *counted = _STATE.unpack_from(payload, end)
        tries, end = Tries(*counted), end + _STATE.size
    if body[_FLAGS] & HAS_EXTRAS:
        (length,) = _LENGTH.unpack_from(payload, end)
        extras, end = _decode(payload[end + 4 : end + 4 + length]), end + 4 + length
        if type(extras) is not dict:
            raise Malformed("the extras of a row are no map")
    return Change(kind, ((slot, id),), (), WholeRow(slot, body, id, update, state, tries, extras)), end


def _pairs(payload: bytes, at: int, count: int) -> tuple[list[SlotId], int]:
    end = at + count * _ROW.size
    if end > len(payload):
        raise Malformed(f"{count} rows end at byte {end}, and the record at byte {len(payload)}")
    return list(_ROW.iter_unpack(payload[at:end])), end


def _rows(payload: bytes, at: int) -> tuple[Change, int]:
    kind, count = _ROWS.unpack_from(payload, at)
    rows, end = _pairs(payload, at + _ROWS.size, count)
    return Change(kind, rows), end


def _dated(payload: bytes, at: int) -> tuple[Change, int]:
    kind, date, count = _DATED.unpack_from(payload, at)
    rows, end = _pairs(payload, at + _DATED.size, count)
    return Change(kind, rows, (date,)), end


def _claim(payload: bytes, at: int) -> tuple[Change, int]:
    kind, until, group_length, worker_length, count = _CLAIM.unpack_from(payload, at)
    rows, at = _pairs(payload, at + _CLAIM.size, count)
    middle, end = at + group_length, at + group_length + worker_length
    return Change(kind, rows, (until, payload[at:middle].decode(), payload[middle:end].decode())), end


def _fail(payload: bytes, at: int) -> tuple[Change, int]:
    kind, slot, id, process, length = _FAIL.unpack_from(payload, at)
    end = at + _FAIL.size + length
    return Change(kind, ((slot, id),), (process, payload[at + _FAIL.size : end].decode())), end


def _dead(payload: bytes, at: int) -> tuple[Change, int]:
    kind, slot, id, reason, length = _DEAD.unpack_from(payload, at)
    end = at + _DEAD.size + length
    return Change(kind, ((slot, id),), (reason, payload[at + _DEAD.size : end].decode())), end


def _bare(payload: bytes, at: int) -> tuple[Change, int]:
    return Change(payload[at], ()), at + 1


def _data(payload: bytes, at: int) -> tuple[Change, int]:
    kind, length = _DATA.unpack_from(payload, at)
    return Change(kind, ()), at + DATA_HEAD + length


def _follow(payload: bytes, at: int) -> tuple[Change, int]:
    kind, old, new = _FOLLOW.unpack_from(payload, at)
    return Change(kind, (), (old, new)), at + _FOLLOW.size


def _answered(payload: bytes, at: int) -> tuple[Change, int]:
    kind, expires, length, digest, count = _ANSWERED.unpack_from(payload, at)
    at += _ANSWERED.size
    end = at + length + count * _PUT.size
    puts = list(_PUT.iter_unpack(payload[at + length : end]))
    return Change(kind, (), (expires, payload[at : at + length].decode(), digest, puts)), end


def _result(payload: bytes, at: int) -> tuple[Change, int]:
    kind, id, expires, form, length = _RESULT.unpack_from(payload, at)
    at += _RESULT.size
    return Change(kind, (), (id, expires, form, payload[at : at + length])), at + length


def _unique(payload: bytes, at: int) -> tuple[Change, int]:
    kind, id, done, until, length = _UNIQUE.unpack_from(payload, at)
    at += _UNIQUE.size
    return Change(kind, (), (payload[at : at + length], id, done, until)), at + length


def _unknown(payload: bytes, at: int) -> tuple[Change, int]:
    raise Malformed(f"it has a change of kind {payload[at]}")


_DECODERS = (
    *(_bare, _row, _row, _row, _claim, _rows, _dated, _dated, _fail, _rows, _rows, _dead, _rows, _rows, _rows, _bare, _bare),
    *(_answered, _dated, _follow, _unknown, _result, _rows, _unique),
)
_FAR_DECODERS = {DATA: _data}

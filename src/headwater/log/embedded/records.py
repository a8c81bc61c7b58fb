"""Many records as objects: their fields are taken by numpy, a column at a time, and the objects made of the columns."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from itertools import repeat

import numpy as np

from headwater.log.embedded.fields import Column, gather, heads
from headwater.log.layout import HEADERS, NO_VALUE, NULL, TRAILER, decode
from headwater.log.record import Record

_FEW = 32  # up to this many, one by one is quicker
_SHORT = 1024  # bytes up to which pieces of one length are gathered
_COPIED = 4 << 20  # bytes up to which they are copied first: pieces of bytes are cut quicker than pieces of a map


def decode_records(data: mmap.mmap, size: int, starts: Column, *, room: int, head: Column | None = None) -> tuple[list[Record], int]:
    """The records that begin at `starts`, as many as have keys and values of `room` bytes in all; and how many bytes those are.

    The bytes must have been checked. `head`: the records' fields, where they have been gathered already.
    """
    if len(starts) <= _FEW:
        return _one_by_one(data, starts, room)
    head = heads(data, size, starts) if head is None else head
    mode, keys = head["mode"].copy(), head["key"].astype(np.int64)
    if (mode & (NO_VALUE | HEADERS)).any() or int(keys.max()) == NULL:
        return _one_by_one(data, starts, room)
    payload = head["message"].astype(np.int64) - 8 - (mode >> 7) * np.int64(TRAILER.size)
    sizes = np.cumsum(payload)
    count = int(np.searchsorted(sizes, room, "right"))
    if not count:
        return [], 0
    head, mode, keys = head[:count], mode[:count], keys[:count]
    keys_at = starts[:count] + 25
    modes: Iterable[int] = repeat(0)
    ops: Iterable[int] = repeat(0)
    if (mode & 0x1F).any():
        modes, ops = (mode & 3).tolist(), (mode >> 2 & 7).tolist()
    records = map(
        Record,
        _pieces(data, size, keys_at, keys),
        _pieces(data, size, keys_at + keys + 4, payload[:count] - keys),
        repeat(()),
        head["timestamp"].astype(np.int64).tolist(),
        modes,
        ops,
        head["offset"].astype(np.int64).tolist(),
    )
    return list(records), int(sizes[count - 1])


def _pieces(data: mmap.mmap, size: int, at: Column, length: Column) -> list[bytes]:
    """The pieces of `data` at the given places, each with its length."""
    width = int(length[0])
    if 0 < width <= _SHORT and (length == width).all():
        pieces: list[bytes] = gather(data, size, f"V{width}", at).tolist()
        return pieces
    begin, end = int(at[0]), int(at[-1] + length[-1])
    raw: bytes | mmap.mmap = data
    if end - begin <= _COPIED:
        raw, at = data[begin:end], at - begin
    return [raw[a:b] for a, b in zip(at.tolist(), (at + length).tolist(), strict=True)]


def _one_by_one(data: mmap.mmap, starts: Column, room: int) -> tuple[list[Record], int]:
    records: list[Record] = []
    size = 0
    for at in starts.tolist():
        record = decode(data, at)
        larger = size + len(record.key or b"") + len(record.value or b"")
        if larger > room:
            break
        records.append(record)
        size = larger
    return records, size

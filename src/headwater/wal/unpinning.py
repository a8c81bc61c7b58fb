"""Chooses the tables that a clean moves, so that a log shrinks although idle tables pin it, and none is copied for ever."""

from __future__ import annotations

import numpy as np

from headwater.log import Log
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_topics import RegionTopics
from headwater.wal.sizes import mean_sizes, measured
from headwater.wal.why import pins_of

_AT_ONCE = 500  # records that are read at once


def tables_to_move(log: Log, topics: RegionTopics, meta: RegionMeta, limit: int) -> list[int]:
    """The tables that pin the log, up to the first one with which moving them frees more than `limit` bytes, and more than it copies.

    Several, because idle tables that were written side by side pin little each and everything together. Empty where no number of them
    frees so much. `meta`: a copy. Blocking: it reads about as much as could be freed and copied, and nothing where that is little.
    """
    pins = pins_of(meta)
    if not pins.tables:
        return []
    at = pins.tables[0].offset
    live = np.unique(np.concatenate([meta.tables[pin.table].column() for pin in pins.tables]))
    dead = (pins.watermark - at - len(live)) * mean_sizes(log, topics.data).record  # about so many bytes could go
    if dead <= limit:
        return []
    size = copied = 0
    ends = [*(pin.offset for pin in pins.tables[1:]), pins.watermark]
    for place, (pin, end) in enumerate(zip(pins.tables, ends, strict=True)):
        size += measured(log, topics.data, at, end).bytes
        copied += _bytes(log, topics.data, np.unique(meta.tables[pin.table].column()).tolist())
        at = end
        if size - copied > max(limit, copied):
            return [one.table for one in pins.tables[: place + 1]]
        if copied > dead:  # whatever follows, too much would be copied
            return []
    return []


def _bytes(log: Log, topic: str, offsets: list[int]) -> int:
    """How much the records at these offsets take; those that a clean has removed, nothing."""
    size = 0
    for begin in range(0, len(offsets), _AT_ONCE):
        found = log.read_at(topic, 0, offsets[begin : begin + _AT_ONCE])
        size += sum(len(record.key or b"") + len(record.value or b"") for record in found if record is not None)
    return size

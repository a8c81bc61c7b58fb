"""Says how much of a log the tables hold that pin it, and chooses those that a clean moves: so a log shrinks although idle tables pin it,
and none is copied for ever."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headwater.log import Log
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_topics import RegionTopics
from headwater.wal.sizes import mean_sizes, measured
from headwater.wal.why import pins_of

_AT_ONCE = 500  # records that are read at once


class HeldLog(NamedTuple):
    """The table that pins a log, and about how many bytes are held that no table needs: by it, and by those that pin it behind it."""

    table: int
    bytes: int


def held_log(log: Log, topics: RegionTopics, meta: RegionMeta) -> HeldLog | None:
    """None where no table needs anything. `meta`: a copy. Blocking: it reads some records."""
    pins = pins_of(meta)
    if not pins.tables:
        return None
    live = np.unique(np.concatenate([meta.tables[pin.table].column() for pin in pins.tables]))
    unneeded = pins.watermark - pins.tables[0].offset - len(live)
    return HeldLog(pins.tables[0].table, round(unneeded * mean_sizes(log, topics.data).record) if unneeded else 0)


def tables_to_move(log: Log, topics: RegionTopics, meta: RegionMeta, limit: int) -> list[int]:
    """The tables that pin the log, up to the first one with which moving them frees more than `limit` bytes, and more than it copies.

    Several, because idle tables that were written side by side pin little each and everything together. Empty where no number of them
    frees so much. `meta`: a copy. Blocking: it reads about as much as could be freed and copied, and nothing where that is little.
    """
    held = held_log(log, topics, meta)
    if held is None or held.bytes <= limit:
        return []
    pins = pins_of(meta)
    at, size, copied = pins.tables[0].offset, 0, 0
    ends = [*(pin.offset for pin in pins.tables[1:]), pins.watermark]
    for place, (pin, end) in enumerate(zip(pins.tables, ends, strict=True)):
        size += measured(log, topics.data, at, end).bytes
        copied += _bytes(log, topics.data, np.unique(meta.tables[pin.table].column()).tolist())
        at = end
        if size - copied > max(limit, copied):
            return [table_pin.table for table_pin in pins.tables[: place + 1]]
        if copied > held.bytes:  # whatever follows, too much would be copied
            return []
    return []


def _bytes(log: Log, topic: str, offsets: list[int]) -> int:
    """How much the records at these offsets take; those that a clean has removed, nothing."""
    size = 0
    for begin in range(0, len(offsets), _AT_ONCE):
        records = log.read_at(topic, 0, offsets[begin : begin + _AT_ONCE])
        size += sum(len(record.key or b"") + len(record.value or b"") for record in records if record is not None)
    return size

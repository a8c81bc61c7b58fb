"""Reads all live payloads of a table from its region's log, in large batches: for owners that fold a table when they open it.

`EntryReader` looks up one record after the other, because the payloads of other tables may lie between. Where a table's records lie in the
order of its sequences, and are most of the log, it is many times quicker to scan the log and to pick them out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from headwater.core.errors import Damaged
from headwater.log import Log
from headwater.wal.entries import EntryPlaces, PayloadReader, PlacedEntry
from headwater.wal.layout import EMPTY
from headwater.wal.region_topics import RegionTopics
from headwater.wal.sizes import column_length

_SPARSE = 16  # where a table has fewer than one of so many records, its records are looked up
_PART, _PART_BYTES = 500, 8 << 20  # of payloads that are looked up at once
_FEW, _RECORDS = 16, 512  # of a part: before their size is known, and of small ones
_PLAIN = EMPTY[0]


def scan_payloads(log: Log, topics: RegionTopics, places: EntryPlaces) -> Iterator[tuple[int, list[bytes]]]:
    """The payloads at these places, which are all those of a table from a sequence on: the first sequence of each part, and its payloads.

    Blocking. Errors: `OffsetGone` where a clean has removed some meanwhile; `Damaged`.
    """
    offsets = places.offsets
    if not len(offsets):
        return
    if np.any(np.diff(offsets) <= 0) or offsets[-1] - offsets[0] > _SPARSE * len(offsets):
        yield from _looked_up(log, topics, places)
        return
    at = 0
    for batch in _scanned(log, topics.data, int(offsets[0]), int(offsets[-1]) + 1):
        batch_offsets = batch.column("offset").to_numpy()
        end = int(np.searchsorted(offsets, batch_offsets[-1], side="right"))
        indexes = np.searchsorted(batch_offsets, offsets[at:end])
        if indexes.size and not np.array_equal(batch_offsets[np.minimum(indexes, len(batch_offsets) - 1)], offsets[at:end]):
            raise Damaged(
                f"Offsets between {batch_offsets[0]} and {batch_offsets[-1]} of {topics.data} are missing.",
                hint=f"See what is there with `headwater log check {topics.data}`.",
            )
        column = batch.column("value")
        if (
            indexes.size and indexes[-1] - indexes[0] == indexes.size - 1
        ):  # as they increase, they are all of these: nothing needs to be copied
            values = column.slice(indexes[0], indexes.size).to_pylist()
        else:
            values = column.cast(pa.large_binary()).take(pa.array(indexes)).to_pylist()
        if not all(value and value[0] == _PLAIN for value in values):  # records of several payloads
            yield from _looked_up(log, topics, places.part(at, end))
        elif values:
            yield int(places.sequences[at]), [value[1:] for value in values]
        at = end
    if at < len(offsets):  # as the look-up says it
        yield from _looked_up(log, topics, places.part(at, len(offsets)))


def _scanned(log: Log, topic: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """The records of a range, in batches of few where they are large."""
    count, following = _FEW, _FEW
    while start < end:
        for batch in log.scan(topic, 0, start, end, batch=count):
            yield batch
            start = batch.column("offset")[-1].as_py() + 1
            size = column_length(batch.column("value"))
            if size > _PART_BYTES:
                following = max(1, count // 4)
            elif size < _PART_BYTES // 4 and len(batch) == count:
                following = min(_RECORDS, 4 * count)
            if following != count:
                count = following
                break
        else:
            return


def look_up(log: Log, topics: RegionTopics, places: EntryPlaces) -> Iterator[tuple[int, bytes]]:
    """The payloads at some places, each with its sequence. Blocking. Errors: as for `scan_payloads`."""
    for part in _parts(log, topics, places):
        for placed_entry in part:
            yield placed_entry.entry.sequence, placed_entry.entry.payload


def _looked_up(log: Log, topics: RegionTopics, places: EntryPlaces) -> Iterator[tuple[int, list[bytes]]]:
    for part in _parts(log, topics, places):
        yield part[0].entry.sequence, [placed_entry.entry.payload for placed_entry in part]


def _parts(log: Log, topics: RegionTopics, places: EntryPlaces) -> Iterator[list[PlacedEntry]]:
    reader, at = PayloadReader(log, topics, most=_PART_BYTES), 0
    while at < len(places):
        placed = reader.read(places.part(at, min(at + _PART, len(places))))
        yield placed
        at += len(placed)

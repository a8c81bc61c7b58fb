"""Compares the map of a state, which payload lies where, with the records of the log that are there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from headwater.log import Log
from headwater.wal.entries import EntryPlaces, region_places
from headwater.wal.layout import MalformedRecord, decode_key, payload_count
from headwater.wal.recovery import Beat
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_topics import RegionTopics


def misplaced(log: Log, topics: RegionTopics, meta: RegionMeta, beat: Beat = lambda: None) -> str:
    """The first payload, in the order of the log, that is not where the state says, for people; "" where all are. Blocking.

    A log that no longer begins at 0 cannot tell the whole state. It tells of each live payload whether its record holds it. `beat`: is
    called between two batches, and may raise. Errors: `OffsetGone`, `Damaged`.
    """
    places = region_places(meta)
    if not len(places):
        return ""
    order = np.argsort(places.offsets, kind="stable")
    tables, sequences, offsets = places.tables[order], places.sequences[order], places.offsets[order]
    at, until = 0, min(int(offsets[-1]) + 1, log.bounds(topics.data, 0).end)
    for batch in log.scan(topics.data, 0, min(int(offsets[0]), until), until):
        beat()
        end = int(np.searchsorted(offsets, int(batch.column("offset")[len(batch) - 1].as_py()), side="right"))
        problem = _of_batch(batch, topics.region, EntryPlaces(tables[at:end], sequences[at:end], offsets[at:end]))
        if problem:
            return problem
        at = end
    return "" if at == len(offsets) else _said(int(tables[at]), int(sequences[at]), int(offsets[at]), "where there is no record")


def _of_batch(batch: pa.RecordBatch, region: int, places: EntryPlaces) -> str:
    batch_offsets, keys, values = batch.column("offset").to_numpy(), batch.column("key"), batch.column("value")
    for begin, end in _records(places.offsets):
        table, sequence, offset = int(places.tables[begin]), int(places.sequences[begin]), int(places.offsets[begin])
        row = int(np.searchsorted(batch_offsets, offset))
        if row >= len(batch_offsets) or batch_offsets[row] != offset:
            return _said(table, sequence, offset, "where there is no record")
        try:
            _, of, held, first = decode_key(keys[row].as_py())
            count = payload_count(values[row].as_py())
        except MalformedRecord as error:
            return _said(table, sequence, offset, f"whose record cannot be read: {error}")
        numbers = places.sequences[begin:end]
        fits = (places.tables[begin:end] == held) & (numbers >= first) & (numbers < np.uint64(first + count))
        if of != region or not fits.all():
            wrong = begin + int(np.argmin(fits))
            holds = f"which holds {first} to {first + count - 1} of table {held}" + (f" of region {of}" if of != region else "")
            return _said(int(places.tables[wrong]), int(places.sequences[wrong]), offset, holds)
    return ""


def _records(offsets: np.ndarray) -> Iterator[tuple[int, int]]:
    """The ranges of places that lie in one record."""
    cuts = [0, *(np.flatnonzero(np.diff(offsets)) + 1).tolist(), len(offsets)]
    yield from pairwise(cuts) if len(offsets) else ()


def _said(table: int, sequence: int, offset: int, what: str) -> str:
    return f"table {table} has its payload {sequence} at offset {offset} as stored, {what}"

"""Applies the records of a region's data topic to its state: batches of the log as columns, where many entries come in a row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.core.errors import Damaged
from headwater.log.epochs import Epochs, Kind
from headwater.log.layout import decode_headers
from headwater.wal.layout import KEY_LENGTH, MalformedRecord, RecordKind, decode_key, payload_count
from headwater.wal.region_meta import RegionMeta
from headwater.wal.remainder import Remainder
from headwater.wal.table_meta import TableMeta

_FEW = 64  # records that are applied one by one: columns of so few cost more
_ENTRY = RecordKind.ENTRY.value


class RegionFold:
    """Applies records to a state, in the order of their offsets. `topic` is what errors name.

    The state is a region's, or the remainder of one whose beginning is lost.
    """

    def __init__(self, meta: RegionMeta | Remainder, topic: str, region: int) -> None:
        self.meta, self._topic, self._region = meta, topic, region
        self._epochs = Epochs(meta.epoch)
        self.records = 0  # how many were read

    def apply(self, batch: pa.RecordBatch) -> None:
        """Apply a batch of `Log.scan`. Errors: `Damaged`, which names the record; those before it are applied."""
        offsets = batch.column("offset").to_numpy()
        counted = self._counted(batch, offsets)
        for begin, end in _runs(counted):
            if counted[begin]:
                self._apply_counted(batch.slice(begin, end - begin), offsets[begin:end])
            else:
                self.meta.pass_over(int(offsets[end - 1]))
        self.meta.epoch = self._epochs.epoch
        self.records += len(batch)

    def _counted(self, batch: pa.RecordBatch, offsets: np.ndarray) -> np.ndarray:
        """Which records count: not claims, and not those of writers that had lost the region."""
        headers = batch.column("headers")
        if headers.null_count == len(batch) and self._epochs.epoch == 0:
            return np.ones(len(batch), bool)
        blocks = headers.cast(pa.binary()).dictionary_encode()
        empty = np.asarray(batch.column("key").is_null()) & np.asarray(batch.column("value").is_null())
        mask = np.zeros(len(batch), bool)
        # Records of one writer have the same headers: of a run of them, the first decides. Whether a mark is believed depends on its
        # offset, so that those of a foreign run are looked at one by one.
        for begin, end in _runs(blocks.indices.fill_null(-1).to_numpy(zero_copy_only=False) * 2 + empty):
            block, none = blocks[begin].as_py(), bool(empty[begin])
            marked = decode_headers(block) if block else ()
            kind = self._epochs.kind(none, marked, int(offsets[begin]))
            mask[begin:end] = kind is Kind.COUNTED
            if kind is Kind.FOREIGN and marked:
                for place in range(begin + 1, end):
                    mask[place] = self._epochs.kind(none, marked, int(offsets[place])) is Kind.COUNTED
        return mask

    def _apply_counted(self, batch: pa.RecordBatch, offsets: np.ndarray) -> None:
        keys = batch.column("key").cast(pa.binary())
        columns = _key_columns(keys) if len(batch) >= _FEW else None
        if columns is None or not isinstance(self.meta, RegionMeta):
            self._one_by_one(batch, keys)
            return
        kinds, regions, tables, sequences, versions = columns
        entries = (kinds == _ENTRY) & (regions == self._region) & (versions == 0)
        for begin, end in _runs(entries):
            part = batch.slice(begin, end - begin)
            counts = _counts(part.column("value")) if entries[begin] and end - begin >= _FEW else None
            if counts is None or not _columns(self.meta, tables[begin:end], sequences[begin:end], counts, offsets[begin:end]):
                self._one_by_one(part, keys.slice(begin, end - begin))

    def _one_by_one(self, batch: pa.RecordBatch, keys: pa.Array) -> None:
        rows = zip(batch.column("offset").to_pylist(), keys.to_pylist(), batch.column("value"), strict=True)
        for offset, key, value in rows:
            try:
                kind, region, table, sequence = decode_key(key)
                if region != self._region:
                    raise MalformedRecord(f"it is of region {region}")
                self.meta.apply(kind, table, sequence, payload_count(value.as_py()), offset)
            except MalformedRecord as error:
                raise Damaged(
                    f"Record {offset} of {self._topic} does not fit into region {self._region}: {error}.",
                    hint=f"See it with `headwater log show {self._topic} {offset}`.",
                ) from error


def _columns(meta: RegionMeta, tables: np.ndarray, sequences: np.ndarray, counts: np.ndarray, offsets: np.ndarray) -> bool:
    """Apply entries table by table. False, and nothing was done, where one of them does not fit."""
    order = np.argsort(tables, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(tables[order])) + 1)
    numbers = [int(tables[group[0]]) for group in groups]
    for number, group in zip(numbers, groups, strict=True):  # all are checked before the first is applied
        ends = sequences[group] + counts[group]
        table = meta.tables.get(number)
        if int(sequences[group[0]]) != (1 if table is None else table.next) or np.any(sequences[group][1:] != ends[:-1]):
            return False
    for number, group in zip(numbers, groups, strict=True):
        meta.tables.setdefault(number, TableMeta()).write_many(sequences[group], counts[group], offsets[group])
    meta.watermark = int(offsets[-1]) + 1
    return True


def _runs(column: np.ndarray) -> Iterator[tuple[int, int]]:
    """The ranges of equal neighbours."""
    if len(column):
        cuts = [0, *(np.flatnonzero(np.diff(column)) + 1).tolist(), len(column)]
        yield from pairwise(cuts)


def _key_columns(keys: pa.Array) -> tuple[np.ndarray, ...] | None:
    """Kind, region, table, sequence and version of every key; None where one has another length."""
    if keys.null_count:
        return None
    ends = np.frombuffer(keys.buffers()[1], np.int32, len(keys) + 1, keys.offset * 4)
    if np.any(np.diff(ends) != KEY_LENGTH):
        return None
    rows = np.frombuffer(keys.buffers()[2], np.uint8, len(keys) * KEY_LENGTH, int(ends[0])).reshape(-1, KEY_LENGTH)
    numbers = [np.ascontiguousarray(rows[:, at : at + 8]).view(">u8")[:, 0].astype(np.uint64) for at in (1, 9, 17)]
    return rows[:, 0], numbers[0], numbers[1], numbers[2], rows[:, 25]


def _counts(values: pa.Array) -> np.ndarray | None:
    """How many payloads each value has; None where that cannot be seen."""
    if values.null_count or values.type != pa.binary_view():
        return None
    # A view has the length of its value and the first bytes of it, so that payloads need not be read.
    views = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * 16 : (values.offset + len(values)) * 16].reshape(-1, 16)
    lengths = np.ascontiguousarray(views[:, :4]).view(np.int32)[:, 0]
    versions = views[:, 4]
    if np.any(lengths < 1):
        return None
    counts = np.ones(len(values), np.uint64)
    for place in np.flatnonzero(versions != 0).tolist():
        value: Any = values[place].as_py()
        try:
            counts[place] = payload_count(value)
        except MalformedRecord:
            return None
    return counts

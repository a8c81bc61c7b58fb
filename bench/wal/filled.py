"""A region with many tables, most of whose entries are flushed: made by columns, as its writers would have left it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.place import Place, Unsynced, sync_file
from bench.sizes import Sizes
from headwater.cluster.local import LocalOwnership
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.wal.layout import EMPTY, KEY_LENGTH, RecordKind
from headwater.wal.region import Region, open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import PART, region_topics

TOPICS = region_topics("wal", 7)
PAYLOAD = 100  # bytes
_AT_ONCE = 50_000  # records


@contextmanager
def filled_region(place: Place, sizes: Sizes) -> Iterator[Path]:
    """A folder with a closed region. Writers of all tables took turns at random; each table has flushed all but its newest entries."""
    each = sizes.entries // sizes.tables
    with place.sub("region") as folder:
        with EmbeddedLog(folder, files=Unsynced()) as log:
            create_region(log, TOPICS)
            turns = np.random.default_rng(7).permutation(np.repeat(np.arange(sizes.tables), each))
            sequences = np.empty(len(turns), np.int64)
            sequences[np.argsort(turns, kind="stable")] = np.tile(np.arange(1, each + 1), sizes.tables)
            for at in range(0, len(turns), _AT_ONCE):
                _append(log, RecordKind.ENTRY, turns[at : at + _AT_ONCE], sequences[at : at + _AT_ONCE], PAYLOAD)
            flushed = each - sizes.live // sizes.tables
            _append(log, RecordKind.MARK, np.arange(sizes.tables), np.full(sizes.tables, flushed + 1), 0)
            asyncio.run(_with_snapshot(log))
        for path in folder.rglob("*.log"):  # what the disk still has to write would disturb the first rounds
            sync_file(path)
        yield folder


def _append(log: Log, kind: RecordKind, tables: np.ndarray, sequences: np.ndarray, payload: int) -> None:
    keys = np.zeros((len(tables), KEY_LENGTH), np.uint8)
    keys[:, 0] = kind
    for at, numbers in ((1, np.full(len(tables), TOPICS.region)), (9, tables), (17, sequences)):
        keys[:, at : at + 8] = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
    values = np.zeros((len(tables), len(EMPTY) + payload), np.uint8)
    rows = pa.RecordBatch.from_arrays([_binary(keys), _binary(values)], names=["key", "value"])
    log.append_arrow(TOPICS.data, 0, rows, part=PART)


def _binary(rows: np.ndarray) -> pa.Array:
    count, width = rows.shape
    ends = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(rows)])


async def _with_snapshot(log: Log) -> None:
    async with opened_region(log):
        pass


@asynccontextmanager
async def opened_region(log: Log) -> AsyncIterator[Region]:
    """The region, open; closed afterwards with a last snapshot."""
    assert isinstance(log, EmbeddedLog)
    with LocalOwnership(log, log.data / "owners") as owners:
        region = await open_region(log, owners, TOPICS)
        try:
            yield region
        finally:
            await region.close_gracefully()

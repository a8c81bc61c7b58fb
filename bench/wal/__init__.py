"""Write-ahead log regions: writing beside the bare log and RocksDB, opening, reading, and what housekeeping costs those who write."""

from __future__ import annotations

from collections.abc import Iterator

from bench.case import Case, Skipped
from bench.place import Place
from bench.sizes import Sizes
from bench.wal.filled import filled_region
from bench.wal.latency import latency
from bench.wal.opening import opening
from bench.wal.reading import reading
from bench.wal.writing import writing


def wal(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """Writing into fresh regions; then one large region for everything else."""
    yield from writing(place, sizes)
    with filled_region(place, sizes) as folder:
        yield from opening(folder, sizes)
        yield from reading(folder, sizes)
        yield from latency(folder, sizes)

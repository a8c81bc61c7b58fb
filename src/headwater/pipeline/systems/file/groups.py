"""Documents of Parquet, row group by row group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from headwater.pipeline import values
from headwater.pipeline.adaptor import Piece


def parquet_pieces(path: Path | IO[bytes], groups: list[int], position: Any) -> Iterator[Piece]:
    """Row groups as documents. The position is a group and the rows of it that were read."""
    import pyarrow.parquet as pq

    begin, done = position or (groups[0], 0)
    with pq.ParquetFile(path) as opened:
        for group in range(begin, groups[1]):
            row = 0
            for batch in opened.iter_batches(batch_size=8192, row_groups=[group]):
                row += len(batch)
                if group == begin and row <= done:
                    continue
                documents = [values.encode(values.extended(one)) for one in batch.to_pylist()]
                yield Piece(position=[group, row], values=documents)

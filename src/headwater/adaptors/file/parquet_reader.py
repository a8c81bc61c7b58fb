"""Reading documents from Parquet, row group by row group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from headwater.adaptors.pieces import portions
from headwater.pipeline import values
from headwater.pipeline.adaptor import Piece

_ROWS = 8192
_BYTES = 4 << 20  # of documents in a piece
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def group_rows(path: Path | IO[bytes]) -> list[int]:
    """The rows of each row group."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as opened:
        return [opened.metadata.row_group(number).num_rows for number in range(opened.num_row_groups)]


def parquet_pieces(path: Path | IO[bytes], position: Any, groups: list[int] | None = None, *, most: int = _BYTES) -> Iterator[Piece]:
    """The documents of the row groups [begin, end), of all without `groups`. The position is a group and the rows of it that were read."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as opened:
        first, end = groups or (0, opened.num_row_groups)
        begin, done = position or (first, 0)
        for group in range(begin, end):
            told = opened.metadata.row_group(group)
            rows = max(1, min(_ROWS, most * told.num_rows // max(1, told.total_byte_size)))
            row = 0
            for batch in opened.iter_batches(batch_size=rows, row_groups=[group]):
                passed = max(0, min(len(batch), done - row)) if group == begin else 0
                row += passed
                # The pages of a file can be much smaller than their content.
                texts = [values.encode(values.extended(one)) for one in _rows(batch.slice(passed))]
                for documents in portions(texts, len, most):
                    row += len(documents)
                    yield Piece(position=[group, row], values=documents)


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows with full precision: Python's times end with the microsecond, so nanoseconds are read as integers."""
    exact: dict[str, Callable[[Any], Any]] = {}
    for at, field in enumerate(batch.schema):
        kind = _as_numbers(field.type)
        if kind != field.type:
            exact[field.name] = _reading(field.type)
            batch = batch.set_column(at, field.name, batch.column(at).cast(kind))
    rows: list[dict[str, Any]] = batch.to_pylist()
    for name, read in exact.items():
        for row in rows:
            row[name] = read(row[name])
    return rows


def _as_numbers(kind: pa.DataType) -> pa.DataType:
    """The type with nanoseconds as integers."""
    if getattr(kind, "unit", None) == "ns":
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(_as_numbers(one.type)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_as_numbers(kind.value_type)))
    return kind


def _reading(kind: pa.DataType) -> Callable[[Any], Any]:
    """The function from the integers of `_as_numbers` to the values of a type."""
    if pa.types.is_struct(kind):
        fields = {one.name: _reading(one.type) for one in kind}
        return lambda value: value and {name: read(value[name]) for name, read in fields.items()}
    if pa.types.is_list(kind):
        item = _reading(kind.value_type)
        return lambda value: value and [item(one) for one in value]
    if getattr(kind, "unit", None) != "ns":
        return lambda value: value
    read = _moment if pa.types.is_timestamp(kind) else _time if pa.types.is_time(kind) else _duration
    return lambda value: None if value is None else read(value)


def _moment(nanoseconds: int) -> Any:
    whole, rest = divmod(nanoseconds, 1000)
    moment = _EPOCH + timedelta(microseconds=whole)
    return {"$date": f"{moment.isoformat(timespec='microseconds')[:26]}{rest:03d}Z"} if rest else moment


def _time(nanoseconds: int) -> str:
    whole, rest = divmod(nanoseconds, 1000)
    text = (_EPOCH + timedelta(microseconds=whole)).time()
    return f"{text.isoformat(timespec='microseconds')}{rest:03d}" if rest else text.isoformat()


def _duration(nanoseconds: int) -> float | Decimal:
    return Decimal(nanoseconds).scaleb(-9) if nanoseconds % 1000 else nanoseconds / 1e9

"""Documents of Parquet, row group by row group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from headwater.pipeline import values
from headwater.pipeline.adaptor import Piece

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 8192
_BYTES = 4 << 20  # of documents in a piece
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parquet_pieces(path: Path | IO[bytes], groups: list[int], position: Any, *, most: int = _BYTES) -> Iterator[Piece]:
    """Row groups as documents. The position is a group and the rows of it that were read."""
    import pyarrow.parquet as pq

    begin, done = position or (groups[0], 0)
    with pq.ParquetFile(path) as opened:
        for group in range(begin, groups[1]):
            told = opened.metadata.row_group(group)
            rows = max(1, min(_ROWS, most * told.num_rows // max(1, told.total_byte_size)))
            row = 0
            for batch in opened.iter_batches(batch_size=rows, row_groups=[group]):
                passed = max(0, min(len(batch), done - row)) if group == begin else 0
                row += passed
                for documents in _bounded(batch.slice(passed), most):
                    row += len(documents)
                    yield Piece(position=[group, row], values=documents)


def _bounded(batch: pa.RecordBatch, most: int) -> Iterator[list[bytes]]:
    """The documents of a batch, so many at once as a piece may hold: pages can be much smaller than what is in them."""
    documents = [values.encode(values.extended(one)) for one in _rows(batch)]
    begin = size = 0
    for at, one in enumerate(documents) if sum(map(len, documents)) > most else ():
        size += len(one)
        if size >= most:
            yield documents[begin : at + 1]
            begin, size = at + 1, 0
    if begin < len(documents):
        yield documents[begin:]


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows with every digit: Python's moments and times end with the microsecond, so those that go further are taken as numbers."""
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
    """A type with what is counted in nanoseconds as integers."""
    import pyarrow as pa

    if getattr(kind, "unit", None) == "ns":
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(_as_numbers(one.type)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_as_numbers(kind.value_type)))
    return kind


def _reading(kind: pa.DataType) -> Callable[[Any], Any]:
    """What makes values of a type of what `_as_numbers` has made of it."""
    import pyarrow as pa

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

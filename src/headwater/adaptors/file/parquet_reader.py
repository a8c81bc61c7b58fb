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
from headwater.pipeline.piece_size import piece_size
from headwater.pipeline.source_adaptor import Piece

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
    most = piece_size(most)
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as opened:
        first, end = groups or (0, opened.num_row_groups)
        begin, done = position or (first, 0)
        before = sum(opened.metadata.row_group(number).num_rows for number in range(begin))  # the rows of the groups before
        for group in range(begin, end):
            metadata = opened.metadata.row_group(group)
            rows = max(1, min(_ROWS, most * metadata.num_rows // max(1, metadata.total_byte_size)))
            row = 0
            for batch in opened.iter_batches(batch_size=rows, row_groups=[group]):
                passed = max(0, min(len(batch), done - row)) if group == begin else 0
                row += passed
                documents, wrong = _rows(batch.slice(passed))
                bad = {at: f"Row {before + row + at + 1}: {why}" for at, why in wrong.items()}
                # The pages of a file can be much smaller than their content.
                texts = [values.store(values.extended(document)) for document in documents]
                count = 0
                for some in portions(texts, len, most):
                    own = {at - count: why for at, why in bad.items() if count <= at < count + len(some)}
                    count += len(some)
                    row += len(some)
                    yield Piece(position=[group, row], values=some, bad=own)
            before += metadata.num_rows


def _rows(batch: pa.RecordBatch) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """Rows with full precision: Python's times end with the microsecond, so nanoseconds are read as integers. And, by index, what is wrong
    with rows that have a value which Python has none for."""
    columns: list[list[Any]] = []
    wrong: dict[int, str] = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        kind = _as_numbers(field.type)
        cells, bad = _cells(column if kind == field.type else column.cast(kind))
        if kind != field.type:
            read = _reading(field.type)
            cells = [cell if at in bad else read(cell) for at, cell in enumerate(cells)]
        columns.append(cells)
        for at, why in bad.items():
            wrong.setdefault(at, f"the column {field.name} ({field.type}) has a value that {why}.")
    if not columns:
        return [{} for _ in range(len(batch))], {}
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)], wrong


def _cells(column: pa.Array) -> tuple[list[Any], dict[int, str]]:
    """The values of a column; and, by index, why Python has none: what is stored stands in its place."""
    try:
        return column.to_pylist(), {}
    except (OverflowError, ValueError):
        cells: list[Any] = []
        bad: dict[int, str] = {}
        for at, scalar in enumerate(column):
            try:
                cells.append(scalar.as_py())
            except UnicodeDecodeError:
                bad[at] = "is not in UTF-8"
            except (OverflowError, ValueError):
                beyond = "is too long a time" if pa.types.is_duration(column.type) else "lies outside of the years 1 to 9999"
                bad[at] = f"{beyond}; the number that is stored is kept"
            if at in bad:
                cells.append(_stored(scalar))
        return cells, bad


def _stored(value: pa.Scalar) -> Any:
    """A value with numbers for times that Python has none for, and escapes for bytes that are no text."""
    if isinstance(value, pa.StructScalar) and value.is_valid:
        return {name: _stored(field) for name, field in value.items()}
    if isinstance(value, pa.ListScalar) and value.is_valid:
        return [_stored(item) for item in value.values]
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return value.as_buffer().to_pybytes().decode("utf-8", "backslashreplace")
    except (OverflowError, ValueError):
        return value.value


def _as_numbers(kind: pa.DataType) -> pa.DataType:
    """The type with nanoseconds as integers, and moments in UTC: the last hours of the year 9999 are in 10000 elsewhere."""
    if getattr(kind, "unit", None) == "ns":
        return pa.int64()
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_numbers(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_as_numbers(kind.value_type)))
    return kind


def _reading(kind: pa.DataType) -> Callable[[Any], Any]:
    """The function from the integers of `_as_numbers` to the values of a type."""
    if pa.types.is_struct(kind):
        fields = {field.name: _reading(field.type) for field in kind}
        return lambda value: value and {name: read(value[name]) for name, read in fields.items()}
    if pa.types.is_list(kind):
        item = _reading(kind.value_type)
        return lambda value: value and [item(element) for element in value]
    if getattr(kind, "unit", None) != "ns":
        return lambda value: value
    read = _moment if pa.types.is_timestamp(kind) else _time if pa.types.is_time(kind) else _duration
    return lambda value: None if value is None else read(value)


def _moment(nanoseconds: int) -> Any:
    microseconds, rest = divmod(nanoseconds, 1000)
    moment = _EPOCH + timedelta(microseconds=microseconds)
    return {"$date": f"{moment.isoformat(timespec='microseconds')[:26]}{rest:03d}Z"} if rest else moment


def _time(nanoseconds: int) -> str:
    microseconds, rest = divmod(nanoseconds, 1000)
    text = (_EPOCH + timedelta(microseconds=microseconds)).time()
    return f"{text.isoformat(timespec='microseconds')}{rest:03d}" if rest else text.isoformat()


def _duration(nanoseconds: int) -> Decimal:
    return Decimal(nanoseconds).scaleb(-9)

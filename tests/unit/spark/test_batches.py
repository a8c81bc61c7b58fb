from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.log.arrow import SCHEMA
from headwater.log.layout import encode_headers
from headwater.spark.batches import pieces, rows
from headwater.spark.tables import TopicTable

Row = tuple[bytes | None, bytes | None]


def batch_of(values: list[Row], headers: bytes | None = None) -> pa.RecordBatch:
    count = len(values)
    columns = [
        pa.array(range(count), pa.int64()),
        pa.array([1000 + i for i in range(count)], pa.int64()),
        pa.array([key for key, _ in values], pa.binary_view()),
        pa.array([value for _, value in values], pa.binary_view()),
        pa.array([headers if i % 2 else None for i in range(count)], pa.binary_view()),
        pa.array([i % 4 for i in range(count)], pa.uint8()),
        pa.array([i % 8 for i in range(count)], pa.uint8()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def size(batch: pa.RecordBatch) -> int:
    return sum(len(value or b"") for name in ("key", "value", "headers") for value in batch.column(name).to_pylist())


@settings(deadline=None)
@given(
    values=st.lists(st.tuples(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=40)), max_size=30),
    limit=st.integers(1, 100),
    skipped=st.integers(0, 5),
)
def test_pieces_are_the_batch_cut_below_a_size(values: list[Row], limit: int, skipped: int) -> None:
    batch = batch_of(values, b"x" * 5).slice(skipped)
    cut = list(pieces(batch, limit))
    assert [row for piece in cut for row in piece.to_pylist()] == batch.to_pylist()
    for piece, following in pairwise(cut):
        assert size(piece) + size(following.slice(0, 1)) > limit, "a piece could have been larger"
    assert all(size(piece) <= limit or piece.num_rows == 1 for piece in cut)


def test_rows_have_exactly_the_types_that_were_asked_for() -> None:
    schema = pa.schema([("value", pa.binary()), ("timestamp", pa.timestamp("us", "UTC")), pa.field("op", pa.int8(), nullable=False)])
    made = rows(TopicTable("t", {}), 4, batch_of([(b"k", b"v"), (None, None)]), schema)
    assert made.schema == schema
    assert made.column("value").to_pylist() == [b"v", None]
    assert [time.timestamp() for time in made.column("timestamp").to_pylist()] == [1.0, 1.001]


def test_a_topics_rows_are_its_records() -> None:
    block = encode_headers((("a", b"1"), ("b", None)))
    made = rows(TopicTable("t", {}), 4, batch_of([(b"k", b"v"), (None, b"w" * 20)], block), TopicTable.schema)
    assert made.schema == TopicTable.schema
    first, second = made.to_pylist()
    assert (first["partition"], first["offset"], first["key"], first["value"], first["headers"]) == (4, 0, b"k", b"v", [])
    assert second["headers"] == [{"name": "a", "value": b"1"}, {"name": "b", "value": None}]
    assert (second["key"], second["mode"], second["op"]) == (None, 1, 1)

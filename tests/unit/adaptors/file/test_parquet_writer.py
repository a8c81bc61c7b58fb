"""Tables that are made of text: the same as those that are made of messages."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from headwater.adaptors.file.parquet_writer import ParquetPartWriter
from headwater.core.errors import Rejected
from headwater.pipeline import values
from headwater.pipeline.message import Message
from headwater.pipeline.sink_adaptor import Batch

_TEXTS = st.sampled_from(["", "x", "2026-11-16", "2026-11-16T04:00:00Z", "1.10", "NaN", "äöü"])
_NUMBERS = st.sampled_from([0, 1, -1, 2**53 + 1, 2**62, 2**70, 0.5, 1e300, 1e-7])
_CELLS: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), _TEXTS, _NUMBERS, st.just({"$date": 1000}), st.just({"x": 1}), st.just([1, 2]), st.just({}), st.just([])
)
_BATCHES = st.lists(st.lists(st.dictionaries(st.sampled_from("abc"), _CELLS, max_size=3), max_size=4), min_size=1, max_size=5)


def tables(folder: Path, batches: list[list[bytes]], *, text: bool) -> list[pa.Table] | str:
    """What is written, file by file; or what the first refusal says."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    writer, at = ParquetPartWriter(folder / "part", compression="snappy"), 0
    try:
        for one in batches:
            batch = Batch(start=at, end=at + len(one), values=one)
            if not text or not writer.write_text(batch):
                messages = [Message("in", values.decode(each), offset=at + i) for i, each in enumerate(one)]
                writer.write(Batch(start=at, end=at + len(one), messages=messages))
            at += len(one)
        return [pq.read_table(file) for file in writer.finish()["files"]]
    except Rejected as no:
        return f"{no.offset} {no.message}"
    finally:
        writer.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(20))
@given(batches=_BATCHES)
def test_text_makes_the_same_tables_as_messages(tmp_path: Path, batches: list[list[dict[str, Any]]]) -> None:
    lines = [[values.encode(document) for document in one] for one in batches]
    assert tables(tmp_path / "out", lines, text=True) == tables(tmp_path / "out", lines, text=False)


@pytest.mark.parametrize("number", ["1.10", "0.1", "1e5", "12345678901234567890", "0.00001", "123456789012345.123"])
def test_numbers_are_what_they_are_in_messages(tmp_path: Path, number: str) -> None:
    lines = [[b'{"n":0.5,"t":"2026-11-16"}'], [f'{{"n":{number},"t":"x"}}'.encode()] * 3, [b'{"n":1}']]
    assert tables(tmp_path / "out", lines, text=True) == tables(tmp_path / "out", lines, text=False)


def test_the_usual_document_goes_as_text(tmp_path: Path) -> None:
    writer = ParquetPartWriter(tmp_path / "part", compression="snappy")
    assert not writer.write_text(Batch(start=0, end=1, values=[b'{"_id":1,"t":"x"}']))
    writer.write(Batch(start=0, end=1, messages=[Message("in", {"_id": 1, "t": "x"}, offset=0)]))
    assert writer.write_text(Batch(start=1, end=3, values=[b'{"_id":2,"t":"y"}', b'{"t":null,"_id":3}']))
    assert not writer.write_text(Batch(start=3, end=4, values=[b'{"_id":4,"u":1}']))
    [file] = writer.finish()["files"]
    writer.close()
    assert pq.read_table(file).to_pylist() == [{"_id": 1, "t": "x"}, {"_id": 2, "t": "y"}, {"_id": 3, "t": None}]


def test_rows_of_nulls_have_no_column_whose_type_nobody_knows(tmp_path: Path) -> None:
    """Of a column of text, Spark would not read the numbers that come later."""
    [table] = tables(tmp_path / "out", [[b'{"a":null,"A":null}']], text=False)
    assert isinstance(table, pa.Table)
    assert table.column_names == ["_empty"]

"""What the benchmarks of pipelines are built of: the documents, the look at what arrived, the watch over memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from bench.machine import family
from bench.pipelines import documents, outcome
from bench.pipelines.memory import _resident

from headwater.core.errors import Differs


def test_lines_rows_and_columns_are_the_same_documents(tmp_path: Path) -> None:
    path = documents.lines(tmp_path / "in.jsonl", 12_345)
    outcome.of_lines([path], documents.table(12_345))
    assert documents.tuples(2000) == [tuple(row.values()) for row in documents.table(2000).to_pylist()]


def test_order_and_files_do_not_matter_nor_a_peers_own_columns(tmp_path: Path) -> None:
    whole = documents.table(100)
    first, second = whole.slice(60), whole.slice(0, 60)
    pa.parquet.write_table(first.append_column("_dlt_id", pa.array(["x"] * 40)), tmp_path / "1")
    pa.parquet.write_table(second.select(list(reversed(second.column_names))), tmp_path / "2")
    outcome.of_parquet(tmp_path.iterdir(), whole)


@pytest.mark.parametrize("fault", ["a row less", "a row twice", "another value", "a column less", "a column more"])
def test_whatever_differs_is_found(fault: str, tmp_path: Path) -> None:
    whole = documents.table(100)
    written = {
        "a row less": whole.slice(1),
        "a row twice": pa.concat_tables([whole.slice(1), whole.slice(5, 1)]),
        "another value": whole.set_column(3, "qty", pa.array([1, *whole["qty"].to_pylist()[1:]])),
        "a column less": whole.drop_columns(["note"]),
        "a column more": whole.append_column("more", whole["note"]),
    }[fault]
    pa.parquet.write_table(written, tmp_path / "part-0")
    with pytest.raises(Differs):
        outcome.of_parquet(tmp_path.iterdir(), whole)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is told by Linux only")
def test_memory_is_seen_in_all_descendants() -> None:
    grown = "x = bytearray(64 << 20); x[::4096] = b'x' * len(x[::4096]); print(1, flush=True); input()"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grown!r}])"
    with subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = family(process.pid)
        sizes = [_resident(pid)[1] for pid in found]
        process.communicate(b"\n")
    assert found[0] == process.pid
    assert len(found) == 2
    assert sizes[0] < 64 << 20 <= sizes[1] < 128 << 20
    assert os.getpid() not in found


def test_what_has_ended_has_no_memory() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        process.wait()
    assert _resident(process.pid) == ("", 0, 0)

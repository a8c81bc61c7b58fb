"""What the file source reads, and what it says of files that it cannot read."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.core.errors import BadInput, Damaged, Differs
from headwater.pipeline import values
from headwater.pipeline.adaptor import Piece
from headwater.pipeline.adaptors import file
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.systems.file.adaptor import File


def read(adaptor: File) -> Iterator[Piece]:
    """The pieces of all slices, from their beginning."""
    for part in adaptor.plan(Namespaces(), 1).slices:
        yield from adaptor.read(part, None)


def documents(adaptor: File) -> list[dict[str, Any]]:
    return [values.decode(one) for piece in read(adaptor) for one in piece.values]


def bad(adaptor: File) -> list[tuple[bytes, str]]:
    """The records that could not be read, and why."""
    return [(piece.values[index], why) for piece in read(adaptor) for index, why in piece.bad.items()]


# -- files that change --------------------------------------------------------------------------------------

FORMATS = ["in.jsonl", "in.jsonl.gz", "in.csv", "in.csv.zst", "in.parquet"]


def make(path: Path, tag: str) -> None:
    """A file of three documents."""
    rows = [{"_id": n, "tag": tag} for n in range(3)]
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=1)
        return
    data = b"_id,tag\n" + "".join(f"{n},{tag}\n" for n in range(3)).encode()
    if ".jsonl" in path.name:
        data = b"".join(values.encode(row) + b"\n" for row in rows)
    if path.suffix == ".gz":
        data = gzip.compress(data)
    if path.suffix == ".zst":
        data = pa.compress(data, codec="zstd", asbytes=True)
    path.write_bytes(data)


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_was_replaced_since_the_plan_is_not_read(tmp_path: Path, name: str) -> None:
    make(tmp_path / name, "old")
    adaptor = file(str(tmp_path / name))
    [part] = adaptor.plan(Namespaces(), 1).slices
    assert len([one for piece in adaptor.read(part, None) for one in piece.values]) == 3
    make(tmp_path / f"new-{name}", "new")
    os.replace(tmp_path / f"new-{name}", tmp_path / name)
    with pytest.raises(Differs, match="has changed since its copy began") as no:
        list(adaptor.read(part, None))
    assert "--again" in no.value.hint
    (tmp_path / name).unlink()
    with pytest.raises(Differs, match="is gone since"):
        list(adaptor.read(part, None))


def test_a_file_that_changes_while_it_is_read_is_not_read_on(tmp_path: Path) -> None:
    make(tmp_path / "in.parquet", "old")
    adaptor = file(str(tmp_path / "in.parquet"))
    [part] = adaptor.plan(Namespaces(), 1).slices
    pieces = adaptor.read(part, None)
    assert len(next(pieces).values) == 1
    make(tmp_path / "other.parquet", "new")
    os.replace(tmp_path / "other.parquet", tmp_path / "in.parquet")
    with pytest.raises(Differs):
        list(pieces)


def test_a_file_that_was_cut_short_differs(tmp_path: Path) -> None:
    make(tmp_path / "in.jsonl", "old")
    adaptor = file(str(tmp_path / "in.jsonl"))
    [part] = adaptor.plan(Namespaces(), 1).slices
    os.truncate(tmp_path / "in.jsonl", 0)
    with pytest.raises(Differs):
        list(adaptor.read(part, None))


# -- files that are not what they should be ------------------------------------------------------------------


def test_a_file_of_parquet_that_is_empty_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "in.parquet").touch()
    with pytest.raises(Damaged, match=r"in\.parquet is no whole parquet"):
        list(read(file(str(tmp_path / "in.parquet"))))


@pytest.mark.parametrize("name", ["in.jsonl.gz", "in.csv.gz", "in.jsonl.zst", "in.csv.zst", "in.parquet"])
def test_a_file_that_ends_too_early_is_damaged(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    make(path, os.urandom(4000).hex())
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(Damaged, match=f"{name} is no whole"):
        list(read(file(str(path))))


def test_a_name_that_is_not_in_utf8_is_said(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "good.jsonl").write_text("{}")
    Path(os.fsdecode(os.fsencode(tmp_path / "in") + b"/\xff.jsonl")).write_text("{}")
    with pytest.raises(BadInput, match=r"in/\\udcff.jsonl is not in UTF-8"):
        list(read(file(f"{tmp_path}/in/")))
    assert list(file(f"{tmp_path}/in/").plan(Namespaces("^good"), 1).identity) == ["good.jsonl"]


def test_a_name_with_brackets_that_is_there_is_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "a[1].jsonl").write_text('{"_id":1}')
    (tmp_path / "a1.jsonl").write_text('{"_id":2}')
    assert documents(file(str(tmp_path / "a[1].jsonl"))) == [{"_id": 1}]
    assert documents(file(str(tmp_path / "a[0-9].jsonl"))) == [{"_id": 2}]

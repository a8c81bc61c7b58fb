"""Every write, sync and rename of publishing to files fails once: nothing is lost, nothing is there twice."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headwater.adaptors.file.adaptor import File
from headwater.adaptors.file.folder import PartFolder
from headwater.adaptors.file.single_file import SingleFile
from headwater.adaptors.file.target import Target
from headwater.core.errors import HeadwaterError
from headwater.core.ids import random_id
from headwater.pipeline.adaptor import Batch, Part
from headwater.pipeline.adaptors import file
from headwater.pipeline.message import Message
from headwater.pipeline.offsets.ranges import missing
from headwater.testing.faults import FailingFiles

PARTS = [(0, 4), (4, 9), (9, 10)]
KINDS = {"folder": "out/", "single": "out.jsonl", "tables": "out.parquet"}


def adaptor_of(folder: Path, kind: str) -> File:
    made = file(f"{folder}/{KINDS[kind]}")
    assert isinstance(made, File)
    return made


def target_of(adaptor: File, files: FailingFiles | None = None) -> Target:
    kind = PartFolder if adaptor.folder else SingleFile
    return kind(adaptor, "p#1", "s", files)


def message(number: int) -> Message:
    """Every third document has another type, so that a table of several needs several files."""
    return Message("n", {"_id": number, "v": "text" if number % 3 == 0 else number}, offset=number)


def deliver(adaptor: File, target: Target, start: int, end: int, epoch: int) -> None:
    part = Part(pipeline="p#1", sink="s", start=start, end=end, epoch=epoch, attempt=random_id())
    writer = adaptor.writer(part)
    try:
        writer.write(Batch(start=start, end=end, messages=[message(number) for number in range(start, end)]))
        receipt = writer.finish()
    finally:
        writer.close()
    target.publish(part, receipt)


def run(adaptor: File, files: FailingFiles | None, epoch: int = 1) -> bool:
    """As a run does: begin, then whatever of the parts is missing. False when something failed."""
    try:
        target = target_of(adaptor, files)
        taken = target.begin(epoch)
        assert taken is not None
        for start, end in PARTS:
            for a, b in missing(start, end, taken):
                deliver(adaptor, target, a, b, epoch)
    except HeadwaterError:
        return False
    return True


def test_shares_of_a_range_count_together_or_not_at_all(tmp_path: Path) -> None:
    adaptor = adaptor_of(tmp_path, "folder")
    target = target_of(adaptor)
    target.begin(1)
    for bucket, numbers in ((0, [0, 2, 4]), (1, [1, 3])):
        part = Part(pipeline="p#1", sink="s", start=0, end=5, bucket=bucket, buckets=3, epoch=1, attempt=random_id())
        writer = adaptor.writer(part)
        writer.write(Batch(start=0, end=5, messages=[message(number) for number in numbers]))
        target.publish(part, writer.finish())
        writer.close()
    assert held(adaptor) == [0, 1, 2, 3, 4]
    assert target_of(adaptor).begin(1) == []  # the third share, which has no messages, was never said to be done
    assert held(adaptor) == []
    for bucket, numbers in ((0, [0, 2, 4]), (1, [1, 3]), (2, [])):
        part = Part(pipeline="p#1", sink="s", start=0, end=5, bucket=bucket, buckets=3, epoch=1, attempt=random_id())
        writer = adaptor.writer(part)
        writer.write(Batch(start=0, end=5, messages=[message(number) for number in numbers]))
        target.publish(part, writer.finish())
        writer.close()
    assert target_of(adaptor).begin(1) == [(0, 5)]
    assert held(adaptor) == [0, 1, 2, 3, 4]


def held(adaptor: File) -> list[int]:
    if adaptor.written_format == "parquet":
        return sorted(row["_id"] for one in adaptor.path.glob("part-*") for row in pq.ParquetFile(one).read().to_pylist())
    paths = sorted(adaptor.path.glob("part-*")) if adaptor.folder else [adaptor.path]
    return sorted(json.loads(line)["_id"] for one in paths for line in one.read_text().splitlines())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
@pytest.mark.parametrize("forever", [False, True], ids=["once", "from then on"])
def test_whatever_fails_the_next_run_makes_it_whole(kind: str, number: int, forever: bool, tmp_path: Path) -> None:
    (tmp_path / "counting").mkdir()
    counting = FailingFiles()
    assert run(adaptor_of(tmp_path / "counting", kind), counting)
    assert counting.calls > 10
    for at in range(1, counting.calls + 1):
        folder = tmp_path / str(at)
        folder.mkdir()
        adaptor = adaptor_of(folder, kind)
        files = FailingFiles(at, forever=forever, number=number)
        assert not run(adaptor, files) or not files.failed
        assert forever or not list(folder.rglob("tmp-*")), at  # tried again and again, they would fill the disk
        assert run(adaptor, None, 2), at
        assert held(adaptor) == list(range(10)), at
        assert not list(folder.rglob("tmp-*")), at

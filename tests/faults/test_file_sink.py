"""Every write, sync and rename of publishing to files fails once: nothing is lost, nothing is there twice."""

from __future__ import annotations

import errno
import itertools
import json
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headwater.adaptors.file.adaptor import File
from headwater.adaptors.file.folder import PartFolder
from headwater.adaptors.file.single_file import SingleFile
from headwater.adaptors.file.target import Target
from headwater.core.errors import Differs, HeadwaterError
from headwater.core.files import Bytes, Files
from headwater.core.ids import random_id
from headwater.pipeline.adaptors import file
from headwater.pipeline.claim import SinkClaim
from headwater.pipeline.message import Message
from headwater.pipeline.offsets.column_decision import decided
from headwater.pipeline.offsets.ranges import missing
from headwater.pipeline.sink_adaptor import Batch, Part
from headwater.testing.faults import FailingFiles

PARTS = [(0, 4), (4, 9), (9, 10), (10, 12)]
COUNT = 10  # documents: the last part has none
KINDS = {"folder": "out/", "single": "out.jsonl", "tables": "out.parquet", "decided": "decided.parquet"}


def adaptor_of(folder: Path, kind: str) -> File:
    made = file(f"{folder}/{KINDS[kind]}")
    assert isinstance(made, File)
    return made


def target_of(adaptor: File, files: Files | None = None, pipeline: str = "p#1") -> Target:
    kind = PartFolder if adaptor.folder else SingleFile
    return kind(adaptor, pipeline, "s", files)


def message(number: int) -> Message:
    """Every third document has another type, so that a table without decided columns needs several files."""
    return Message("n", {"_id": number, "v": Decimal("1.50") if number % 3 == 2 else number}, offset=number)


def deliver(adaptor: File, target: Target, start: int, end: int, epoch: int, pipeline: str = "p#1") -> None:
    messages = [message(number) for number in range(start, min(end, COUNT))]
    rules = adaptor.column_rules() if adaptor.path.name == "decided.parquet" else None
    columns = None if rules is None else decided([("", one) for one in messages], rules).tables  # other ones by part
    part = Part(pipeline=pipeline, sink="s", start=start, end=end, epoch=epoch, attempt=random_id(), columns=columns)
    writer = adaptor.writer(part)
    try:
        for one in messages:
            writer.write(Batch(start=one.offset, end=one.offset + 1, messages=[one]))
        if end > COUNT:
            writer.write(Batch(start=COUNT, end=end))
        receipt = writer.finish()
    finally:
        writer.close()
    target.publish(part, receipt)


def run(adaptor: File, files: Files | None, epoch: int = 1, pipeline: str = "p#1") -> bool:
    """As a run does: look, claim, begin, then whatever of the parts is missing. False when something failed.

    A target that belongs to another log is taken over.
    """
    try:
        target = target_of(adaptor, files, pipeline)
        owner, mine = target.owner(), SinkClaim(pipeline=pipeline, sink="s", epoch=epoch)
        target.held()
        target.claim(mine, owner if owner is not None and not owner.same_log(mine) else None)
        taken = target.begin(epoch)
        assert taken is not None
        for start, end in PARTS:
            for a, b in missing(start, end, taken):
                deliver(adaptor, target, a, b, epoch, pipeline)
    except Differs:
        raise
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
def test_whatever_fails_the_next_run_makes_it_whole(kind: str, number: int, forever: bool, memory_path: Path) -> None:
    (memory_path / "counting").mkdir()
    counting = FailingFiles()
    assert run(adaptor_of(memory_path / "counting", kind), counting)
    assert counting.calls > 10
    for at in range(1, counting.calls + 1):
        folder = memory_path / str(at)
        folder.mkdir()
        adaptor = adaptor_of(folder, kind)
        files = FailingFiles(at, forever=forever, number=number)
        assert not run(adaptor, files) or not files.failed
        assert forever or not list(folder.rglob("tmp-*")), at  # tried again and again, they would fill the disk
        assert run(adaptor, None, 2), at
        assert held(adaptor) == list(range(10)), at
        assert target_of(adaptor).held() == target_of(adaptor).begin(2)
        assert missing(0, 12, target_of(adaptor).held() or []) == []
        assert not list(folder.rglob("tmp-*")), at


@pytest.mark.parametrize("kind", ["folder", "single"])
def test_whatever_fails_while_a_target_is_taken_over_the_next_run_makes_it_whole(kind: str, memory_path: Path) -> None:
    (memory_path / "counting").mkdir()
    assert run(adaptor_of(memory_path / "counting", kind), None)
    counting = FailingFiles()
    assert run(adaptor_of(memory_path / "counting", kind), counting, pipeline="p#2")
    for at in range(1, counting.calls + 1):
        folder = memory_path / str(at)
        folder.mkdir()
        adaptor = adaptor_of(folder, kind)
        assert run(adaptor, None)
        files = FailingFiles(at)
        assert not run(adaptor, files, pipeline="p#2") or not files.failed
        assert run(adaptor, None, 2, pipeline="p#2"), at
        times = 1 if adaptor.folder else 2  # one file keeps what the other log has written
        assert held(adaptor) == sorted([*range(10)] * times), at
        assert len(list(folder.rglob("earlier-1*-part-*"))) == (3 if adaptor.folder else 0)  # those of a second try are numbered anew


@pytest.mark.parametrize("kind", ["folder", "single"])
def test_whatever_fails_while_a_sink_is_moved_back_it_can_be_moved_again(kind: str, memory_path: Path) -> None:
    (memory_path / "counting").mkdir()
    assert run(adaptor_of(memory_path / "counting", kind), None)
    counting = FailingFiles()
    target_of(adaptor_of(memory_path / "counting", kind), counting).forget(3, 1)
    for at in range(1, counting.calls + 1):
        folder = memory_path / str(at)
        folder.mkdir()
        adaptor = adaptor_of(folder, kind)
        assert run(adaptor, None)
        with suppress(HeadwaterError):
            target_of(adaptor, FailingFiles(at)).forget(3, 1)
        target_of(adaptor).forget(3, 1)
        assert missing(0, 12, target_of(adaptor).held() or []) == [(4, 12)], at
        assert run(adaptor, None, 2), at
        assert held(adaptor) == sorted([*range(10), *(() if adaptor.folder else range(4, 10))]), at


class KillingFiles(Files):
    """Kills the process in the midst of its Nth change."""

    def __init__(self, at: int) -> None:
        self._left = at

    def _or_die(self) -> None:
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)

    def pwritev(self, fd: int, parts: Sequence[Bytes], position: int) -> int:
        if self._left == 1:
            whole = b"".join(parts)
            super().pwritev(fd, [whole[: len(whole) // 2]], position)
        self._or_die()
        return super().pwritev(fd, parts, position)

    def truncate(self, fd: int, length: int) -> None:
        self._or_die()
        super().truncate(fd, length)

    def datasync(self, fd: int) -> None:
        self._or_die()

    def sync(self, fd: int) -> None:
        self._or_die()

    def rename(self, old: Path, new: Path) -> None:
        self._or_die()
        super().rename(old, new)

    def unlink(self, path: Path) -> None:
        self._or_die()
        super().unlink(path)


@pytest.mark.parametrize("kind", ["folder", "single"])
def test_wherever_a_process_is_killed_the_next_run_makes_it_whole(kind: str, memory_path: Path) -> None:
    for at in itertools.count(1):
        folder = memory_path / str(at)
        folder.mkdir()
        adaptor = adaptor_of(folder, kind)
        child = os.fork()
        if not child:
            try:
                run(adaptor, KillingFiles(at))
            finally:
                os._exit(0)
        killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        assert run(adaptor, None, 2), at
        assert held(adaptor) == list(range(10)), at
        if not killed:
            assert at > 10
            return

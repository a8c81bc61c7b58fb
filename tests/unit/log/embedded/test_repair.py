"""Repairing: what is whole goes on, what is not is kept, and a repair that dies can be done again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headwater.core.errors import HeadwaterError, OwnedTopic
from headwater.core.files import Files
from headwater.log.embedded.check import check
from headwater.log.embedded.repair import Repaired, repair
from headwater.log.record import Record, TopicSettings
from headwater.testing.faults import FailingFiles


def mend(ground: Any, *, files: Files | None = None, dry_run: bool = False) -> Repaired:
    return repair(ground.folder, name="t 0", files=files or Files(), clock=ground.clock, boot=ground.boot, dry_run=dry_run)


def test_a_whole_partition_is_left_alone(ground: Any) -> None:
    ground.fill(12).close()
    before = {one.name: one.read_bytes() for one in ground.folder.iterdir()}
    assert mend(ground) == Repaired("t 0", [], [], [])
    assert {one.name: one.read_bytes() for one in ground.folder.iterdir()} == before


@pytest.mark.parametrize("number", [0, -1], ids=["closed", "active"])
def test_the_damaged_batch_is_lost_and_its_segment_kept(ground: Any, number: int) -> None:
    ground.fill(30).close()
    path = ground.segments()[number]
    ground.flip(path, 30)
    rotten, first = path.read_bytes(), int(path.stem)
    done = mend(ground)
    assert done.lost == [(first, first + 1)]
    assert [Path(one).read_bytes() for one in done.side_files] == [rotten]
    log = ground.open()
    assert ground.values(log) == [b"value-%d" % n for n in range(30) if n != first]
    assert check(log.reader("t", 0)).damage == []
    assert log.append("t", 0, [Record(b"k", b"v")])[0] == 30  # no offset is given again


def test_a_parts_topic_is_repaired_and_stays_the_parts(ground: Any) -> None:
    log = ground.open()
    log.create_topic("t", settings=TopicSettings(segment=300), part="pipeline")
    writer = log.claim("t", 0, part="pipeline")
    for number in range(12):
        writer.append([Record(b"k", b"value-%d" % number)])
    log.close()
    ground.flip(ground.segments()[0], 30)
    assert mend(ground).lost == [(0, 1)]
    log = ground.open()
    with pytest.raises(OwnedTopic):
        log.append("t", 0, [Record(b"k", b"v")])
    lent = log.writer("t", 0, writer.epoch, generation=writer.generation, part="pipeline")
    assert list(lent.append([Record(b"k", b"v")])) == [12]  # the claim has outlived the repair


def test_a_missing_segment_s_offsets_are_told_and_never_given_again(ground: Any) -> None:
    ground.fill(30).close()
    path = ground.segments()[-1]
    path.unlink()
    done = mend(ground)
    assert done.lost == [(int(path.stem), 30)]
    assert ground.open().append("t", 0, [Record(b"k", b"v")])[0] == 30


def test_a_range_that_ends_in_a_hole_gives_nothing_behind_it(ground: Any) -> None:
    ground.fill(30).close()
    ground.segments()[1].unlink()
    ((first, last),) = mend(ground).lost
    log = ground.open()
    present = [offset for offset in range(30) if not first <= offset < last]
    assert len(present) < 29
    for start in range(30):
        for end in range(start, 31):
            found = [offset for chunk in log.scan("t", 0, start, end) for offset in chunk.column("offset").to_pylist()]
            assert found == [offset for offset in present if start <= offset < end], (start, end)


def test_a_repair_that_fails_anywhere_can_be_done_again(ground: Any) -> None:
    ground.fill(12).close()
    ground.flip(ground.segments()[0], 30)
    rotten = ground.segments()[0].read_bytes()
    for step in range(1, 200):
        files = FailingFiles(step)
        with suppress(HeadwaterError, OSError):
            mend(ground, files=files)
        if not files.failed:
            break
    assert step > 5
    log = ground.open()
    assert ground.values(log) == [b"value-%d" % n for n in range(1, 12)]
    assert rotten in {one.read_bytes() for one in ground.folder.glob("*.cut")}

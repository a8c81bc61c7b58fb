"""The roll, the repair after a failed sync, and finishing what a dead process left half done."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.core.errors import Damaged, OutcomeUnknown, Unavailable
from headwater.log.embedded import changes
from headwater.log.embedded.page import SegmentPosition
from headwater.log.record import Record
from headwater.testing.faults import FailingFiles, crash


def test_a_roll_seals_the_segment_where_its_data_end(ground: Any) -> None:
    log = ground.fill(3, segment=1 << 20)
    partition = ground.partition(log)
    with partition.exclusive:
        tail = partition.page.tail
        file = changes.roll(partition, partition.open(0))
    sealed, active = partition.manifest.segments
    assert (sealed.length, sealed.end, active.base) == (tail.position, 3, 3)
    assert sealed.log(ground.folder).stat().st_size == tail.position  # what was written ahead is given back
    assert file.segment == active
    assert not partition.page.dirty
    assert log.append("t", 0, [Record(b"k", b"next")])[0] == 3


def test_bytes_behind_the_tail_are_cut_off_by_the_next_one(ground: Any) -> None:
    log = ground.fill(3, segment=1 << 20)
    partition = ground.partition(log)
    with partition.exclusive:
        position = partition.page.tail.position
        file = partition.open(0)
        file.write(bytearray(b"half a batch"), b"\0" * 4, position, 3)
        partition.page.dirty = True  # a process died here
        changes.finish(partition)
        assert not partition.page.dirty
    assert file.path.read_bytes()[position:].strip(b"\0") == b""
    assert log.append("t", 0, [Record(b"k", b"next")])[0] == 3
    assert ground.values(log)[-1] == b"next"


def test_a_manifest_that_does_not_follow_on_the_tail_is_damage(ground: Any) -> None:
    log = ground.fill(3, segment=1 << 20)
    partition = ground.partition(log)
    with partition.exclusive:
        partition.page.tail = SegmentPosition(2, 0, 2)  # as a manifest from a backup would find it
        partition.page.dirty = True
        with pytest.raises(Damaged, match="goes on at offset 0, but the partition has come to 2"):
            changes.finish(partition)
    crash(log)


def test_after_a_failed_sync_a_fresh_file_goes_on_at_the_durable_end(ground: Any) -> None:
    ground.fill(3, segment=1 << 20).close()
    files = FailingFiles(only=("datasync",))
    log = ground.open(files=files)
    log.append("t", 0, [Record(b"k", b"3")])
    files.fail_at = files.calls + 1
    with pytest.raises(OutcomeUnknown, match="Syncing"):
        log.append("t", 0, [Record(b"k", b"lost")])
    partition = ground.partition(log)
    assert partition.page.failures == 2  # even: repaired
    assert [one.stem for one in partition.manifest.segments][-1].startswith(f"{4:020d}-")  # a generation of its own
    assert log.append("t", 0, [Record(b"k", b"4")])[0] == 4
    assert ground.values(log)[3:] == [b"3", b"4"]


def test_where_the_repair_fails_too_nobody_appends(ground: Any) -> None:
    ground.fill(3, segment=1 << 20).close()
    files = FailingFiles(only=("datasync", "truncate"))
    log = ground.open(files=files)
    log.append("t", 0, [Record(b"k", b"3")])
    files.fail_at, files.forever = files.calls + 1, True
    with pytest.raises(OutcomeUnknown):
        log.append("t", 0, [Record(b"k", b"lost")])
    assert ground.partition(log).page.failures & 1
    with pytest.raises(Unavailable, match="takes no records since a sync failed"):
        log.append("t", 0, [Record(b"k", b"refused")])
    files.fail_at = 0
    crash(log)
    assert ground.open().append("t", 0, [Record(b"k", b"4")])[0] >= 4

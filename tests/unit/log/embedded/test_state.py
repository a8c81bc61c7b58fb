"""What a process holds of a partition that it writes, and how the manifest is changed."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.core.errors import Damaged, Unavailable, UnknownTopic
from headwater.log.embedded import manifest as manifests
from headwater.log.record import Record


def test_a_changed_manifest_is_on_disk_before_the_others_hear_of_it(ground: Any) -> None:
    log = ground.fill(2)
    partition = ground.partition(log)
    with partition.changing() as now:
        partition.replace(now, start=1)
        assert partition.page.dirty  # a death here is noticed
        stored = manifests.load(ground.folder)
        assert stored is not None
        assert (stored.start, stored.generation) == (1, now.generation + 1)
        assert partition.page.generation == stored.generation
    assert not partition.page.dirty
    assert log.bounds("t", 0).start == 1


def test_a_change_that_fails_is_left_for_the_next_one_to_finish(ground: Any) -> None:
    log = ground.fill(2)
    partition = ground.partition(log)
    with pytest.raises(RuntimeError), partition.changing() as now:
        partition.replace(now, start=1)
        raise RuntimeError
    assert partition.page.dirty
    assert log.append("t", 0, [Record(b"k", b"v")])[0] == 2
    assert not partition.page.dirty
    assert log.bounds("t", 0).start == 1  # its manifest was renamed: it counts


def test_what_nobody_may_change_is_refused_with_the_reason(ground: Any) -> None:
    log = ground.fill(2)
    partition = ground.partition(log)
    for name, error, text in (("failures", Unavailable, "since a sync failed"), ("deleted", UnknownTopic, "has been deleted")):
        setattr(partition.page, name, 1)
        with pytest.raises(error, match=text), partition.changing():
            pass
        setattr(partition.page, name, 0)
    with partition.changing():  # the lock was given back each time
        pass


def test_a_manifest_that_another_process_has_replaced_is_read_anew(ground: Any) -> None:
    log, other = ground.fill(2, segment=1 << 20), ground.open()
    mine, theirs = ground.partition(log), ground.partition(other)
    with theirs.changing() as now:
        theirs.replace(now, epoch=4)
    assert mine.manifest.generation < theirs.manifest.generation
    assert mine.open(0).segment.base == 0
    assert mine.stored().epoch == 4


def test_a_manifest_that_is_lost_or_does_not_name_the_segment_is_damage(ground: Any) -> None:
    partition = ground.partition(ground.fill(2))
    with partition.exclusive, pytest.raises(Damaged, match="does not name its active segment"):
        partition.open(17)
    (ground.folder / "manifest").unlink()
    with partition.exclusive, pytest.raises(Damaged, match="is missing"):
        partition.stored()

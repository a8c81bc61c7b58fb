"""Deleting a prefix, and putting finished segments in the place of others."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from headwater.core.errors import AlreadyExists, BadBounds, HeadwaterError
from headwater.log.embedded.housekeeping import adopt, delete_before, next_generation, swap
from headwater.log.embedded.manifest import Segment
from headwater.log.embedded.rewriting import SegmentWriter
from headwater.log.encoding import encode
from headwater.log.layout import seal
from headwater.log.record import Record, TopicSettings
from headwater.testing.faults import FailingFiles, crash


def written(ground: Any, partition: Any, segment: Segment, records: list[Record]) -> Segment:
    writer = SegmentWriter(partition.files, ground.folder, segment)
    batch = encode(records, now=1)
    seal(batch, segment.base, 0)
    writer.add(batch, segment.base + len(records))
    return writer.finish(segment.base + len(records))


def test_deleting_moves_the_start_and_removes_whole_segments(ground: Any) -> None:
    log = ground.fill(12)
    partition = ground.partition(log)
    second = partition.manifest.segments[1]
    assert delete_before(partition, second.base + 1) == second.base + 1
    assert delete_before(partition, 1) == second.base + 1  # never back
    assert partition.manifest.segments[0] == second  # it holds the start
    assert ground.segments()[0] == second.log(ground.folder)
    assert ground.values(log, second.base + 1)[0] == b"value-%d" % (second.base + 1)
    with pytest.raises(BadBounds, match="ends at offset 12; 13 lies beyond"):
        delete_before(partition, 13)


def test_segments_are_swapped_only_where_all_of_them_are_still_there(ground: Any) -> None:
    log = ground.fill(30)
    partition = ground.partition(log)
    old, generation = partition.manifest.segments[:2], next_generation(partition)
    assert generation > old[0].generation
    made = written(ground, partition, Segment(0, generation, dense=False), [Record(b"k", b"new")])
    assert not swap(partition, [old[1], old[0]], [made])
    assert swap(partition, old, [made])
    assert partition.manifest.segments[0] == made
    assert not old[0].log(ground.folder).exists()
    assert ground.values(log)[0] == b"new"
    assert not swap(partition, old, [made])  # they are gone


def test_an_import_is_adopted_by_an_empty_partition_alone(ground: Any) -> None:
    log = ground.fill(0)
    partition = ground.partition(log)
    made = written(ground, partition, Segment(5, next_generation(partition), dense=False), [Record(b"k", b"old")] * 2)
    adopt(partition, [made], 7)
    assert (log.bounds("t", 0).start, log.bounds("t", 0).end) == (5, 7)
    assert log.append("t", 0, [Record(b"k", b"next")])[0] == 7
    assert ground.values(log, 5) == [b"old", b"old", b"next"]
    with pytest.raises(AlreadyExists, match="holds records already"):
        adopt(partition, [made], 7)


def test_a_deletion_that_fails_anywhere_is_done_or_not_done(ground: Any) -> None:
    ground.fill(12).close()
    step = 0
    while True:
        step += 1
        files = FailingFiles()
        log = ground.open(files=files)
        start = log.bounds("t", 0).start
        partition = ground.partition(log)
        files.fail_at = files.calls + step
        with suppress(HeadwaterError):
            delete_before(partition, start + 1)
        failed, files.fail_at = bool(files.failed), 0
        crash(log)
        after = ground.open()
        bounds = after.bounds("t", 0)
        assert bounds.start in (start, start + 1)
        assert ground.values(after, bounds.start) == [b"value-%d" % n for n in range(bounds.start, 12)]
        after.close()
        if not failed:
            break
    assert step > 2


def test_a_roll_that_is_not_due_closes_nothing(ground: Any) -> None:
    log = ground.open()
    log.create_topic("t", settings=TopicSettings(period="hour"))
    writer = log.claim("t", 0)
    writer.append([Record(b"k", b"v")])
    assert writer.roll(due=True) == 1
    assert len(ground.segments()) == 1
    ground.clock.advance(3600)
    assert writer.roll(due=True) == 1
    assert len(ground.segments()) == 2
    ground.clock.advance(3600)
    assert writer.roll(due=True) == 1  # an empty one stays
    assert len(ground.segments()) == 2
    writer.append([Record(b"k", b"v")])
    assert writer.roll() == 2
    assert len(ground.segments()) == 3

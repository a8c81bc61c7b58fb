"""Checking a partition: every byte is looked at, and nothing is changed."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.core.errors import Damaged
from headwater.log.embedded.check import MISSING, Damage, Whole, check, examine, stats
from headwater.log.embedded.manifest import Segment
from headwater.log.record import Record


def test_a_whole_partition_is_counted(ground: Any) -> None:
    log = ground.fill(12)
    log.append("t", 0, [Record(b"k", b"v")] * 3)
    found = check(log.reader("t", 0))
    assert (found.records, found.damage) == (15, [])
    assert found.segments == len(ground.segments()) > 1
    told = stats(log.reader("t", 0))
    assert (told.start, told.end, told.segments, told.bytes, told.cuts, told.damage) == (0, 15, found.segments, found.bytes, 0, "")


def test_every_damaged_place_is_named_with_where_it_is_whole_again(ground: Any) -> None:
    ground.fill(12).close()
    path = ground.segments()[1]
    base = int(path.stem)
    ground.flip(path, 60)
    before = {one.name: one.read_bytes() for one in ground.folder.iterdir()}
    log = ground.open(read_only=True)
    [damage] = check(log.reader("t", 0)).damage
    assert (damage.file, damage.offset) == (str(path), base + 1)
    assert damage.resumes_offset == base + 2
    assert path.read_bytes()[damage.resumes_at :][:8] == (base + 2).to_bytes(8, "big")
    assert {one.name: one.read_bytes() for one in ground.folder.iterdir()} == before


def test_a_segment_that_is_gone_or_short_is_damage(ground: Any) -> None:
    ground.fill(12).close()
    first, second, *_ = ground.segments()
    second.unlink()
    first.write_bytes(first.read_bytes()[:-1])
    found = check(ground.open(read_only=True).reader("t", 0)).damage
    assert [(one.file, one.what) for one in found][1] == (str(second), MISSING)
    assert found[0].file == str(first)


def test_stats_tell_what_keeps_a_partition_from_being_written(ground: Any) -> None:
    ground.fill(3).close()
    (ground.folder / "manifest").write_bytes(b"rot")
    log = ground.open(read_only=True)
    assert "fails its checksum" in stats(log.reader("t", 0)).damage
    with pytest.raises(Damaged):
        check(log.reader("t", 0))


def test_zeros_behind_an_open_segment_are_no_damage_and_behind_a_closed_one_are(ground: Any) -> None:
    ground.fill(2, segment=1 << 20).close()
    [path] = ground.segments()
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + bytes(100))
    pieces = list(examine(ground.folder, Segment(0), 0, size + 100))
    assert [type(one) for one in pieces] == [Whole]
    closed = list(examine(ground.folder, Segment(0, length=size + 100, end=2), 2, size + 100))
    assert [type(one) for one in closed] == [Whole, Damage]

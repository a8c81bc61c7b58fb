"""A segment mapped for reading: records are found by the sidecar or without it, and every batch is checked before it is given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwater.core.errors import Damaged
from headwater.log.embedded.manifest import Segment
from headwater.log.embedded.records import decode_records
from headwater.log.embedded.view import SegmentView
from headwater.log.record import Record

COUNT = 40


@pytest.fixture
def path(ground: Any) -> Path:
    log = ground.fill(COUNT, segment=1 << 20)
    log.append("t", 0, [Record(b"k", b"v")] * 60)  # one large batch
    log.close()
    [found] = ground.segments()
    return found


@pytest.fixture
def view(path: Path) -> Iterator[SegmentView]:
    made = SegmentView(path.parent, Segment(0), hint="next")
    yield made
    made.close()


def offsets(view: SegmentView, start: int, end: int, size: int, count: int = 1000) -> list[int | None]:
    found = view.slice(start, end, size, count)
    return [record.offset for record in decode_records(found.data, found.size, found.starts, room=1 << 30)[0]]


@pytest.mark.parametrize("sidecar", ["true", "gone", "lies", "short"])
@pytest.mark.parametrize(("start", "end", "count"), [(0, 100, 1000), (7, 9, 1000), (38, 100, 5), (45, 47, 1000), (99, 100, 1), (5, 5, 9)])
def test_the_records_of_a_range_are_given_whatever_the_sidecar_says(path: Path, sidecar: str, start: int, end: int, count: int) -> None:
    rows = path.with_suffix(".pos")
    match sidecar:
        case "gone":
            rows.unlink()
        case "lies":
            rows.write_bytes(np.arange(3, 403, 4, dtype="<u4").tobytes())
        case "short":
            rows.write_bytes(rows.read_bytes()[:41])
    view = SegmentView(path.parent, Segment(0), hint="")
    size = path.stat().st_size
    given: list[int | None] = []
    while len(given) < min(count, end - start):  # fewer may be given at once, and never none
        given += offsets(view, start + len(given), end, size, count - len(given))
    assert given == list(range(start, min(end, start + count)))
    view.close()


def test_no_record_of_a_damaged_batch_is_given(path: Path, view: SegmentView) -> None:
    rows = np.fromfile(path.with_suffix(".pos"), "<u4")
    raw = bytearray(path.read_bytes())
    raw[int(rows[20]) + 30] ^= 1
    path.write_bytes(raw)
    size = len(raw)
    assert offsets(view, 15, 100, size) == list(range(15, 20))  # what lies before the damage
    with pytest.raises(Damaged, match="is damaged at byte") as told:
        offsets(view, 20, 100, size)
    assert told.value.hint == "next"
    assert offsets(view, 21, 30, size) == list(range(21, 30))


def test_a_range_that_is_said_to_be_there_and_is_not_is_damage(path: Path, view: SegmentView) -> None:
    with pytest.raises(Damaged, match="no record begins there"):
        offsets(view, 150, 160, path.stat().st_size)


def test_bytes_behind_the_durable_ones_are_not_touched(path: Path, view: SegmentView) -> None:
    rows = np.fromfile(path.with_suffix(".pos"), "<u4")
    assert offsets(view, 0, 10, int(rows[10])) == list(range(10))
    assert view.slice(0, 10, int(rows[10]), 100).size == int(rows[10])


def test_a_segment_with_holes_gives_what_is_there(ground: Any) -> None:
    log = ground.fill(60)
    log.compact("t", 0)
    log.close()
    first = ground.open(read_only=True).reader("t", 0).extents()[0][0]
    assert not first.dense
    view = SegmentView(ground.folder, first, hint="")
    there = offsets(view, first.base, first.end, first.length)
    assert 0 < len(there) < first.end - first.base
    assert offsets(view, (there[0] or 0) + 1, first.end, first.length, 2) == there[1:3]
    view.close()

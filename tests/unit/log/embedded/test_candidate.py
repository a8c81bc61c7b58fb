"""What a segment file tells of itself, without a manifest."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.log.embedded.candidate import candidate


def test_a_whole_segment_tells_its_offsets(ground: Any) -> None:
    ground.fill(7, segment=1 << 20).close()
    [path] = ground.segments()
    found = candidate(ground.folder, 0, 0)
    assert (found.records, found.covered, found.following, found.end) == (7, 7, 7, 7)
    assert found.position == found.intact <= path.stat().st_size
    assert found.segment.dense
    assert (found.damage, found.torn) == ([], False)


def test_damage_inside_is_told_from_a_torn_end(ground: Any) -> None:
    ground.fill(7, segment=1 << 20).close()
    [path] = ground.segments()
    size = candidate(ground.folder, 0, 0).position
    path.write_bytes(path.read_bytes()[: size - 3])
    torn = candidate(ground.folder, 0, 0)
    assert torn.torn
    assert (torn.records, torn.end) == (6, 6)
    ground.flip(path, 60)
    damaged = candidate(ground.folder, 0, 0)
    assert len(damaged.damage) == 2
    assert damaged.records == damaged.covered < torn.records


def test_an_empty_file_holds_nothing(ground: Any) -> None:
    ground.fill(1).close()
    (ground.folder / f"{9:020d}.log").write_bytes(bytes(4096))
    found = candidate(ground.folder, 9, 0)
    assert (found.end, found.records) == (9, 0)
    with pytest.raises(FileNotFoundError):
        candidate(ground.folder, 10, 0)

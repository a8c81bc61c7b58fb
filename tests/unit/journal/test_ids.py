"""Ids of a partition's journals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.journal.partitions import TOPIC, Ground

from headwater.journal.action import Delete, Purge
from headwater.journal.ids import journal_ids
from headwater.journal.topics import PART
from headwater.log.record import Record


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    yield made
    made.close()


def test_pages_hold_every_journal_once_whatever_is_copied(ground: Ground) -> None:
    ids = ["a", "b", "c", "ä", "😀", "d"]
    for id in ids:
        ground.append(id, 1)
    ground.put("b", Purge())
    ground.put("x", Delete(3))
    ground.put("c", Purge())
    ground.append("c", 1)
    ground.log.append(TOPIC, 0, [Record(b"\xff", b""), Record(None, b"")], part=PART)
    there = sorted(set(ids) - {"b"}, key=str.encode)
    for end in range(ground.partition.end() + 1):
        ground.copy(end)
        for size in (1, 2, 3, 100):
            found: list[str] = []
            while page := journal_ids(ground.partition, found[-1] if found else None, size):
                assert len(page) <= size
                found += page
            assert found == there, (end, size)

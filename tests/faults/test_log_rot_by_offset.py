"""Reads by offset in files that rot: nothing rotten is given out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from headwater.core.errors import Damaged
from headwater.log.embedded import scattered
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a few records reach: batches are remembered and forgotten, views closed, ends of batches searched for."""
    for name, value in (("_SMALL", 200), ("_NEAR", 2), ("_VIEWS", 2), ("_REMEMBERED", 6)):
        monkeypatch.setattr(scattered, name, value)


def record(offset: int, keys: int = 5) -> Record:
    return Record(b"%d" % (offset % keys), b"%d " % offset * (offset % 11), timestamp=offset, offset=offset)


def fill(log: EmbeddedLog, sizes: list[int], *, segment: int = 2000) -> dict[int, Record]:
    log.create_topic("t", settings=TopicSettings(segment=segment))
    end = 0
    for size in sizes:
        log.append("t", 0, [record(offset) for offset in range(end, end + size)])
        end += size
    return {offset: record(offset) for offset in range(end)}


def rotten(files: list[Path], random: Random) -> Iterator[str]:
    """Spoil one of the files in each way, one after the other; it is as before when the next comes."""
    for path in files:
        before = path.read_bytes()
        for at in random.sample(range(len(before)), 60):
            path.write_bytes(before[:at] + bytes([before[at] ^ 1 << random.randrange(8)]) + before[at + 1 :])
            yield f"{path.name}: byte {at} of {len(before)}"
        for cut in (0, len(before) // 2, len(before) - 1):
            path.write_bytes(before[:cut] + bytes(len(before) - cut))
            yield f"{path.name}: zeros from {cut}"
        path.write_bytes(before)


@pytest.mark.parametrize("compacted", [False, True], ids=["dense", "compacted"])
def test_rotten_bytes_are_never_given_out(memory_path: Path, narrow: None, compacted: bool) -> None:
    with EmbeddedLog(memory_path) as log:
        model = fill(log, [1, 2, 60, 1, 1, 30, 5, 1, 1])
        if compacted:
            log.compact("t", 0)
            model = {one.offset or 0: one for one in log.read("t", 0, 0, limit=1000)}
            assert 5 < len(model) < 60
    end, random, told = 102, Random(1), 0
    folder = memory_path / "log" / "t" / "0"
    for what in rotten(sorted(folder.glob("*.log")), random):
        with EmbeddedLog(memory_path, read_only=True) as log:
            for offset in random.sample(range(end), 30):
                try:
                    assert log.read_at("t", 0, [offset]) == [model.get(offset)], what
                except Damaged:
                    told += 1
    assert told > 100


@pytest.mark.parametrize("compacted", [False, True], ids=["dense", "compacted"])
def test_a_rotten_sidecar_makes_no_difference(memory_path: Path, narrow: None, compacted: bool) -> None:
    with EmbeddedLog(memory_path) as log:
        model = fill(log, [1, 2, 60, 1, 1, 30, 5, 1, 1])
        if compacted:
            log.compact("t", 0)
            model = {one.offset or 0: one for one in log.read("t", 0, 0, limit=1000)}
    end, random = 102, Random(2)
    folder = memory_path / "log" / "t" / "0"
    sidecars = [path for path in sorted(folder.glob("*.pos")) if path.stat().st_size > 60]
    assert sidecars
    for what in rotten(sidecars, random):
        with EmbeddedLog(memory_path, read_only=True) as log:
            asked = random.sample(range(end), 30)
            assert log.read_at("t", 0, asked) == [model.get(offset) for offset in asked], what
    for path in sidecars:
        path.unlink()
    with EmbeddedLog(memory_path, read_only=True) as log:
        assert log.read_at("t", 0, list(range(end))) == [model.get(offset) for offset in range(end)]

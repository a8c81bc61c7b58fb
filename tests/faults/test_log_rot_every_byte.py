"""Every byte of a small log rots, one after the other: no read, scan or compaction passes over the damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import Damaged
from headwater.log.embedded.check import check
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock

BOOT = b"b" * 16


def opened(path: Path, *, read_only: bool = False) -> EmbeddedLog:
    return EmbeddedLog(path, clock=ManualClock(), boot=BOOT, read_only=read_only)


def rows(log: EmbeddedLog, start: int, end: int | None = None) -> tuple[list[int], bool]:
    """The offsets that a scan gives, and whether it ends with `Damaged`."""
    found: list[int] = []
    try:
        for batch in log.scan("t", 0, start, end):
            found += batch.column("offset").to_pylist()
    except Damaged as error:
        return found, "damaged at byte" in error.message
    return found, False


@pytest.fixture
def compacted(memory_path: Path) -> Path:
    """A log whose first segment was compacted: five batches with holes between and within them, the only record of most of its keys."""
    with opened(memory_path) as log:
        log.create_topic("t", settings=TopicSettings(segment=1200))
        for number in range(5):
            keys = ["again", f"a{number}", "again", f"b{number}", "again", f"c{number}", "again"]
            values = {key: b"x" * 300 if key == "again" else b"value of " + key.encode() for key in keys}
            log.append("t", 0, [Record(key.encode(), values[key], timestamp=1000 + 10 * number + i) for i, key in enumerate(keys)])
        log.append("t", 0, [Record(b"last", b"")])
        log.compact("t", 0)
        assert len(log.reader("t", 0).manifest().segments) == 2  # type: ignore[union-attr]
    return memory_path


def segment(path: Path) -> Path:
    return next(one for one in sorted((path / "log" / "t" / "0").glob("*.log")) if "-" in one.stem)


def test_a_scan_of_a_damaged_compacted_segment_is_never_silently_short(compacted: Path) -> None:
    with opened(compacted, read_only=True) as log:
        truth, damaged = rows(log, 0)
    assert not damaged
    assert len(truth) == 17
    path = segment(compacted)
    whole = path.read_bytes()
    for at in range(len(whole)):
        rotten = bytearray(whole)
        rotten[at] ^= 1
        path.write_bytes(rotten)
        with opened(compacted, read_only=True) as log:
            found, damaged = rows(log, 0)
            assert damaged, at
            assert found == truth[: len(found)], at
            with pytest.raises(Damaged):
                while True:
                    found.append(log.read("t", 0, found[-1] + 1 if found else 0)[0].offset or 0)
            assert found == truth[: len(found)], at


def test_damage_is_never_compacted_away(compacted: Path) -> None:
    with opened(compacted) as log:
        for i in range(3):
            log.append("t", 0, [Record(b"a1", b"y" * 1200), Record(b"new-%d" % i, b"y")])
    path = segment(compacted)
    whole = path.read_bytes()
    for at in (*range(0, len(whole), 7), len(whole) - 1):
        rotten = bytearray(whole)
        rotten[at] ^= 4
        path.write_bytes(rotten)
        before = sorted(one.name for one in path.parent.glob("*.log"))
        with opened(compacted) as log, pytest.raises(Damaged):
            log.compact("t", 0)
        assert sorted(one.name for one in path.parent.glob("*.log")) == before
        assert path.read_bytes() == rotten
    path.write_bytes(whole)
    with opened(compacted) as log:
        log.compact("t", 0)
        assert {f"{letter}{number}".encode() for letter in "abc" for number in range(5)} <= {one.key for one in log.read("t", 0, 0)}


def test_an_offset_is_never_found_by_a_timestamp_that_was_not_checked(compacted: Path) -> None:
    asked = (0, 1003, 1015, 1030, 1041, 2000, 3000)
    with opened(compacted, read_only=True) as log:
        truth = [log.offset_at("t", 0, time) for time in asked]
    active = max(path for path in segment(compacted).parent.glob("*.log"))
    for path in (segment(compacted), active):
        whole = path.read_bytes()
        for at in range(len(whole)):
            rotten = bytearray(whole)
            rotten[at] ^= 1 << at % 8
            path.write_bytes(rotten)
            with opened(compacted, read_only=True) as log:
                for time, expected in zip(asked, truth, strict=True):
                    try:
                        assert log.offset_at("t", 0, time) == expected, (path, at, time)
                    except Damaged:
                        continue
        path.write_bytes(whole)


def test_every_flipped_byte_is_reported_and_never_returned(memory_path: Path) -> None:
    with opened(memory_path) as log:
        log.create_topic("t")
        for i in range(3):
            log.append("t", 0, [Record(b"k", f"{i}-{j}".encode()) for j in range(2)])
    (path,) = (memory_path / "log" / "t" / "0").glob("*.log")
    whole = path.read_bytes()
    for at in range(len(whole)):
        rotten = bytearray(whole)
        rotten[at] ^= 0x10
        path.write_bytes(rotten)
        reader = opened(memory_path, read_only=True)
        batch = at * 3 // len(whole)
        damage = check(reader.reader("t", 0)).damage
        assert damage[0].offset == 2 * batch
        assert damage[0].file == str(path)
        if batch:
            assert [one.offset for one in reader.read("t", 0, 0)] == list(range(2 * batch))
        with pytest.raises(Damaged, match="damaged at byte"):
            reader.read("t", 0, 2 * batch)
        with pytest.raises(Damaged):
            list(reader.scan("t", 0, 2 * batch))
        reader.close()

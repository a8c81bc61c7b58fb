"""Compacted segments that are damaged: no range of records is short in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import Damaged
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
def compacted(tmp_path: Path) -> Path:
    """A log whose first segment was compacted: five batches with holes between and within them, the only record of most of its keys."""
    with opened(tmp_path) as log:
        log.create_topic("t", settings=TopicSettings(segment=1200))
        for number in range(5):
            keys = ["again", f"a{number}", "again", f"b{number}", "again", f"c{number}", "again"]
            values = {key: b"x" * 300 if key == "again" else b"value of " + key.encode() for key in keys}
            log.append("t", 0, [Record(key.encode(), values[key], timestamp=1000 + 10 * number + i) for i, key in enumerate(keys)])
        log.append("t", 0, [Record(b"last", b"")])
        log.compact("t", 0)
        assert len(log.reader("t", 0).manifest().segments) == 2  # type: ignore[union-attr]
    return tmp_path


def segment(path: Path) -> Path:
    return next(one for one in sorted((path / "log" / "t" / "0").glob("*.log")) if "-" in one.stem)


@pytest.mark.parametrize("bit", [1, 2, 8, 128])
def test_no_range_of_a_damaged_compacted_segment_is_short(compacted: Path, bit: int) -> None:
    """A wrong offset must not move a record out of the range that is asked for."""
    with opened(compacted, read_only=True) as log:
        truth, _ = rows(log, 0)
        end = log.bounds("t", 0).end
    path = segment(compacted)
    whole = path.read_bytes()
    heads = [at for at in range(len(whole) - 8) if int.from_bytes(whole[at : at + 8], "big") in truth and whole[at : at + 6] == bytes(6)]
    for at in heads:
        rotten = bytearray(whole)
        rotten[at + 7] ^= bit
        path.write_bytes(rotten)
        with opened(compacted, read_only=True) as log:
            for first in range(0, end, 3):
                for last in (first + 1, first + 5, end):
                    found, damaged = rows(log, first, min(last, end))
                    expected = [one for one in truth if first <= one < last]
                    assert found == (expected[: len(found)] if damaged else expected), (at, first, last)

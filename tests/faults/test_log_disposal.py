"""Drained segments are disposed of by processes that die, beside others that read: nobody dies with them, and no deleted byte stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headwater.core.disposal import DISPOSALS, Disposal, overwrites
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.check import check
from headwater.log.embedded.disposal import SPARES
from headwater.log.embedded.keeper import settle
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import DyingFiles

BOOT, OTHER_BOOT = b"b" * 16, b"o" * 16
ALL = "SOAK_POWER_ROUNDS" in os.environ


def opened(path: Path, files: Any = None, boot: bytes = BOOT) -> EmbeddedLog:
    return EmbeddedLog(path, clock=ManualClock(wakes=False), boot=boot, files=files)


def value(offset: int) -> bytes:
    return b"<%d>" % offset + b"x" * 500


def append(log: EmbeddedLog, count: int) -> None:
    end = log.bounds("t", 0).end
    for offset in range(end, end + count):
        log.append("t", 0, [Record(b"k%d" % (offset % 2), value(offset))])


def left(folder: Path) -> set[int]:
    """The offsets of the records of which a byte is left in any file below."""
    pieces = [piece for path in folder.rglob("*") if path.is_file() for piece in path.read_bytes().split(b"<")[1:]]
    return {int(number) for number, end, _ in (piece.partition(b">") for piece in pieces) if end and number.isdigit()}


def live(path: Path, disposal: Disposal, files: Any) -> None:
    """A life in a process of its own, which ends by a signal or by its end; nothing is closed."""
    if not (child := os.fork()):
        log = opened(path, files)
        append(log, 8)
        log.delete_before("t", 0, 10)
        append(log, 8)
        log.claim("t", 0).compact()
        writer = log.claim("t", 0)
        writer.delete_before(log.bounds("t", 0).end)
        writer.roll()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)


@pytest.mark.parametrize("disposal", DISPOSALS[1:] if ALL else ["truncate", "secure-reset", "secure-delete"])
def test_whenever_a_process_dies_the_next_one_ends_its_disposal(memory_path: Path, disposal: Disposal) -> None:
    moment = 1
    while True:
        path = memory_path / f"{moment}"
        with opened(path) as log:
            log.create_topic("t", settings=TopicSettings(segment=1500, disposal=disposal))
            append(log, 12)
        live(path, disposal, DyingFiles(moment))
        folder = path / "log" / "t" / "0"
        with opened(path, boot=OTHER_BOOT if moment % 2 else BOOT) as log:
            writer = log.claim("t", 0)
            now = manifests.load(folder)
            assert now is not None
            bounds = log.bounds("t", 0)
            assert bounds.start in (0, 10, bounds.end)
            if overwrites(disposal):
                assert min(left(folder), default=bounds.end) >= min(bounds.start, now.segments[0].base)
            records = {record.offset: record.value for record in log.read("t", 0, bounds.start, limit=100)}
            assert all(found == value(offset or 0) for offset, found in records.items())
            assert bounds.start or set(range(12)) <= set(records)  # acknowledged before
            assert not now.drained
            assert len(set(now.spares)) == len(now.spares) <= SPARES
            assert {path.stem for path in folder.glob("*.spare")} <= {*now.spares}
            assert not any(path.read_bytes().strip(b"\0") for path in folder.glob("*.spare"))
            (last,) = writer.append([Record(b"k", value(bounds.end))])
            assert last == bounds.end
            writer.roll()
            (last,) = writer.append([Record(b"k", value(last + 1))])
            assert log.read("t", 0, last)[0].value == value(last)
            assert not check(log.reader("t", 0)).damage
            ended = bounds.start == bounds.end
        if ended:
            break
        moment += 3 if not ALL else 1
    assert moment > 60


READING = """
import sys
from headwater.log.embedded.log import EmbeddedLog

data, boot = sys.argv[1], sys.argv[2].encode()
log = EmbeddedLog(data, read_only=True, boot=boot)
batches = list(log.scan("t", 0, 0, 12))
single = log.read_at("t", 0, [0, 5, 11])
scan = log.scan("t", 0, 0, batch=1)
first = next(scan)
print("mapped", flush=True)
for line in sys.stdin:
    found = [value for batch in batches for value in batch.column("value").to_pylist()]
    assert found == [b"<%d>" % n + b"x" * 500 for n in range(12)], found
    assert first.column("value").to_pylist() == found[:1]
    try:
        print(next(scan).column("offset").to_pylist(), flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""


@pytest.mark.parametrize("disposal", DISPOSALS)
def test_a_reader_of_another_process_keeps_its_records_and_its_life(memory_path: Path, disposal: Disposal) -> None:
    log = opened(memory_path)
    log.create_topic("t", settings=TopicSettings(segment=1500, disposal=disposal))
    append(log, 20)
    words = [sys.executable, "-c", READING, str(memory_path), BOOT.decode()]
    reader = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert reader.stdin is not None
    assert reader.stdout is not None
    assert reader.stdout.readline() == "mapped\n", reader.communicate()[1]
    log.delete_before("t", 0, 19)
    folder = memory_path / "log" / "t" / "0"
    now = manifests.load(folder)
    assert now is not None
    assert bool(now.drained) is (disposal != "delete")
    append(log, 20)  # what has become a spare is written anew
    reader.stdin.write("look\n")
    reader.stdin.flush()
    assert reader.stdout.readline() == "OffsetGone\n"
    _, said = reader.communicate("look\n")
    assert reader.returncode == 0, said or f"the reader died of signal {-reader.returncode}"
    settle([log.partition("t", 0)])
    now = manifests.load(folder)
    assert now is not None
    assert not now.drained
    if overwrites(disposal):
        assert min(left(folder)) >= now.segments[0].base
    log.close()


def test_a_child_that_is_forked_beside_a_reader_does_not_keep_its_files(memory_path: Path) -> None:
    log = opened(memory_path)
    log.create_topic("t", settings=TopicSettings(segment=1500, disposal="secure-delete"))
    append(log, 20)
    reader = opened(memory_path)
    reader.read("t", 0, 0)
    reader.read("t", 0, 19)
    go, come = os.pipe(), os.pipe()
    if not (child := os.fork()):
        os.write(come[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
    os.read(come[0], 1)
    reader.close()
    log.delete_before("t", 0, 19)
    now = manifests.load(memory_path / "log" / "t" / "0")
    os.write(go[1], b"x")
    os.waitpid(child, 0)
    for fd in (*go, *come):
        os.close(fd)
    assert now is not None
    assert not now.drained
    log.close()

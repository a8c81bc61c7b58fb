"""Rolling and deleting under a claim: with a disk that fails at each call, a process that dies at each call, and a claim that is lost."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from headwater.core.errors import Fenced, HeadwaterError
from headwater.core.files import Files
from headwater.log.embedded.check import check
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.manifest import Manifest
from headwater.log.embedded.page import SegmentPosition
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import DyingFiles, FailingFiles, crash

BOOT, OTHER_BOOT = b"b" * 16, b"o" * 16


class Owner:
    """The life of an owner. What it was told is kept as it goes: it may end at any call."""

    def __init__(self, data: Path, files: Files, note: Callable[[str], object] = lambda text: None) -> None:
        self.log = EmbeddedLog(data, files=files, clock=ManualClock(wakes=False), boot=BOOT)
        self._note = note
        self.acknowledged: dict[int, bytes] = {}
        self.start = self.going = 0  # told to be the start; asked for, and perhaps the start
        self.errors: list[HeadwaterError] = []

    def live(self) -> None:
        writer, numbers = self.log.claim("t", 0), itertools.count()

        def append(count: int) -> None:
            values = [b"value-%d" % next(numbers) for _ in range(count)]  # each is its own key: compaction keeps all of them
            for offset, value in zip(writer.append([Record(value, value) for value in values]), values, strict=True):
                self.acknowledged[offset] = value
                self._note(f"A {offset} {value.decode()}")

        def delete(offset: int) -> None:
            self.going = max(self.going, offset)
            self._note(f"G {offset}")
            self.start = writer.delete_before(offset)
            self._note(f"D {self.start}")

        steps: list[Callable[[], object]] = [
            lambda: append(3),
            writer.roll,
            lambda: append(2),
            lambda: delete(4),  # one segment whole, and a record of the active one
            writer.roll,
            writer.roll,  # of a segment that holds nothing
            lambda: append(2),
            lambda: delete(self.log.bounds("t", 0).end),  # the active segment is drained
            writer.roll,  # and given back
            lambda: append(2),
            writer.compact,
            writer.roll,
            lambda: append(1),
        ]
        for step in steps:
            try:
                step()
            except HeadwaterError as error:  # anything else is a bug: only our errors may come out
                self.errors.append(error)


def prepared(data: Path) -> None:
    with EmbeddedLog(data, clock=ManualClock(wakes=False), boot=BOOT) as log:
        log.create_topic("t", settings=TopicSettings(segment=1 << 20))


def verify(data: Path, boot: bytes, acknowledged: dict[int, bytes], start: int, going: int) -> None:
    with EmbeddedLog(data, clock=ManualClock(wakes=False), boot=boot) as log:
        writer = log.claim("t", 0)  # first, because its recovery may adopt records whose outcome was unknown
        bounds = log.bounds("t", 0)
        assert start <= bounds.start <= going
        found = {record.offset: record.value for record in log.read("t", 0, bounds.start, limit=10_000)}
        for offset, value in acknowledged.items():
            assert offset < bounds.start or found[offset] == value, offset
        assert writer.roll() == bounds.end
        assert writer.delete_before(bounds.end) == bounds.end
        (last,) = writer.append([Record(b"after", b"after")])
        assert writer.roll() == last + 1
        assert not check(log.reader("t", 0)).damage
        manifest = log.reader("t", 0).manifest()
        assert manifest is not None
        allowed = {"lock", "live", "commit", "manifest", "compacting"}
        allowed |= {name for segment in manifest.segments for name in (f"{segment.stem}.log", f"{segment.stem}.pos")}
        assert {path.name for path in (data / "log" / "t" / "0").iterdir() if path.suffix != ".cut"} <= allowed
        assert [segment.base for segment in manifest.segments] == [last, last + 1]  # what was drained is given back


def test_a_sound_life_gives_back_what_is_drained(memory_path: Path) -> None:
    prepared(memory_path)
    files = FailingFiles()
    owner = Owner(memory_path, files)
    owner.live()
    assert (owner.errors, len(owner.acknowledged), owner.start) == ([], 10, 7)
    manifest = owner.log.reader("t", 0).manifest()
    assert manifest is not None
    assert [segment.base for segment in manifest.segments] == [7, 9]
    owner.log.close()
    verify(memory_path, BOOT, owner.acknowledged, owner.start, owner.going)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("forever", [False, True], ids=["once", "from-then-on"])
@pytest.mark.parametrize("boot", [BOOT, OTHER_BOOT], ids=["same-boot", "other-boot"])
def test_whatever_call_fails_nothing_acknowledged_is_lost(memory_path: Path, number: int, forever: bool, boot: bytes) -> None:
    for n in range(1, 1000):
        data = memory_path / str(n)
        prepared(data)
        files = FailingFiles(n, forever=forever, number=number)
        owner = Owner(data, files)
        try:
            owner.live()
        except HeadwaterError:
            assert not owner.acknowledged  # the claim itself has failed
        if not files.failed:
            assert n > 40
            assert not owner.errors
            return
        crash(owner.log)
        verify(data, boot, owner.acknowledged, owner.start, owner.going)
    raise AssertionError("Every life has failed.")


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside-another"])
def test_whenever_the_owner_is_killed_nothing_acknowledged_is_lost(memory_path: Path, beside: bool) -> None:
    """The next one finds it by recovery, or, where another process has stayed, goes on from the half of a step that is done."""
    for n in range(1, 1000):
        data, told = memory_path / str(n), memory_path / f"{n}.told"
        prepared(data)
        witness = EmbeddedLog(data, clock=ManualClock(wakes=False), boot=BOOT) if beside else None
        if witness is not None:
            witness.partition("t", 0)
        child = os.fork()
        if not child:
            code = 1
            try:
                with told.open("w", buffering=1) as notes:
                    owner = Owner(data, DyingFiles(n), lambda text: notes.write(text + "\n"))
                    owner.live()
                code = 2 if owner.errors else 0
            finally:
                os._exit(code)
        status = os.waitpid(child, 0)[1]
        acknowledged, start, going = {}, 0, 0
        for line in told.read_text().splitlines():
            kind, *words = line.split()
            if kind == "A":
                acknowledged[int(words[0])] = words[1].encode()
            elif kind == "G":
                going = max(going, int(words[0]))
            else:
                start = int(words[0])
        if witness is not None:
            writer = witness.claim("t", 0)  # finishes what the dead one has begun
            writer.append([Record(b"k", b"survivor")])
            with pytest.raises(Fenced):
                witness.writer("t", 0, writer.epoch - 1).roll()
            witness.close()
        verify(data, BOOT, acknowledged, start, going)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            assert n > 40
            return
        assert os.WTERMSIG(status) == signal.SIGKILL
    raise AssertionError("Every owner was killed.")


STALE = """
import sys
from headwater.core.errors import Fenced
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.manifest import Manifest
from headwater.log.embedded.page import SegmentPosition
from headwater.log.record import Record

def halt():
    print("halted", flush=True)
    sys.stdin.readline()

log = EmbeddedLog(sys.argv[1])
writer = log.claim("t", 0)
for n in range(6):
    writer.append([Record(b"k", b"%d" % n)])
writer.roll()
if sys.argv[2] == "compact":  # in its midst: the new segment is written, and not yet in its place
    from headwater.log.embedded import compaction
    swap = compaction.swap
    compaction.swap = lambda *args: (halt(), swap(*args))[1]
else:
    halt()
try:
    {"roll": writer.roll, "delete": lambda: writer.delete_before(3), "compact": writer.compact,
     "append": lambda: writer.append([Record(b"k", b"stale")])}[sys.argv[2]]()
except Fenced as fenced:
    print("fenced", fenced.hint, flush=True)
"""


def layout(log: EmbeddedLog) -> Manifest:
    """The manifest without the durable end, which is noted in it within a second after an append, and without the count of its notes."""
    manifest = log.reader("t", 0).manifest()
    assert manifest is not None
    return msgspec.structs.replace(manifest, generation=0, durable=SegmentPosition(0, 0, 0))


@pytest.mark.parametrize("step", ["append", "roll", "delete", "compact"])
def test_an_owner_that_was_replaced_while_it_halted_changes_nothing(tmp_path: Path, step: str) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t", settings=TopicSettings(segment=1 << 20))
        stale = subprocess.Popen(
            [sys.executable, "-c", STALE, str(tmp_path), step], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert stale.stdin is not None
        assert stale.stdout is not None
        assert stale.stdout.readline() == "halted\n"
        newer = log.claim("t", 0)
        newer.append([Record(b"k", b"newer")])
        before = log.bounds("t", 0), log.read("t", 0, 0), layout(log)
        told, _ = stale.communicate("\n", timeout=240)
        assert told.startswith("fenced")
        assert (log.bounds("t", 0), log.read("t", 0, 0), layout(log)) == before
        files = {path.name for path in (tmp_path / "log" / "t" / "0").iterdir() if path.suffix == ".log"}
        assert files == {f"{segment.stem}.log" for segment in before[2].segments}
        newer.append([Record(b"k", b"on")])
        assert newer.delete_before(3) == 3

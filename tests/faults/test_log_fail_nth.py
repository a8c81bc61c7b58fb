"""Fail the Nth call that changes the disk, for every N, over everything that the embedded log does; then open it again and look."""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path

import pytest

from headwater.core.disposal import DISPOSALS, Disposal
from headwater.core.errors import HeadwaterError
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.check import check
from headwater.log.embedded.disposal import SPARES
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import FailingFiles, crash

ALL = "SOAK_POWER_ROUNDS" in os.environ
BOOT, OTHER_BOOT = b"b" * 16, b"o" * 16


class Story:
    """A life of a partition, told with a failing disk: what was acknowledged, and what was at least tried."""

    def __init__(self, data: Path, files: FailingFiles, disposal: Disposal = "delete") -> None:
        self.data, self.files, self.clock = data, files, ManualClock(wakes=False)
        self.settings = TopicSettings(segment=200, disposal=disposal)
        self.acknowledged: dict[int, bytes] = {}
        self.last: dict[bytes, int] = {}
        self.tried: set[bytes] = set()
        self.start = 0
        self.compacted_below = 0
        self.errors: list[HeadwaterError] = []
        self._values = itertools.count()
        self.log = self._open()

    def _open(self) -> EmbeddedLog:
        return EmbeddedLog(self.data, files=self.files, clock=self.clock, boot=BOOT)

    def tell(self) -> None:
        self._try(lambda: self.log.create_topic("t", settings=self.settings))
        for size in (1, 3, 1, 2):
            self.append(size)
        self.clock.advance(2)  # the next append replaces the manifest
        self.append(1)
        self.reopen()
        self.append(2)
        self._try(lambda: setattr(self, "start", self.log.delete_before("t", 0, 3)))
        for _ in range(4):
            self.append(3)
        end = max(self.acknowledged, default=-1) + 1
        self.compacted_below = end  # even when it fails: a part of the segments may have been compacted
        self._try(lambda: self.log.compact("t", 0, end))
        self.append(1)
        self.reopen()
        self.append(1)
        self.die_in_the_middle_of_a_write()
        self.append(2)
        self._try(self.claim)
        self.log.close()

    def _try(self, step: object) -> None:
        try:
            step()  # type: ignore[operator]
        except HeadwaterError as error:  # anything else is a bug: only our errors may come out
            self.errors.append(error)

    def append(self, size: int) -> None:
        values = [b"value-%d" % next(self._values) for _ in range(size)]
        self.tried.update(values)

        def step() -> None:
            records = [Record(b"key-%d" % (i % 2), value) for i, value in enumerate(values)]
            offsets = self.log.append("t", 0, records)
            self.acknowledged.update(zip(offsets, values, strict=True))
            self.last.update((record.key or b"", offset) for record, offset in zip(records, offsets, strict=True))

        self._try(step)

    def claim(self) -> None:
        self.log.claim("t", 0)

    def die_in_the_middle_of_a_write(self) -> None:
        """As kill -9 would: nothing is settled or closed, and half a batch lies behind the tail."""
        folder = self.data / "log" / "t" / "0"
        crash(self.log)
        manifest = manifests.load(folder)
        if manifest is not None:  # a segment gets its first byte when the manifest names it
            with manifest.active.log(folder).open("ab") as file:
                file.write(b"\0\0\0\0\0\0\0\1half a batch")
        self.log = self._open()

    def reopen(self) -> None:
        self.log.close()
        self.log = self._open()


def verify(story: Story, boot: bytes) -> None:
    """After opening again with a sound disk: acknowledged records are there, nothing else than what was tried, no leftovers."""
    with EmbeddedLog(story.data, clock=story.clock, boot=boot) as log:
        log.create_topic("t", settings=story.settings)
        writer = log.claim("t", 0)
        (last,) = writer.append([Record(b"after", b"after")])
        found = {record.offset: record.value for record in log.read("t", 0, log.bounds("t", 0).start, limit=10_000)}
        assert found.pop(last) == b"after"
        assert set(found.values()) <= story.tried
        start = log.bounds("t", 0).start
        assert start in (0, 3)
        for offset, value in story.acknowledged.items():
            if offset >= max(start, story.compacted_below):
                assert found.get(offset) == value
            elif offset in found:
                assert found[offset] == value
        for offset in story.last.values():
            assert offset < start or found.get(offset) == story.acknowledged[offset]
        assert not check(log.reader("t", 0)).damage
        folder = story.data / "log" / "t" / "0"
        manifest = log.reader("t", 0).manifest()
        assert manifest is not None
        allowed = {"lock", "live", "commit", "manifest", "compacting"}
        allowed |= {name for segment in manifest.segments for name in (f"{segment.stem}.log", f"{segment.stem}.pos")}
        allowed |= {f"{stem}.spare" for stem in manifest.spares}
        assert not manifest.drained  # it was disposed of by who opened the partition
        assert len(set(manifest.spares)) == len(manifest.spares) <= SPARES
        for path in folder.glob("*.spare"):
            assert not path.read_bytes().strip(b"\0")
        assert {path.name for path in folder.iterdir() if path.suffix != ".cut"} <= allowed


def calls_of_a_sound_story(data: Path, disposal: Disposal) -> int:
    files = FailingFiles()
    story = Story(data, files, disposal)
    story.tell()
    assert not story.errors
    assert len(story.acknowledged) == 26
    verify(story, BOOT)
    return files.calls


@pytest.mark.parametrize("disposal", [*DISPOSALS] if ALL else ["delete", "reset", "secure-truncate"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("forever", [False, True], ids=["once", "from-then-on"])
@pytest.mark.parametrize("boot", [BOOT, OTHER_BOOT], ids=["same-boot", "other-boot"])
def test_whatever_call_fails_acknowledged_records_survive(
    memory_path: Path, number: int, forever: bool, boot: bytes, disposal: Disposal
) -> None:
    total = calls_of_a_sound_story(memory_path / "sound", disposal)
    assert total > 100
    for n in range(1, total + 1):
        story = Story(memory_path / f"{n}", FailingFiles(n, forever=forever, number=number), disposal)
        story.tell()
        verify(story, boot)

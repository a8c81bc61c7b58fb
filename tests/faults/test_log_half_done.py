"""A process dies or fails between two steps of a change; the next one comes another way, and must find it half done."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.core.errors import Damaged, HeadwaterError, OutcomeUnknown
from headwater.core.files import FileLock, Files
from headwater.log.embedded.check import check
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.transporter import import_transporter
from headwater.log.encoding import encode
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import FailingFiles, crash

BOOT = b"b" * 16
HOUR = 3_600_000


class FailsAfterRename(Files):
    """The directory sync behind the manifest's rename fails: the new manifest is there, and its writer never gets to the page."""

    def __init__(self) -> None:
        self.armed = self.renamed = False

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        self.renamed = self.armed

    def sync_dir(self, path: Path) -> None:
        if self.renamed:
            self.renamed = self.armed = False
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync_dir(path)


def record(text: str) -> Record:
    return Record(b"k", text.encode())


def opened(path: Path, clock: ManualClock, files: Files | None = None) -> EmbeddedLog:
    return EmbeddedLog(path, files=files, clock=clock, boot=BOOT)


def values(log: EmbeddedLog) -> list[bytes | None]:
    return [one.value for one in log.read("t", 0, log.bounds("t", 0).start, limit=1000)]


class HalfRoll:
    """A period roller that got no further than its manifest's rename, and another process beside it."""

    def __init__(self, path: Path) -> None:
        self.clock, self.files = ManualClock(wakes=False), FailsAfterRename()
        self.roller = opened(path, self.clock, self.files)
        self.roller.create_topic("t", settings=TopicSettings(period=HOUR))
        self.other = opened(path, self.clock)
        self.other.append("t", 0, [record("first")])
        self.roller.append("t", 0, [record("second")])
        self.clock.advance(3600)
        self.files.armed = True
        with pytest.raises(HeadwaterError):
            self.roller.append("t", 0, [record("refused")])
        assert not self.files.armed

    def the_clock_steps_back(self) -> None:
        self.clock.advance(-3600)


@pytest.fixture
def half(tmp_path: Path) -> HalfRoll:
    return HalfRoll(tmp_path)


@pytest.mark.parametrize("who", ["other", "roller"])
def test_a_half_done_roll_is_finished_whatever_the_clock_says(half: HalfRoll, who: str, tmp_path: Path) -> None:
    half.the_clock_steps_back()
    log: EmbeddedLog = getattr(half, who)
    assert log.append("t", 0, [record("third")])[0] == 2
    crash(half.roller)
    crash(half.other)
    with opened(tmp_path, half.clock) as again:
        assert again.append("t", 0, [record("fourth")])[0] == 3
        assert values(again) == [b"first", b"second", b"third", b"fourth"]
        assert not check(again.reader("t", 0)).damage


def test_deleting_what_a_half_done_roll_has_sealed_keeps_the_partition_writable(half: HalfRoll) -> None:
    assert half.other.delete_before("t", 0, 2) == 2
    for number, log in enumerate((half.other, half.roller), start=2):
        assert log.append("t", 0, [record("goes on")])[0] == number
    assert values(half.other) == [b"goes on"] * 2


def test_a_failed_sync_beside_a_half_done_roll_seals_the_right_segment(tmp_path: Path) -> None:
    clock, files = ManualClock(wakes=False), FailsAfterRename()
    roller = opened(tmp_path, clock, files)
    roller.create_topic("t", settings=TopicSettings(period=HOUR))

    class FailsWhileAnotherRolls(Files):
        armed = False

        def datasync(self, fd: int) -> None:
            if self.armed:
                self.armed = False
                clock.advance(3600)
                files.armed = True
                with pytest.raises(HeadwaterError):
                    roller.append("t", 0, [record("refused")])
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            super().datasync(fd)

    slow_files = FailsWhileAnotherRolls()
    slow = opened(tmp_path, clock, slow_files)
    slow.append("t", 0, [record("first")])
    slow_files.armed = True
    with pytest.raises(OutcomeUnknown):
        slow.append("t", 0, [record("second")])
    assert roller.append("t", 0, [record("third")])[0] == 2
    assert values(roller) == [b"first", b"second", b"third"]  # the roller had synced the second
    assert not check(roller.reader("t", 0)).damage
    crash(roller)
    crash(slow)
    with opened(tmp_path, clock) as again:
        again.append("t", 0, [record("fourth")])
        assert values(again) == [b"first", b"second", b"third", b"fourth"]


def test_a_half_done_claim_counts_for_everybody(tmp_path: Path) -> None:
    clock, files = ManualClock(wakes=False), FailsAfterRename()
    log = opened(tmp_path, clock, files)
    log.create_topic("t")
    other = opened(tmp_path, clock)
    first = other.claim("t", 0)
    first.append([record("first")])
    files.armed = True
    with pytest.raises(HeadwaterError):
        log.claim("t", 0)
    with pytest.raises(HeadwaterError, match="claim 2"):
        first.append([record("refused")])
    again = other.claim("t", 0)
    assert again.epoch == 3
    assert again.append([record("second")])[0] == 1


def transporter_log(folder: Path) -> Path:
    folder.mkdir()
    record_bytes = b"".join(
        offset.to_bytes(8, "big") + (8 + 3 + 5).to_bytes(4, "big") + (7).to_bytes(8, "big") + b"\0"
        + (3).to_bytes(4, "big") + b"key" + (5).to_bytes(4, "big") + b"value"
        for offset in range(3)
    )  # fmt: skip
    (folder / f"{0:020d}.log").write_bytes(record_bytes)
    return folder


def test_an_import_that_dies_before_the_tail_moves_is_not_written_over(tmp_path: Path) -> None:
    source = transporter_log(tmp_path / "transporter")
    clock, files = ManualClock(wakes=False), FailsAfterRename()
    data = tmp_path / "data"
    log = opened(data, clock, files)
    log.create_topic("t", settings=TopicSettings(segment=1 << 30))
    other = opened(data, clock)
    other.partition("t", 0)
    renames = [0]
    rename = files.rename

    def counted(old: Path, new: Path) -> None:
        if new.name == "manifest":
            renames[0] += 1
            files.armed = renames[0] == 2  # the first is the generation's, the second puts the segments in their place
        rename(old, new)

    files.rename = counted  # type: ignore[method-assign]
    with pytest.raises((HeadwaterError, OSError)):
        import_transporter(log, source, "t")
    assert other.append("t", 0, [record("after")])[0] == 3
    assert values(other) == [b"value"] * 3 + [b"after"]


def test_bytes_older_than_a_descriptor_are_written_again_after_a_writer_died_in_the_middle_of_its_write(tmp_path: Path) -> None:
    """Another process may have consumed the error of a lost write: whoever syncs on behalf of the dead writes its bytes first."""
    clock = ManualClock(wakes=False)
    dead = opened(tmp_path, clock)
    dead.create_topic("t")
    dead.append("t", 0, [record("first")])
    partition = dead.partition("t", 0)
    partition.write(encode([record("not synced")], now=1))
    partition.page.dirty = True  # and it died in the middle of the next one

    class Writes(Files):
        def __init__(self) -> None:
            self.bytes: list[bytes] = []

        def pwritev(self, fd: int, parts: object, position: int) -> int:
            self.bytes.append(b"".join(bytes(part) for part in parts))  # type: ignore[attr-defined]
            return super().pwritev(fd, parts, position)  # type: ignore[arg-type]

    files = Writes()
    next_one = opened(tmp_path, clock, files)
    next_one.append("t", 0, [record("third")])
    assert any(b"not synced" in written for written in files.bytes)
    assert values(next_one) == [b"first", b"not synced", b"third"]


def test_a_manifest_from_a_backup_does_not_make_appends_overwrite_records(tmp_path: Path) -> None:
    clock = ManualClock(wakes=False)
    log = opened(tmp_path, clock)
    log.create_topic("t", settings=TopicSettings(segment=100))
    manifest = tmp_path / "log" / "t" / "0" / "manifest"
    log.append("t", 0, [record("first")])
    old = manifest.read_bytes()
    for _ in range(5):
        log.append("t", 0, [record("more" * 10)])
    manifest.write_bytes(old)
    log.partition("t", 0).page.dirty = True
    before = {path.name: path.read_bytes() for path in manifest.parent.glob("*.log")}
    with pytest.raises(Damaged, match="goes on at offset"):
        log.append("t", 0, [record("refused")])
    assert {path.name: path.read_bytes() for path in manifest.parent.glob("*.log")} == before


def steps(log: EmbeddedLog) -> list[Callable[[], object]]:
    return [
        lambda: log.append("t", 0, [record("x" * 60)]),
        lambda: log.delete_before("t", 0, 1),
        lambda: log.claim("t", 0),
    ]


@pytest.mark.parametrize("failing", range(3))
@pytest.mark.parametrize("following", range(3))
def test_whatever_fails_half_way_the_other_process_goes_on(memory_path: Path, failing: int, following: int) -> None:
    """Every call of one change fails once; then every other change is made by a process that has been open all the time."""
    for n in range(1, 40):
        clock = ManualClock(wakes=False)
        files = FailingFiles()
        log = opened(memory_path / f"{n}", clock, files)
        log.create_topic("t", settings=TopicSettings(segment=100, period=HOUR))
        other = opened(memory_path / f"{n}", clock)
        for _ in range(3):
            other.append("t", 0, [record("y" * 30)])
        log.append("t", 0, [record("y" * 30)])
        clock.advance(3600)
        files.fail_at, files.calls = n, 0
        with contextlib.suppress(HeadwaterError):
            steps(log)[failing]()
        done = not files.failed
        clock.advance(-3600)
        files.fail_at = 0
        if following == 2 or failing == 2:
            (last,) = other.claim("t", 0).append([record("z")])
        else:
            steps(other)[following]()
            (last,) = other.append("t", 0, [record("z")])
        found = other.read("t", 0, other.bounds("t", 0).start, limit=100)
        assert found[-1].offset == last
        assert [one.value for one in found if one.offset is not None and one.offset < 4] == [b"y" * 30] * (4 - other.bounds("t", 0).start)
        assert not check(other.reader("t", 0)).damage
        crash(log)
        crash(other)
        with opened(memory_path / f"{n}", clock) as again:
            again.claim("t", 0).append([record("end")])
            assert [one.value for one in again.read("t", 0, again.bounds("t", 0).start, limit=100)][:-1] == [one.value for one in found]
        if done:
            break
    else:
        raise AssertionError("the change never ended without a failure")


def test_one_that_is_dying_in_its_recovery_is_not_joined(tmp_path: Path) -> None:
    """The system closes the files of a killed process one by one: `live` is still held alone when `lock` is free already. The page is that
    of the boot before, and appending by it would overwrite what was acknowledged."""
    folder = tmp_path / "log" / "t" / "0"
    with EmbeddedLog(tmp_path, boot=BOOT) as log:
        log.create_topic("t")
        log.append("t", 0, [record("first")])
        stale = (folder / "commit").read_bytes()
        log.append("t", 0, [record("second")])
    (folder / "commit").write_bytes(stale)
    dying = FileLock(Files(), folder / "live")
    assert dying.try_exclusive()
    with EmbeddedLog(tmp_path, boot=b"o" * 16) as log:
        appending = threading.Thread(target=lambda: log.append("t", 0, [record("third")]))
        appending.start()
        appending.join(0.5)
        dying.close()
        appending.join(120)
        assert values(log) == [b"first", b"second", b"third"]

"""Drained segments: what becomes of their files, who keeps them from being changed, and how they become segments again."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from headwater.core.disposal import DISPOSALS, Disposal, overwrites, recycles, shortens
from headwater.core.files import Files
from headwater.core.metrics import Metrics
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.check import check, stats
from headwater.log.embedded.disposal import BLOCKS, SPARES, dispose
from headwater.log.embedded.keeper import disposed, settle
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.manifest import Manifest
from headwater.log.embedded.repair import repair
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import FailingFiles, crash

SECRET = b"secret-"
RECYCLING: list[Disposal] = [one for one in DISPOSALS if recycles(one)]
SECURE: list[Disposal] = [one for one in DISPOSALS if overwrites(one)]


def filled(ground: Any, disposal: Disposal, count: int = 40, *, segment: int = 14_000, files: Any = None) -> EmbeddedLog:
    """About six records of 2 KiB in a segment."""
    log: EmbeddedLog = ground.open(files=files)
    log.create_topic("t", settings=TopicSettings(segment=segment, disposal=disposal))
    append(log, count)
    return log


def append(log: EmbeddedLog, count: int) -> None:
    end = log.bounds("t", 0).end
    for n in range(end, end + count):
        log.append("t", 0, [Record(b"key-%d" % (n % 3), SECRET + b"%d" % n + b"x" * 2000, timestamp=n)])


def now(ground: Any) -> Manifest:
    found = manifests.load(ground.folder)
    assert found is not None
    return found


def spares(ground: Any) -> list[Path]:
    return sorted(ground.folder.glob("*.spare"))


def offsets(log: EmbeddedLog) -> list[int | None]:
    return [record.offset for record in log.read("t", 0, log.bounds("t", 0).start, limit=10_000)]


def secrets(folder: Path) -> set[bytes]:
    """The numbers of the records of which a byte is left in any file."""
    found = set()
    for path in folder.iterdir():
        found |= {piece.partition(b"x")[0] for piece in path.read_bytes().split(SECRET)[1:]}
    return found


@pytest.mark.parametrize("disposal", DISPOSALS)
def test_a_drained_segment_is_gone_or_a_spare_of_zeros(ground: Any, disposal: Disposal) -> None:
    log = filled(ground, disposal)
    before = now(ground).segments
    lengths = {segment.stem: segment.length for segment in before}
    log.delete_before("t", 0, before[3].base)
    after = now(ground)
    assert [path.name for path in ground.segments()] == [f"{segment.stem}.log" for segment in after.segments]
    assert [path.name for path in sorted(ground.folder.glob("*.pos"))] == [f"{segment.stem}.pos" for segment in after.segments]
    assert after.drained == []
    assert after.spares == ([segment.stem for segment in before[:3]] if recycles(disposal) else [])
    assert [path.stem for path in spares(ground)] == after.spares
    for path in spares(ground):
        assert path.read_bytes() == bytes(BLOCKS if shortens(disposal) else lengths[path.stem])
    assert offsets(log) == list(range(before[3].base, 40))
    statistics = stats(log.reader("t", 0))
    assert (statistics.spares, statistics.drained) == (len(after.spares), 0)


@pytest.mark.parametrize("disposal", RECYCLING)
def test_spares_become_segments_each_once_and_under_a_new_name(ground: Any, disposal: Disposal) -> None:
    log = filled(ground, disposal)
    inodes = {path.stat().st_ino for path in ground.segments()[:3]}
    log.delete_before("t", 0, now(ground).segments[3].base)
    generation = now(ground).generation
    append(log, 40)
    again = [path for path in ground.segments() if path.stat().st_ino in inodes]
    assert len(again) == 3
    for path in again:
        parsed = manifests.parsed(path.stem)
        assert parsed is not None
        assert parsed[1] > generation
    assert now(ground).spares == []
    assert spares(ground) == []
    start = log.bounds("t", 0).start
    assert offsets(log) == list(range(start, 80))
    assert not check(log.reader("t", 0)).damage
    log.close()
    reopened = ground.open()
    append(reopened, 1)
    assert offsets(reopened) == list(range(start, 81))


@pytest.mark.parametrize("disposal", RECYCLING)
def test_a_recycled_segment_begins_with_the_length_that_was_kept(ground: Any, disposal: Disposal) -> None:
    log = filled(ground, disposal)
    log.delete_before("t", 0, 30)
    kept = spares(ground)[0].stat()
    assert kept.st_size == BLOCKS if shortens(disposal) else kept.st_size > 14_000
    log.claim("t", 0).roll()
    active = now(ground).active.log(ground.folder)
    assert (active.stat().st_ino, active.stat().st_size) == (kept.st_ino, kept.st_size)
    log.claim("t", 0).append([Record(b"k", b"v")])
    assert active.stat().st_size >= kept.st_size  # nothing is cut off by an append


@pytest.mark.parametrize("disposal", DISPOSALS)
def test_few_spares_are_kept(ground: Any, disposal: Disposal) -> None:
    log = filled(ground, disposal, 100)
    log.delete_before("t", 0, 90)
    assert len(now(ground).spares) == len(spares(ground)) == (SPARES if recycles(disposal) else 0)
    assert now(ground).drained == []
    log.delete_before("t", 0, 99)
    assert len(spares(ground)) == (SPARES if recycles(disposal) else 0)


@pytest.mark.parametrize("disposal", DISPOSALS)
def test_a_drained_active_segment_is_disposed_of_by_a_roll(ground: Any, disposal: Disposal) -> None:
    log = filled(ground, disposal, 3)
    writer = log.claim("t", 0)
    writer.delete_before(3)
    assert len(ground.segments()) == 1  # the active one stays
    assert writer.roll() == 3
    assert [segment.base for segment in now(ground).segments] == [3]
    assert len(spares(ground)) == (1 if recycles(disposal) else 0)
    assert writer.append([Record(b"k", b"v")]) == range(3, 4)


@pytest.mark.parametrize("disposal", DISPOSALS)
def test_compaction_disposes_of_what_it_replaces(ground: Any, disposal: Disposal) -> None:
    log = filled(ground, disposal, 60)
    log.compact("t", 0)
    kept = {b"%d" % offset for offset in offsets(log)}  # type: ignore[str-bytes-safe]
    assert len(kept) < 20
    assert now(ground).drained == []
    if disposal != "delete":
        assert secrets(ground.folder) == kept
    append(log, 60)
    assert not check(log.reader("t", 0)).damage


# -- readers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("disposal", [one for one in DISPOSALS if one != "delete"])
def test_nothing_is_changed_below_a_reader(ground: Any, disposal: Disposal) -> None:
    log = filled(ground, disposal)
    other = ground.open(read_only=True)
    columns = list(other.scan("t", 0, 0, 6))  # they point into the map of the first segment
    log.delete_before("t", 0, 30)
    [waiting] = now(ground).drained
    assert waiting == f"{0:020d}"
    assert stats(log.reader("t", 0)).drained == 1
    other.close()
    settle([log.partition("t", 0)])
    assert [column.as_py()[:9] for batch in columns for column in batch.column("value")] == [SECRET + b"%d" % n + b"x" for n in range(6)]
    del columns
    settle([log.partition("t", 0)])  # as the keeper does each second
    assert now(ground).drained == []
    assert {int(number) for number in secrets(ground.folder)} == set(range(now(ground).segments[0].base, 40))


def test_the_own_reader_lets_go_of_what_is_deleted(ground: Any) -> None:
    log = filled(ground, "secure-delete")
    assert log.read_at("t", 0, [1, 8, 15])[0] is not None
    log.delete_before("t", 0, 30)
    assert now(ground).drained == []


def test_waiting_files_are_ended_with_at_the_next_deletion_and_at_the_next_opening(ground: Any) -> None:
    for ending in ("deletion", "opening"):
        log = filled(ground, "secure-reset", 30)
        other = ground.open(read_only=True)
        start = log.bounds("t", 0).start
        columns = list(other.scan("t", 0, start, start + 2))
        log.delete_before("t", 0, log.bounds("t", 0).end - 8)
        assert now(ground).drained
        del columns
        other.close()
        if ending == "deletion":
            log.delete_before("t", 0, log.bounds("t", 0).end - 1)
        else:
            crash(log)
            log = ground.open()
            log.partition("t", 0)
        assert now(ground).drained == []
        log.close()


# -- what goes wrong ------------------------------------------------------------------------------------------


def test_a_copy_by_hard_link_keeps_its_bytes_and_is_not_recycled(ground: Any, tmp_path: Path) -> None:
    for disposal in DISPOSALS:
        log = filled(ground, disposal)
        first = now(ground).segments[0].log(ground.folder)
        backup = tmp_path / f"backup-{disposal}"
        os.link(first, backup)
        bytes_before = backup.read_bytes()
        log.delete_before("t", 0, log.bounds("t", 0).end - 1)
        append(log, 60)
        assert backup.read_bytes() == bytes_before
        assert not any(path.samefile(backup) for path in ground.folder.iterdir())
        log.delete_topic("t")
        log.close()


@pytest.mark.parametrize("disposal", [one for one in DISPOSALS if one != "delete"])
def test_a_disk_that_refuses_zeros_keeps_no_spare_and_no_secret_for_good(ground: Any, disposal: Disposal) -> None:
    files = FailingFiles(only=("pwritev", "truncate"), number=errno.ENOSPC)
    log = filled(ground, disposal, files=files)
    files.calls, files.fail_at, files.forever = 0, 2, True  # the first write is the manifest's
    log.delete_before("t", 0, 13)
    assert files.failed
    files.fail_at = 0
    if overwrites(disposal):
        assert len(now(ground).drained) == stats(log.reader("t", 0)).drained > 0
    settle([log.partition("t", 0)])
    assert now(ground).drained == []
    assert b"0" not in secrets(ground.folder)
    append(log, 20)
    assert not check(log.reader("t", 0)).damage


@pytest.mark.parametrize("disposal", SECURE)
def test_a_secure_disposal_that_is_refused_is_told_and_counted_once_for_each_file(
    ground: Any, disposal: Disposal, caplog: pytest.LogCaptureFixture
) -> None:
    metrics, files = Metrics(), FailingFiles(only=("pwritev",), number=errno.EIO)
    with EmbeddedLog(ground.path, clock=ground.clock, files=files, metrics=metrics.log) as log:
        log.create_topic("t", settings=TopicSettings(segment=14_000, disposal=disposal))
        append(log, 20)
        files.calls, files.fail_at, files.forever = 0, 2, True  # the first write is the manifest's
        log.delete_before("t", 0, 13)
        waiting = len(now(ground).drained)
        assert waiting > 0
        for _ in range(3):
            settle([log.partition("t", 0)])
        assert sum("must overwrite" in line.message for line in caplog.records) == waiting == len(now(ground).drained)
        assert b'headwater_log_refused_disposals_total{topic="t"} %d.0' % waiting in metrics.render()
        files.fail_at = 0
        settle([log.partition("t", 0)])
        assert now(ground).drained == []


def test_a_secure_disposal_of_a_file_with_another_name_is_told(ground: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = filled(ground, "secure-delete")
    os.link(now(ground).segments[0].log(ground.folder), tmp_path / "backup")
    log.delete_before("t", 0, log.bounds("t", 0).end - 1)
    assert sum("has another name" in line.message for line in caplog.records) == 1


def test_a_spare_that_is_missing_is_passed_over(ground: Any) -> None:
    log = filled(ground, "reset")
    log.delete_before("t", 0, 30)
    first, *others = spares(ground)
    first.unlink()
    append(log, 20)
    assert not {path.name for path in spares(ground)} & {first.name, others[0].name}
    assert offsets(log) == list(range(30, 60))


@pytest.mark.parametrize("disposal", RECYCLING)
@pytest.mark.parametrize("renamed", [True, False])
def test_spares_and_waiting_files_outlive_a_restart(ground: Any, disposal: Disposal, renamed: bool) -> None:
    files = FailingFiles(only=("rename",))
    log = filled(ground, disposal, files=files)
    files.calls, files.fail_at, files.forever = 0, 0 if renamed else 2, True  # the first rename is the manifest's
    log.delete_before("t", 0, 30)
    assert bool(now(ground).drained) is not renamed
    crash(log)
    again = ground.open(boot=b"o" * 16)
    again.partition("t", 0)
    assert now(ground).drained == []
    assert len(now(ground).spares) == SPARES
    assert [path.stem for path in spares(ground)] == sorted(now(ground).spares)
    assert not secrets(ground.folder) & {b"0", b"7", b"14", b"21"}


@pytest.mark.parametrize("disposal", DISPOSALS)
def test_leftovers_that_no_manifest_names_are_swept(ground: Any, disposal: Disposal) -> None:
    filled(ground, disposal, 3).close()
    left = [ground.folder / f"{7:020d}-1{suffix}" for suffix in (".spare", ".pos")]
    kept = ground.folder / "notes.spare"
    copies = [ground.path / path.name for path in left]
    for path, copy in zip(left, copies, strict=True):
        path.write_bytes(SECRET * 100)
        if overwrites(disposal):
            copy.hardlink_to(path)
    kept.write_bytes(b"theirs")
    for copy in copies:
        copy.unlink(missing_ok=True)
    log = ground.open()
    log.partition("t", 0)
    assert not any(path.exists() for path in left)
    assert kept.read_bytes() == b"theirs"


@pytest.mark.parametrize("disposal", RECYCLING)
def test_a_torn_tail_of_a_recycled_segment_is_told_alone(ground: Any, disposal: Disposal) -> None:
    log = filled(ground, disposal)
    log.delete_before("t", 0, 30)
    append(log, 10)
    active = now(ground).active
    assert active.generation
    place = log.partition("t", 0).page.tail.position
    crash(log)
    with active.log(ground.folder).open("r+b") as file:
        file.seek(place)
        file.write(b"\0\0\0\0\0\0\0\1half a batch")
    again = ground.open(boot=b"o" * 16)
    append(again, 1)
    [cut] = ground.folder.glob("*.cut")
    assert cut.read_bytes() == b"\0\0\0\0\0\0\0\1half a batch"
    assert offsets(again) == list(range(30, 51))


def test_a_recycled_segment_after_a_crash_holds_no_old_records(ground: Any) -> None:
    log = filled(ground, "reset")
    log.delete_before("t", 0, 30)
    append(log, 7)
    assert now(ground).active.generation
    crash(log)
    again = ground.open(boot=b"o" * 16)
    assert offsets(ground.open(read_only=True, boot=b"o" * 16)) == list(range(30, 47))
    append(again, 1)
    assert not list(ground.folder.glob("*.cut"))


# -- secure -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("disposal", SECURE)
def test_the_bytes_are_overwritten_before_the_file_goes(ground: Any, disposal: Disposal) -> None:
    log = filled(ground, disposal)
    files = [path for path in ground.folder.iterdir() if path.stem == f"{0:020d}"]
    assert {path.suffix for path in files} == {".log", ".pos"}
    kept = [os.open(path, os.O_RDONLY) for path in files]  # no lock of ours: the bytes of an unlinked file can still be looked at
    log.delete_before("t", 0, 30)
    for fd in kept:
        assert os.pread(fd, 1 << 20, 0).strip(b"\0") == b""
        os.close(fd)


@pytest.mark.parametrize("disposal", DISPOSALS)
def test_side_files_go_with_the_records_that_they_are_copies_of(ground: Any, disposal: Disposal) -> None:
    log = filled(ground, disposal, 20)
    segments = now(ground).segments
    log.close()
    ground.flip(segments[1].log(ground.folder), 100)
    repair(ground.folder, name="t 0", files=Files(), clock=ManualClock(), boot=ground.boot)
    [cut] = ground.folder.glob("*.cut")
    assert SECRET in cut.read_bytes()
    fd = os.open(cut, os.O_RDONLY)
    log = ground.open()
    log.delete_before("t", 0, segments[1].base)
    assert cut.exists()
    log.delete_before("t", 0, 19)
    assert cut.exists() is not overwrites(disposal)
    assert (SECRET in os.pread(fd, 1 << 20, 0)) is not overwrites(disposal)
    os.close(fd)


def test_a_compaction_that_fails_leaves_no_copy_behind(ground: Any) -> None:
    log = filled(ground, "secure-delete", 60)
    files = FailingFiles(only=("sync",))
    other = ground.open(files=files)
    other.partition("t", 0)
    seen: list[bytes] = []

    def unlink(path: Path) -> None:
        seen.append(path.read_bytes())
        os.unlink(path)

    files.unlink = unlink  # type: ignore[method-assign]
    files.calls, files.fail_at = 0, 3  # the manifest, its folder, then the segment that was written
    with pytest.raises(Exception, match="failed"):
        other.compact("t", 0)
    assert files.failed
    assert seen
    assert not any(SECRET in one for one in seen)
    log.close()


# -- the same log, whatever becomes of its files ----------------------------------------------------------------


def test_disposing_again_changes_nothing(ground: Any) -> None:
    log = filled(ground, "reset")
    log.delete_before("t", 0, 30)
    before = now(ground)
    dispose(log.partition("t", 0))
    disposed(log.partition("t", 0), None)
    assert now(ground) == before

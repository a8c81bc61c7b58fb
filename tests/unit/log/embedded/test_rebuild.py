"""A partition without its manifest: everybody says so, and it can be made anew without losing or deleting anything."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from headwater.core.errors import Conflict, Damaged, Fenced, HeadwaterError
from headwater.core.files import Files
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.check import check, stats
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.rebuild import Rebuilt, rebuild
from headwater.log.embedded.repair import repair
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import FailingFiles, crash

BOOT, OTHER = b"b" * 16, b"o" * 16
COUNT = 22


def opened(path: Path, *, boot: bytes = BOOT, read_only: bool = False, files: Files | None = None) -> EmbeddedLog:
    return EmbeddedLog(path, clock=ManualClock(), boot=boot, read_only=read_only, files=files)


def folder(path: Path) -> Path:
    return path / "log" / "t" / "0"


def rebuilt(path: Path, *, boot: bytes = BOOT, dry_run: bool = False, files: Files | None = None) -> Rebuilt:
    return rebuild(folder(path), name="t 0", files=files or Files(), clock=ManualClock(), boot=boot, dry_run=dry_run)


def everything(log: EmbeddedLog) -> dict[int, bytes | None]:
    return {record.offset or 0: record.value for record in log.read("t", 0, log.bounds("t", 0).start, limit=100_000)}


def filled(path: Path, *, segment: int = 300, count: int = COUNT) -> dict[int, bytes | None]:
    """A log of single records, some keys again and again, closed cleanly."""
    with opened(path) as log:
        log.create_topic("t", settings=TopicSettings(segment=segment))
        for n in range(count):
            log.append("t", 0, [Record(b"key-%d" % (n % 5), b"value-%d" % n, timestamp=n)])
        return everything(log)


def lose_manifest(path: Path) -> None:
    (folder(path) / "manifest").unlink()


def kept_bytes(path: Path) -> set[bytes]:
    return {one.read_bytes().rstrip(b"\0") for one in folder(path).iterdir() if one.suffix in (".log", ".cut")}


@pytest.mark.parametrize("harm", ["missing", "rotten"])
def test_everybody_tells_that_the_manifest_is_lost(tmp_path: Path, harm: str) -> None:
    filled(tmp_path)
    if harm == "missing":
        lose_manifest(tmp_path)
    else:
        (folder(tmp_path) / "manifest").write_bytes(b"rot" * 100)
    with opened(tmp_path, read_only=True) as log:
        looks = [
            lambda: log.bounds("t", 0),
            lambda: log.read("t", 0, 0),
            lambda: log.offset_at("t", 0, 0),
            lambda: check(log.reader("t", 0)),
            lambda: repair(folder(tmp_path), name="t 0", files=Files(), clock=ManualClock(), boot=BOOT),
        ]
        for look in looks:
            with pytest.raises(Damaged, match="manifest") as told:
                look()
            assert "headwater log repair t 0 --rebuild" in told.value.hint
        assert "manifest" in stats(log.reader("t", 0)).damage
    with opened(tmp_path) as log, pytest.raises(Damaged) as told:
        log.append("t", 0, [Record(b"k", b"v")])
    assert "headwater log repair t 0 --rebuild" in told.value.hint


def test_a_partition_without_records_is_not_damaged(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.create_topic("t")
        assert log.bounds("t", 0).end == 0
        assert log.read("t", 0, 0) == []
        assert stats(log.reader("t", 0)).damage == ""
        log.partition("t", 0)
    lose_manifest(tmp_path)
    with opened(tmp_path) as log:
        assert log.append("t", 0, [Record(b"k", b"v")])[0] == 0


@pytest.mark.parametrize("boot", [BOOT, OTHER], ids=["same-boot", "other-boot"])
@pytest.mark.parametrize("harm", ["missing", "rotten"])
def test_the_manifest_is_made_anew(tmp_path: Path, boot: bytes, harm: str) -> None:
    truth = filled(tmp_path)
    if harm == "missing":
        lose_manifest(tmp_path)
    else:
        (folder(tmp_path) / "manifest").write_bytes(b"rot" * 100)
    before = {one.name: one.read_bytes() for one in folder(tmp_path).iterdir()}
    seen = rebuilt(tmp_path, boot=boot, dry_run=True)
    assert {one.name: one.read_bytes() for one in folder(tmp_path).iterdir()} == before
    assert rebuilt(tmp_path, boot=boot) == seen
    assert (seen.start, seen.end, seen.missing, seen.damage) == (0, COUNT, [], [])
    assert [Path(one).read_bytes() for one in seen.side_files] == ([b"rot" * 100] if harm == "rotten" else [])
    assert rebuilt(tmp_path, boot=boot).whole
    with opened(tmp_path, boot=boot, read_only=True) as log:
        assert everything(log) == truth
        assert not check(log.reader("t", 0)).damage
    with opened(tmp_path, boot=boot) as log:
        assert log.append("t", 0, [Record(b"k", b"more")])[0] == COUNT
        assert everything(log) == {**truth, COUNT: b"more"}
        with pytest.raises(Conflict, match="in use"):
            rebuilt(tmp_path)


@pytest.mark.parametrize("gone", ["none", "one source", "half of the result", "all sources"])
def test_a_compaction_that_was_cut_short(tmp_path: Path, gone: str) -> None:
    truth = filled(tmp_path)
    sources = {one.name: one.read_bytes() for one in folder(tmp_path).glob("*.log")}
    with opened(tmp_path) as log:
        log.compact("t", 0)
        compacted = everything(log)
    assert compacted.items() < truth.items()
    lose_manifest(tmp_path)
    made = [one for one in folder(tmp_path).glob("*.log") if "-" in one.stem]
    if gone != "all sources":
        for name, raw in sources.items():
            (folder(tmp_path) / name).write_bytes(raw)
    if gone == "one source":
        (folder(tmp_path) / min(sources)).unlink()
    if gone == "half of the result":
        made[-1].write_bytes(made[-1].read_bytes()[:-10])
    before = kept_bytes(tmp_path)
    report = rebuilt(tmp_path)
    expected = truth if gone in ("none", "half of the result") else compacted
    with opened(tmp_path, read_only=True) as log:
        assert everything(log) == expected
        assert not check(log.reader("t", 0)).damage
    with opened(tmp_path) as log:  # opening sweeps what the manifest does not name
        assert log.append("t", 0, [Record(b"k", b"more")])[0] == COUNT
        assert everything(log) == {**expected, COUNT: b"more"}
        assert log.compact("t", 0).records_after >= 5
    assert {Path(one).read_bytes().rstrip(b"\0") for one in report.side_files} <= before
    assert bool(report.side_files) == (gone != "all sources")
    assert report.missing == []


def test_a_repair_that_was_cut_short(tmp_path: Path) -> None:
    truth = filled(tmp_path)
    path = sorted(folder(tmp_path).glob("*.log"))[1]
    rotten = bytearray(path.read_bytes())
    rotten[60] ^= 1
    path.write_bytes(rotten)
    done = repair(folder(tmp_path), name="t 0", files=Files(), clock=ManualClock(), boot=BOOT)
    shutil.copy(done.side_files[0], path)
    lose_manifest(tmp_path)
    report = rebuilt(tmp_path, boot=OTHER)
    assert [Path(one).read_bytes() for one in report.side_files] == [bytes(rotten)]
    assert report.missing == done.lost
    with opened(tmp_path, boot=OTHER) as log:
        gone = {offset for first, end in done.lost for offset in range(first, end)}
        assert everything(log) == {offset: value for offset, value in truth.items() if offset not in gone}


@pytest.mark.parametrize("boot", [BOOT, OTHER], ids=["same-boot", "other-boot"])
@pytest.mark.parametrize("number", [0, 1, -1], ids=["first", "closed", "active"])
def test_damage_is_left_for_repair_to_cut(tmp_path: Path, number: int, boot: bytes) -> None:
    truth = filled(tmp_path)
    path = sorted(folder(tmp_path).glob("*.log"))[number]
    rotten = bytearray(path.read_bytes())
    rotten[60] ^= 1  # in the second of its batches
    path.write_bytes(rotten)
    lose_manifest(tmp_path)
    lost = int(path.stem) + 1
    report = rebuilt(tmp_path, boot=boot)
    assert [one.offset for one in report.damage] == [lost]
    with opened(tmp_path, boot=boot, read_only=True) as log:
        assert [one.offset for one in check(log.reader("t", 0)).damage] == [lost]
        with pytest.raises(Damaged):
            list(log.scan("t", 0, 0))
    cut = repair(folder(tmp_path), name="t 0", files=Files(), clock=ManualClock(), boot=boot)
    assert cut.lost == [(lost, lost + 1)]
    with opened(tmp_path, boot=boot) as log:
        assert everything(log) == {offset: value for offset, value in truth.items() if offset != lost}
        assert log.append("t", 0, [Record(b"k", b"more")])[0] == COUNT


def test_a_torn_tail_is_no_damage(tmp_path: Path) -> None:
    truth = filled(tmp_path)
    with max(folder(tmp_path).glob("*.log")).open("ab") as file:
        file.write(b"half a batch")
    lose_manifest(tmp_path)
    assert rebuilt(tmp_path, boot=OTHER).damage == []
    with opened(tmp_path, boot=OTHER) as log:
        assert log.append("t", 0, [Record(b"k", b"more")])[0] == COUNT
        assert everything(log) == {**truth, COUNT: b"more"}


@pytest.mark.parametrize("reserve", [0, 1 << 20])
def test_room_kept_behind_the_tail_is_none(tmp_path: Path, reserve: int) -> None:
    truth = filled(tmp_path)
    with max(folder(tmp_path).glob("*.log")).open("ab") as file:
        file.write(bytes(reserve))
    (folder(tmp_path) / f"{COUNT:020d}.log").write_bytes(bytes(reserve))  # the next segment, of a roll that was not finished
    lose_manifest(tmp_path)
    report = rebuilt(tmp_path, boot=OTHER)
    assert (report.damage, report.missing, report.side_files) == ([], [], [])
    with opened(tmp_path, boot=OTHER) as log:
        assert log.append("t", 0, [Record(b"k", b"more")])[0] == COUNT
        assert everything(log) == {**truth, COUNT: b"more"}


@pytest.mark.parametrize("number", [0, 1, -1], ids=["first", "closed", "active"])
def test_offsets_of_a_lost_file_are_told_and_never_given_again(tmp_path: Path, number: int) -> None:
    truth = filled(tmp_path)
    paths = sorted(folder(tmp_path).glob("*.log"))
    bases = [*(int(path.stem) for path in paths), COUNT]
    paths[number].unlink()
    lose_manifest(tmp_path)
    first, end = bases[number % len(paths)], bases[number % len(paths) + 1]
    report = rebuilt(tmp_path)
    assert report.missing == ([(first, end)] if first else [])
    assert report.start == (end if not first else 0)
    with opened(tmp_path) as log:
        assert log.append("t", 0, [Record(b"k", b"more")])[0] == COUNT
        assert everything(log) == {**{offset: value for offset, value in truth.items() if not first <= offset < end}, COUNT: b"more"}


@pytest.mark.parametrize("boot", [BOOT, OTHER], ids=["same-boot", "other-boot"])
def test_no_old_writer_is_let_in(tmp_path: Path, boot: bytes) -> None:
    filled(tmp_path)
    with opened(tmp_path) as log:
        owner = [log.claim("t", 0).epoch for _ in range(3)][-1]
    lose_manifest(tmp_path)
    rebuilt(tmp_path, boot=boot)
    with opened(tmp_path, boot=boot) as log:
        with pytest.raises(Fenced):
            log.append("t", 0, [Record(b"k", b"v")])
        for epoch in range(1, owner):
            with pytest.raises(Fenced):
                log.writer("t", 0, epoch).append([Record(b"k", b"v")])
        if boot == BOOT:  # the page knows the newest claim: its owner goes on
            log.writer("t", 0, owner).append([Record(b"k", b"v")])
        else:
            with pytest.raises(Fenced):
                log.writer("t", 0, owner).append([Record(b"k", b"v")])
        assert log.claim("t", 0).epoch > owner


def test_a_claim_after_a_lost_page_is_higher_than_all_before(tmp_path: Path) -> None:
    filled(tmp_path)
    with opened(tmp_path) as log:
        owner = [log.claim("t", 0).epoch for _ in range(3)][-1]
    lose_manifest(tmp_path)
    (folder(tmp_path) / "commit").unlink()
    rebuilt(tmp_path)
    with opened(tmp_path) as log:
        for epoch in range(1, owner + 1):
            with pytest.raises(Fenced):
                log.writer("t", 0, epoch).append([Record(b"k", b"v")])
        assert log.claim("t", 0).epoch > owner + 1000


@pytest.mark.parametrize("forever", [False, True], ids=["once", "from-then-on"])
def test_a_rebuild_that_fails_can_be_done_again(tmp_path: Path, forever: bool) -> None:
    truth = filled(tmp_path / "sound")
    sources = {one.name: one.read_bytes() for one in folder(tmp_path / "sound").glob("*.log")}
    with opened(tmp_path / "sound") as log:
        log.compact("t", 0)
    for name, raw in sources.items():
        (folder(tmp_path / "sound") / name).write_bytes(raw)
    (folder(tmp_path / "sound") / "manifest").write_bytes(b"rot" * 100)
    failing = FailingFiles(0)
    shutil.copytree(tmp_path / "sound", tmp_path / "0")
    rebuilt(tmp_path / "0", files=failing)
    assert failing.calls > 8
    for number in range(1, failing.calls + 1):
        path = tmp_path / str(number)
        shutil.copytree(tmp_path / "sound", path)
        before = kept_bytes(path)
        with pytest.raises((OSError, HeadwaterError)):
            rebuilt(path, files=FailingFiles(number, forever=forever))
        rebuilt(path)
        with opened(path) as log:
            assert log.append("t", 0, [Record(b"k", b"more")])[0] == COUNT
            assert everything(log) == {**truth, COUNT: b"more"}
        assert before <= kept_bytes(path) | {sources[max(sources)].rstrip(b"\0")}  # but for the one that was appended to


@pytest.mark.parametrize("seed", range(25))
def test_whatever_a_partition_has_lived_through_its_records_are_found_again(tmp_path: Path, seed: int) -> None:
    random, files = Random(seed), FailingFiles(only=("datasync",))
    log = opened(tmp_path, files=files)
    log.create_topic("t", settings=TopicSettings(segment=random.choice([1, 200, 2000])))
    for step in range(random.randint(5, 60)):
        kind = random.random()
        try:
            if kind < 0.85:
                records = [Record(b"key-%d" % random.randint(0, 9), b"%d-%d" % (step, i)) for i in range(random.choice([1, 1, 4]))]
                log.append("t", 0, records)
            elif kind < 0.9:
                files.fail_at = files.calls + 1  # the next append goes on in a fresh file
            elif kind < 0.95:
                log.compact("t", 0)
            else:
                bounds = log.bounds("t", 0)
                log.delete_before("t", 0, random.randint(bounds.start, bounds.end))
        except HeadwaterError:
            continue
    truth, bounds = everything(log), log.bounds("t", 0)
    manifest = manifests.load(folder(tmp_path))
    crash(log) if random.random() < 0.5 else log.close()
    lose_manifest(tmp_path)
    boot = random.choice([BOOT, OTHER])
    report = rebuilt(tmp_path, boot=boot)
    assert manifest is not None
    assert report.damage == []
    with opened(tmp_path, boot=boot) as again:
        found = everything(again)
        assert {offset: value for offset, value in found.items() if offset >= bounds.start} == truth
        assert again.append("t", 0, [Record(b"k", b"more")])[0] == bounds.end
        assert not check(again.reader("t", 0)).damage

"""A part of a log was put back from a copy, lost, swapped or copied: that is told, and the next operation does not make it final."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from slow_sync import SlowSync

from headwater.core.errors import Damaged, NewerFormat
from headwater.core.files import Files
from headwater.log.embedded.check import check, stats
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.rebuild import Rebuilt, rebuild
from headwater.log.embedded.repair import Repaired, repair
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock

BOOT, OTHER = b"b" * 16, b"o" * 16
boots = pytest.mark.parametrize("boot", [BOOT, OTHER], ids=["same-boot", "other-boot"])


def opened(data: Path, boot: bytes = BOOT) -> EmbeddedLog:
    return EmbeddedLog(data, clock=ManualClock(wakes=False), boot=boot)


def fill(data: Path, first: int, end: int, *, partitions: int = 1) -> Path:
    """Append to partition 0 of topic t, and close; return its folder."""
    with opened(data) as log:
        log.create_topic("t", partitions=partitions, settings=TopicSettings(segment=300))
        for number in range(first, end):
            log.append("t", 0, [Record(b"key-%d" % number, b"value-%d" % number)])
    return data / "log" / "t" / "0"


def cut(folder: Path, boot: bytes = BOOT, *, dry_run: bool = False) -> Repaired:
    return repair(folder, name="t 0", files=Files(), clock=ManualClock(), boot=boot, dry_run=dry_run)


def rebuilt(folder: Path, boot: bytes = BOOT, *, dry_run: bool = False) -> Rebuilt:
    return rebuild(folder, name="t 0", files=Files(), clock=ManualClock(), boot=boot, dry_run=dry_run)


def offsets(data: Path, boot: bytes = BOOT) -> list[int | None]:
    with opened(data, boot) as log:
        return [record.offset for record in log.read("t", 0, log.bounds("t", 0).start)]


def everybody_says(data: Path, what: str, boot: bytes = BOOT, hint: str = "") -> None:
    calls: list[Callable[[EmbeddedLog], object]] = [
        lambda log: log.bounds("t", 0),
        lambda log: log.read("t", 0, 0),
        lambda log: list(log.scan("t", 0, 0)),
        lambda log: check(log.reader("t", 0)),
        lambda log: log.append("t", 0, [Record(b"k", b"v")]),
        lambda log: log.compact("t", 0),
        lambda log: log.delete_before("t", 0, 0),
    ]
    for call in calls:
        with opened(data, boot) as log, pytest.raises(Damaged, match=what) as raised:
            call(log)
        assert hint in raised.value.hint


def contents(data: Path) -> dict[str, tuple[bytes | None, int]]:
    return {
        str(path.relative_to(data)): (path.read_bytes() if path.is_file() else None, path.stat().st_mtime_ns) for path in data.rglob("*")
    }


@boots
def test_repair_of_a_partition_with_an_older_manifest_removes_nothing(memory_path: Path, boot: bytes) -> None:
    """Replacing it would make segments that it does not name look like those of a compaction that died, which are swept."""
    folder = fill(memory_path / "data", 0, 20)
    shutil.copy(folder / "manifest", memory_path / "older")
    fill(memory_path / "data", 20, 60)
    shutil.copy(memory_path / "older", folder / "manifest")
    before = contents(folder)
    with pytest.raises(Damaged, match="older than") as raised:
        cut(folder, boot)
    assert "--rebuild" in raised.value.hint
    assert contents(folder) == before
    with opened(memory_path / "data", boot) as log, pytest.raises(Damaged) as raised:
        log.read("t", 0, 0)
    assert "--rebuild" in raised.value.hint, "check would only say the same again"
    assert rebuilt(folder, boot).end == 60
    assert offsets(memory_path / "data", boot) == list(range(60))


def test_repair_does_not_believe_a_commit_page_that_has_rotted(memory_path: Path) -> None:
    folder = fill(memory_path, 0, 20)
    page = bytearray((folder / "commit").read_bytes())
    page[6 * 8 + 5] ^= 1  # the durable end grows by a million of millions
    (folder / "commit").write_bytes(page)
    assert cut(folder).damage == []
    with opened(memory_path) as log:
        assert log.append("t", 0, [Record(b"k", b"v")]) == range(20, 21)


@pytest.mark.parametrize("harm", ["none", "cut", "longer", "no page", "no locks"])
def test_a_dry_run_changes_no_byte_and_no_time(memory_path: Path, harm: str) -> None:
    folder = fill(memory_path, 0, 20)
    page = (folder / "commit").read_bytes()
    if harm in ("cut", "longer"):
        (folder / "commit").write_bytes(page[:100] if harm == "cut" else page + b"\0")
    for name in {"no page": ["commit"], "no locks": ["lock", "live"]}.get(harm, []):
        (folder / name).unlink()
    before = contents(memory_path)
    cut(folder, dry_run=True)
    rebuilt(folder, dry_run=True)
    assert contents(memory_path) == before


def test_a_folder_that_is_gone_is_no_empty_partition(memory_path: Path) -> None:
    folder = fill(memory_path, 0, 20, partitions=2)
    shutil.rmtree(folder)
    everybody_says(memory_path, "is missing", hint="mkdir")
    for way in (cut, rebuilt):
        with pytest.raises(Damaged, match="is missing"):
            way(folder)
    with opened(memory_path) as log:
        assert "is missing" in stats(log.reader("t", 0)).damage
        assert log.append("t", 1, [Record(b"k", b"v")]) == range(1)


@boots
def test_a_commit_page_alone_tells_that_records_are_lost(memory_path: Path, boot: bytes) -> None:
    folder = fill(memory_path, 0, 20)
    for path in folder.iterdir():
        if path.name == "manifest" or path.suffix in (".log", ".pos"):
            path.unlink()
    everybody_says(memory_path, "manifest is missing", boot, hint="--rebuild")
    assert rebuilt(folder, boot).missing == [(0, 20)]
    with opened(memory_path, boot) as log:
        assert log.append("t", 0, [Record(b"k", b"v")]) == range(20, 21), "no offset is given again"


def test_a_partition_older_than_its_commit_page_is_told_and_can_be_repaired(memory_path: Path) -> None:
    folder = fill(memory_path / "data", 0, 20)
    shutil.copytree(folder, memory_path / "older")
    fill(memory_path / "data", 20, 60)
    (memory_path / "older" / "commit").write_bytes((folder / "commit").read_bytes())
    shutil.rmtree(folder)
    shutil.copytree(memory_path / "older", folder)
    with opened(memory_path / "data") as log, pytest.raises(Damaged) as raised:
        check(log.reader("t", 0))
    assert "--cut" in raised.value.hint
    assert cut(folder).lost == [(20, 60)]
    assert offsets(memory_path / "data") == list(range(20))
    with opened(memory_path / "data") as log:
        assert log.append("t", 0, [Record(b"k", b"v")]) == range(60, 61)


@pytest.mark.parametrize("what", ["folders", "manifests"])
def test_swapped_partitions_are_told(memory_path: Path, what: str) -> None:
    first = fill(memory_path, 0, 20, partitions=2)
    second = first.parent / "1"
    with opened(memory_path) as log:
        log.append("t", 1, [Record(b"k", b"other")])
    one, other = (first, second) if what == "folders" else (first / "manifest", second / "manifest")
    one.rename(memory_path / "between")
    other.rename(one)
    (memory_path / "between").rename(other)
    everybody_says(memory_path, "belongs to t 1", hint="--rebuild")
    with pytest.raises(Damaged, match="belongs to t 1"):
        cut(first)


def test_a_partition_of_another_topic_is_told_and_can_be_adopted(memory_path: Path) -> None:
    folder = fill(memory_path, 0, 20)
    with opened(memory_path) as log:
        log.create_topic("other")
        log.append("other", 0, [Record(b"k", b"other")])
    shutil.rmtree(folder)
    shutil.copytree(memory_path / "log" / "other" / "0", folder)
    everybody_says(memory_path, "belongs to other 0", hint="headwater log repair t 0 --rebuild")
    assert rebuilt(folder).end == 1
    assert offsets(memory_path) == [0]


def test_a_manifest_without_the_name_of_its_partition_is_taken(memory_path: Path) -> None:
    """Those of before there was one."""
    import msgspec
    from google_crc32c import value as crc32c

    folder = fill(memory_path, 0, 20)
    found = msgspec.json.decode((folder / "manifest").read_bytes()[4:])
    assert found.pop("partition") == "t 0"
    body = msgspec.json.encode(found)
    (folder / "manifest").write_bytes(crc32c(body).to_bytes(4, "big") + body)
    assert offsets(memory_path) == list(range(20))


# -- topic.json ---------------------------------------------------------------------------------------------


def test_a_topic_without_its_description_is_told_and_can_be_described_anew(memory_path: Path) -> None:
    folder = fill(memory_path, 0, 20, partitions=3)
    (folder.parent / "topic.json").unlink()
    everybody_says(memory_path, "topic.json is missing", hint="headwater log create t --partitions 3")
    with opened(memory_path) as log:
        with pytest.raises(Damaged, match=r"topic\.json is missing"):
            log.topics()
        with pytest.raises(Damaged, match=r"topic\.json is missing"):
            log.create_topic("t")
        log.create_topic("t", partitions=3)
    assert offsets(memory_path) == list(range(20))


def test_a_creation_that_was_cut_short_is_no_lost_topic(memory_path: Path) -> None:
    (memory_path / "log" / "t" / "0").mkdir(parents=True)
    (memory_path / "log" / "t" / "1").mkdir()
    with opened(memory_path) as log:
        assert log.topics() == []
        assert log.create_topic("t").partitions == 1
        assert log.bounds("t", 0).end == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"partitions": 3', '"partitions": 2'),
        ('"partitions": 3', '"partitions": 7'),
        ('"partitions": 3', '"partitions": 0'),
        ('"segment": 300', '"segment": 0'),
        ('"segment": 300', '"segment": 700'),
        ('"name": "t"', '"name": "u"'),
    ],
)
def test_a_digit_that_rots_in_a_description_is_damage(memory_path: Path, old: str, new: str) -> None:
    path = fill(memory_path, 0, 20, partitions=3).parent / "topic.json"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    everybody_says(memory_path, "topic.json")


def test_a_description_older_than_the_partitions_is_damage(memory_path: Path) -> None:
    """It was made before there were checksums in descriptions, or for a topic of the same name that was deleted."""
    fill(memory_path / "data", 0, 20, partitions=3)
    with opened(memory_path / "data") as log:
        log.append("t", 2, [Record(b"k", b"v")])
    with opened(memory_path / "other") as log:
        log.create_topic("t", partitions=2)
    shutil.copy(memory_path / "other" / "log" / "t" / "topic.json", memory_path / "data" / "log" / "t" / "topic.json")
    everybody_says(memory_path / "data", "partition 2 has files", hint="--partitions 3")


def test_a_description_without_a_checksum_is_taken(memory_path: Path) -> None:
    """Those of before there was one."""
    import msgspec

    path = fill(memory_path, 0, 20).parent / "topic.json"
    found = msgspec.json.decode(path.read_bytes())
    del found["crc"]
    path.write_bytes(msgspec.json.encode(found))
    assert offsets(memory_path) == list(range(20))


def test_a_topic_that_was_copied_under_another_name_is_told(memory_path: Path) -> None:
    folder = fill(memory_path, 0, 20)
    shutil.copytree(folder.parent, memory_path / "log" / "copy")
    with opened(memory_path) as log:
        assert [topic.name for topic in log.topics()] == ["copy", "t"]
        for call in (lambda: check(log.reader("copy", 0)), lambda: log.append("copy", 0, [Record(b"k", b"v")])):
            with pytest.raises(Damaged, match="belongs to t 0"):
                call()
        log.delete_topic("copy")
    assert offsets(memory_path) == list(range(20))


# -- what is put aside ----------------------------------------------------------------------------------------


def test_a_second_torn_tail_at_the_same_byte_does_not_replace_the_first(memory_path: Path) -> None:
    """Rot in the last acknowledged batch looks torn: what was put aside may be the only copy."""
    folder = fill(memory_path, 0, 3)
    [segment] = folder.glob("*.log")
    for torn in (b"the first one", b"another"):
        segment.write_bytes(segment.read_bytes() + torn)
        assert offsets(memory_path) == [0, 1, 2]
        with opened(memory_path) as log:
            log.claim("t", 0)
    assert sorted(path.read_bytes() for path in folder.glob("*.cut")) == [b"another", b"the first one"]


def test_a_second_repair_of_a_segment_keeps_both_damaged_files(memory_path: Path) -> None:
    """The segment and its manifest were put back from a copy after the first repair."""
    folder = fill(memory_path / "data", 0, 20)
    shutil.copytree(folder, memory_path / "copy")
    segment = min(folder.glob("*.log"))
    kept = []
    for at in (70, 130):
        raw = bytearray((memory_path / "copy" / segment.name).read_bytes())
        raw[at] ^= 1
        kept.append(bytes(raw))
        shutil.rmtree(folder) if at == 70 else [path.unlink() for path in folder.iterdir() if path.suffix != ".cut"]
        shutil.copytree(memory_path / "copy", folder, dirs_exist_ok=True)
        segment.write_bytes(raw)
        report = cut(folder)
        assert [Path(path).read_bytes() for path in report.side_files] == [bytes(raw)]
    assert sorted(path.read_bytes() for path in folder.glob("*.cut")) == sorted(kept)


def test_files_of_others_in_a_partition_are_not_swept(memory_path: Path) -> None:
    folder = fill(memory_path, 0, 20)
    names = ["saved-00000000000000000000.log", "00000000000000000000.bak.log", "notes.tmp", "notes.pos"]
    for name in names:
        (folder / name).write_bytes(b"of somebody else")
    fill(memory_path, 20, 22)
    assert [name for name in names if not (folder / name).exists()] == []


# -- what the system refuses ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["manifest", "commit", "lock", "segment", "sidecar"])
def test_errors_of_check_and_repair_are_ours(memory_path: Path, name: str) -> None:
    """A directory in the place of a file stands for whatever the system may refuse to read."""
    from headwater.core.errors import HeadwaterError

    folder = fill(memory_path, 0, 20)
    path = {"segment": min(folder.glob("*.log")), "sidecar": max(folder.glob("*.pos"))}.get(name, folder / name)
    path.unlink()
    path.mkdir()
    with opened(memory_path) as log:
        reader = log.reader("t", 0)
        calls: list[Callable[[], object]] = [
            lambda: check(reader),
            lambda: stats(reader),
            lambda: cut(folder),
            lambda: cut(folder, dry_run=True),
            lambda: rebuilt(folder),
            lambda: rebuilt(folder, dry_run=True),
        ]
        for call in calls:
            try:
                call()
            except HeadwaterError:
                continue
        if name == "sidecar":  # which can be lost
            assert len(log.read("t", 0, 0)) == 20
            assert check(reader).records == 20


def test_a_description_of_a_newer_headwater_is_no_damage(memory_path: Path) -> None:
    fill(memory_path, 0, 3)
    path = memory_path / "log" / "t" / "topic.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 3'))
    with opened(memory_path) as log, pytest.raises(NewerFormat, match="format 3"):
        log.topic("t")


def test_an_append_that_ends_after_its_topic_was_made_anew_leaves_the_new_one_alone(memory_path: Path) -> None:
    files, clock = SlowSync(), ManualClock(wakes=False)
    with EmbeddedLog(memory_path, files=files, clock=clock, boot=BOOT) as slow, opened(memory_path) as other:
        slow.create_topic("t")
        slow.append("t", 0, [Record(None, b"old" * 100)])
        files.armed = True
        appending = threading.Thread(target=lambda: slow.append("t", 0, [Record(None, b"old" * 100)]))
        appending.start()
        assert files.syncing.wait(120)
        other.delete_topic("t")
        other.create_topic("t")
        other.append("t", 0, [Record(None, b"new")])
        clock.advance(5)  # so that the manifest is due
        files.go_on.set()
        appending.join()
        manifest = other.reader("t", 0).manifest()
        assert manifest is not None
        assert manifest.durable.position < 300
    with opened(memory_path) as log:
        assert [one.value for one in log.read("t", 0, 0)] == [b"new"]
        log.append("t", 0, [Record(None, b"goes on")])

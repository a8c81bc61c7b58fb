"""Reading beside other processes: what they do between two looks of a reader, and what they leave when they die."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.core.errors import Damaged, OffsetGone
from headwater.core.files import Files
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.check import check
from headwater.log.embedded.housekeeping import delete_before
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.manifest import Manifest
from headwater.log.embedded.reader import PartitionReader
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import FailingFiles, crash

BOOT, OTHER = b"b" * 16, b"o" * 16


class Interrupted(PartitionReader):
    """A reader that another process overtakes a few times, between its look at the manifest and its look at the end."""

    between: Callable[[], object] | None = None
    times = 1

    def _fresh(self) -> Manifest | None:
        found = super()._fresh()
        if self.between is not None and self.times:
            self.times -= 1
            self.between()
        return found


def opened(path: Path, *, boot: bytes = BOOT, read_only: bool = False, files: Files | None = None) -> EmbeddedLog:
    return EmbeddedLog(path, clock=ManualClock(), boot=boot, read_only=read_only, files=files)


def folder(path: Path) -> Path:
    return path / "log" / "t" / "0"


def interrupted(path: Path, boot: bytes = BOOT) -> Interrupted:
    return Interrupted(folder(path), name="t 0", files=Files(), boot=boot)


def append(log: EmbeddedLog, *values: int) -> None:
    for value in values:
        log.append("t", 0, [Record(b"key-%d" % value, b"%d" % value, timestamp=value)])


def values(reader: PartitionReader, start: int = 0) -> list[int]:
    return [int(record.value or b"") for record in reader.read(start, limit=1000, max_bytes=1 << 20)]


@pytest.fixture
def log(tmp_path: Path) -> EmbeddedLog:
    found = opened(tmp_path)
    found.create_topic("t", settings=TopicSettings(segment=1))
    append(found, 0, 1, 2)
    return found


LOOKS: dict[str, Callable[[PartitionReader], object]] = {
    "read": lambda reader: values(reader, 2)[0] == 2,
    "scan": lambda reader: [batch.column("offset").to_pylist() for batch in reader.scan(2, 3, batch=10)] == [[2]],
    "offset_at": lambda reader: reader.offset_at(2) == 2,
    "extents": lambda reader: any(one.base <= 2 < end and limit for one, end, limit in reader.extents()),
    "check": lambda reader: check(reader).records >= 3,
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_roll_between_the_manifest_and_the_end_hides_nothing(log: EmbeddedLog, look: str) -> None:
    reader = interrupted(log.data)
    assert LOOKS[look](reader)
    for number in (3, 13):
        reader.between, reader.times = lambda number=number: append(log, number), 3  # type: ignore[misc]
        assert LOOKS[look](reader)
        fresh = interrupted(log.data)
        fresh.between, fresh.times = lambda number=number: append(log, number + 5), 3  # type: ignore[misc]
        assert LOOKS[look](fresh)


@pytest.mark.parametrize("look", LOOKS)
def test_a_compaction_between_the_manifest_and_the_files_hides_nothing(log: EmbeddedLog, look: str) -> None:
    append(log, 3)
    reader = interrupted(log.data)
    reader.between, reader.times = lambda: (log.compact("t", 0), append(log, 4)), 3
    assert LOOKS[look](reader)


def test_what_is_deleted_between_two_looks_is_told(log: EmbeddedLog) -> None:
    append(log, 3)
    reader = interrupted(log.data)
    scan = reader.scan(0, 4, batch=1)
    assert next(scan).num_rows == 1
    delete_before(log.partition("t", 0), 3)
    with pytest.raises(OffsetGone):
        list(scan)
    assert values(reader, 3) == [3]


def test_a_reader_follows_a_partition_that_is_recovered_meanwhile(log: EmbeddedLog) -> None:
    """The page is of another boot when the reader looks at the manifest, and of this one when it looks at the end."""
    crash(log)

    def recover() -> None:
        with opened(log.data, boot=OTHER) as writer:
            append(writer, 3, 4, 5)

    reader = interrupted(log.data, boot=OTHER)
    reader.between = recover
    assert values(reader)[:3] == [0, 1, 2]
    assert values(reader) == [0, 1, 2, 3, 4, 5]


def test_a_reader_follows_into_the_fresh_file_after_a_failed_sync(tmp_path: Path) -> None:
    """A repair that begins with nothing durable in the active segment takes a file of another generation, with the same base."""
    files = FailingFiles(only=("datasync",))
    log = opened(tmp_path, files=files)
    log.create_topic("t")
    reader = interrupted(tmp_path)
    log.partition("t", 0)

    def fail_then_go_on() -> None:
        files.fail_at = files.calls + 1
        with pytest.raises(Exception, match="Syncing"):
            append(log, 0)
        append(log, 0, 1)

    assert values(reader) == []
    reader.between = fail_then_go_on
    assert values(reader) == [0, 1]


def test_a_half_done_roll_hides_nothing(log: EmbeddedLog) -> None:
    """The roller died behind the manifest's rename: the page still tells of the segment before."""
    partition = log.partition("t", 0)
    page, durable, tail, generation = partition.page, partition.page.durable, partition.page.tail, partition.page.generation
    append(log, 3)
    log.read("t", 0, 0)
    assert page.durable.base != durable.base
    rolled = manifests.load(folder(log.data))
    assert rolled is not None
    page.durable, page.tail, page.generation = durable, tail, generation
    reader = interrupted(log.data)
    assert values(reader) == [0, 1, 2]
    manifests.save(Files(), folder(log.data), Manifest(rolled.generation, 3, rolled.segments[-1:], rolled.durable))
    with pytest.raises(OffsetGone):
        values(interrupted(log.data), 2)
    assert values(interrupted(log.data), 3) == []


def test_damage_in_the_first_batch_of_the_active_segment_is_told_after_another_boot(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.create_topic("t")
    append(log, 0, 1, 2)
    crash(log)
    path = next(folder(tmp_path).glob("*.log"))
    rotten = bytearray(path.read_bytes())
    rotten[30] ^= 1
    path.write_bytes(rotten)
    with opened(tmp_path, boot=OTHER, read_only=True) as reading:
        for look in (lambda: reading.read("t", 0, 0), lambda: list(reading.scan("t", 0, 0)), lambda: reading.offset_at("t", 0, 1)):
            with pytest.raises(Damaged, match="damaged at byte 0"):
                look()


def test_a_segment_that_the_manifest_names_and_nobody_has_is_damage(log: EmbeddedLog) -> None:
    (folder(log.data) / f"{1:020d}.log").unlink()
    with opened(log.data, read_only=True) as reading:
        assert [record.offset for record in reading.read("t", 0, 0)] == [0]
        for look in (lambda: reading.read("t", 0, 1), lambda: list(reading.scan("t", 0, 1)), lambda: reading.offset_at("t", 0, 5)):
            with pytest.raises(Damaged, match="is missing"):
                look()
        assert [(one.offset, one.what) for one in check(reading.reader("t", 0)).damage] == [(1, "the file is missing")]


def test_zeros_behind_the_durable_end_are_none(log: EmbeddedLog) -> None:
    crash(log)
    active = max(folder(log.data).glob("*.log"))
    with active.open("ab") as file:
        file.write(bytes(1 << 20))
    for boot in (BOOT, OTHER):
        with opened(log.data, boot=boot, read_only=True) as reading:
            assert [record.offset for record in reading.read("t", 0, 0)] == [0, 1, 2]
            assert not check(reading.reader("t", 0)).damage


def test_a_manifest_that_was_put_back_from_a_copy_can_be_read_by_as_far_as_it_names_the_end(log: EmbeddedLog) -> None:
    path = folder(log.data) / "manifest"
    copy = path.read_bytes()
    log.partition("t", 0).claim()  # a newer manifest of the same segments
    path.write_bytes(copy)
    assert values(interrupted(log.data)) == [0, 1, 2]
    log.writer("t", 0, log.partition("t", 0).page.epoch).append([Record(b"k", b"3")])  # in a segment that the copy does not name
    path.write_bytes(copy)
    with pytest.raises(Damaged, match="does not name"):
        values(interrupted(log.data))

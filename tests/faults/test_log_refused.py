"""What the system refuses, and files that have rotted: always an error of ours, and nothing lost."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.descriptors import open_below

from headwater.core.errors import Damaged, DiskFull, HeadwaterError, ReadOnly, Unavailable
from headwater.core.files import Files
from headwater.log.address import LogAddress
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.opening import open_log
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import FailingFiles

BOOT = b"b" * 16


def record(text: str) -> Record:
    return Record(b"k", text.encode())


def prepared(path: Path, topics: int = 1) -> Path:
    with EmbeddedLog(path, boot=BOOT) as log:
        for number in range(topics):
            log.create_topic(f"t{number}", settings=TopicSettings(segment=100))
            for n in range(6):
                log.append(f"t{number}", 0, [Record(b"%d" % n, b"%d" % n * 20)])
    return path


@contextmanager
def few_descriptors(count: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


CALLS: list[Callable[[EmbeddedLog], object]] = [
    lambda log: log.append("t0", 0, [record("x")]),
    lambda log: log.read("t0", 0, 0),
    lambda log: list(log.scan("t0", 0, 0)),
    lambda log: log.bounds("t0", 0),
    lambda log: log.epoch("t0", 0),
    lambda log: next(log.tail("t0", 0, 0, stopped=lambda: False)),
    lambda log: log.offset_at("t0", 0, 0),
    lambda log: log.topics(),
    lambda log: log.topic("t0"),
    lambda log: log.create_topic("new"),
    lambda log: log.claim("t0", 0),
    lambda log: log.compact("t0", 0),
    lambda log: log.delete_before("t0", 0, 2),
    lambda log: log.delete_topic("t0"),
]


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_too_many_open_files_is_an_error_of_ours(tmp_path: Path, call: Callable[[EmbeddedLog], object]) -> None:
    import pyarrow  # noqa: F401 - loading it needs descriptors of its own

    import headwater.log.embedded.compaction  # noqa: F401

    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    for spare in range(12):
        data = prepared(tmp_path / f"{spare}")
        log = EmbeddedLog(data, boot=BOOT)
        fillers = []
        with few_descriptors(highest + 20):
            while True:
                try:
                    fillers.append(os.open("/dev/null", os.O_RDONLY))
                except OSError:
                    break
            for fd in fillers[:spare]:
                os.close(fd)
            error: HeadwaterError | None = None
            try:
                call(log)
            except HeadwaterError as raised:
                error = raised
            finally:
                for fd in fillers[spare:]:
                    os.close(fd)
            if error is not None:
                assert isinstance(error, Unavailable)
                assert "too many open files" in error.message
        log.close()
        found = EmbeddedLog(data, boot=BOOT)
        if any(topic.name == "t0" for topic in found.topics()):
            start = found.bounds("t0", 0).start
            assert [one.value for one in found.read("t0", 0, start)][: 6 - start] == [f"{n}".encode() * 20 for n in range(start, 6)]
        found.close()


PROGRAM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
from headwater.log.embedded.log import EmbeddedLog
from headwater.core.files import Files
from headwater.log.record import Record
class Quick(Files):
    def datasync(self, fd): pass
    def sync(self, fd): pass
log = EmbeddedLog(sys.argv[1], files=Quick())
for n in range(2000):
    log.create_topic(f"t{n}")
    log.append(f"t{n}", 0, [Record(b"k", b"first")])
    log.read(f"t{n}", 0, 0)
for n in range(0, 2000, 7):
    assert log.append(f"t{n}", 0, [Record(b"k", b"second")])[0] == 1
    assert len(log.read(f"t{n}", 0, 0)) == 2
print(len(log.topics()))
"""


SEGMENTS = """
import resource, sys
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings
log = EmbeddedLog(sys.argv[1])
log.create_topic("t", partitions=limit // 16, settings=TopicSettings(segment=1))
for _ in range(2):
    for partition in range(limit // 16):
        for n in range(5):
            log.append("t", partition, [Record(b"k", b"v")])
    for partition in range(limit // 16):
        log.read("t", partition, 0)
print("fine")
"""


@pytest.mark.parametrize("limit", [64, 1024])
def test_partitions_of_many_segments_are_fine_with_few_descriptors(memory_path: Path, limit: int) -> None:
    done = subprocess.run([sys.executable, "-c", SEGMENTS, str(memory_path), str(limit)], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "fine"), done.stderr


class NoSidecar(Files):
    """Has a descriptor for each file but a compacted segment's sidecar."""

    def open(self, path: Path, flags: int) -> int:
        if path.suffix == ".pos" and "-" in path.stem:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().open(path, flags)


def test_a_compaction_that_gets_no_descriptor_keeps_none(memory_path: Path) -> None:
    with EmbeddedLog(memory_path, files=NoSidecar()) as log:
        log.create_topic("t", settings=TopicSettings(segment=100))
        for _ in range(6):
            log.append("t", 0, [record("x" * 50)])
        counts = []
        for _ in range(5):
            with pytest.raises(Unavailable, match="too many open files"):
                log.compact("t", 0)
            counts.append(open_below(memory_path))
        assert counts[-1] == counts[0]


def test_segments_that_another_process_rolls_are_let_go(memory_path: Path) -> None:
    with EmbeddedLog(memory_path) as rolling, EmbeddedLog(memory_path) as log:
        rolling.create_topic("t", settings=TopicSettings(segment=150))
        counts = []
        for _ in range(20):
            rolling.append("t", 0, [record("x" * 150)])
            rolling.append("t", 0, [record("this rolls")])
            log.append("t", 0, [record("this never does")])
            counts.append(open_below(memory_path))
        assert counts[-1] == counts[0]


def test_two_thousand_topics_are_fine_with_a_thousand_descriptors(memory_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(memory_path)], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "2000"), done.stderr


@pytest.mark.parametrize("name", ["engine.json", "t0/topic.json"])
def test_rotten_descriptions_are_damage(tmp_path: Path, name: str) -> None:
    path = prepared(tmp_path) / "log" / name
    whole = path.read_bytes()
    for at in range(len(whole)):
        for flipped in (whole[at] ^ 0x80, 0xFF, 0):
            path.write_bytes(whole[:at] + bytes([flipped]) + whole[at + 1 :])
            try:
                with open_log(LogAddress(path=str(tmp_path))) as log:
                    log.topics()
                    log.bounds("t0", 0)
            except HeadwaterError:
                continue
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(Damaged, match="cannot be read"):
        open_log(LogAddress(path=str(tmp_path))).topics()


def test_a_directory_that_is_mounted_read_only_can_be_read(tmp_path: Path) -> None:
    source, mounted = tmp_path / "data", tmp_path / "mounted"
    prepared(source)
    mounted.mkdir()
    done = subprocess.run(f"mount --bind {source} {mounted} && mount -o remount,bind,ro {mounted}", shell=True, capture_output=True)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.decode().strip()}")
    try:
        with EmbeddedLog(mounted, boot=BOOT) as log:
            assert len(log.read("t0", 0, 0)) == 6
            assert sum(batch.num_rows for batch in log.scan("t0", 0, 0)) == 6
            for call in (
                lambda: log.append("t0", 0, [record("x")]),
                lambda: log.create_topic("new"),
                lambda: log.delete_topic("t0"),
                lambda: log.claim("t0", 0),
                lambda: log.delete_before("t0", 0, 2),
            ):
                with pytest.raises(ReadOnly):
                    call()
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


def flips(data: Path) -> Iterator[tuple[int, bytes]]:
    page = data / "log" / "t0" / "0" / "commit"
    whole = page.read_bytes()
    for at in range(41 * 8):
        for bit in (0, 3, 7):
            yield at, whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]


def test_a_flipped_byte_of_the_commit_page_hides_no_record_from_readers(memory_path: Path) -> None:
    prepared(memory_path)
    page = memory_path / "log" / "t0" / "0" / "commit"
    for at, flipped in flips(memory_path):
        page.write_bytes(flipped)
        with EmbeddedLog(memory_path, boot=BOOT, read_only=True) as log:
            assert len(log.read("t0", 0, 0)) == 6, f"byte {at}"
            assert log.bounds("t0", 0).end == 6, f"byte {at}"


def test_whoever_opens_alone_makes_a_flipped_commit_page_anew(memory_path: Path) -> None:
    prepared(memory_path)
    page = memory_path / "log" / "t0" / "0" / "commit"
    end = 6
    for at, flipped in flips(memory_path):
        page.write_bytes(flipped)
        with EmbeddedLog(memory_path, boot=BOOT, clock=ManualClock(wakes=False)) as log:
            assert log.append("t0", 0, [record("x")])[0] == end, f"byte {at}"
            assert log.read("t0", 0, end)[0].value == b"x", f"byte {at}"
            end += 1
            if end > 20:
                log.delete_before("t0", 0, end - 3)


def test_a_commit_page_that_rots_under_living_writers_never_makes_them_overwrite(memory_path: Path) -> None:
    """Each word is changed while the partition is open: the append is refused, or lands behind everything acknowledged."""
    for word in range(41):
        data = prepared(memory_path / f"{word}")
        log = EmbeddedLog(data, boot=BOOT, clock=ManualClock(wakes=False))
        log.append("t0", 0, [record("last")])
        with (data / "log" / "t0" / "0" / "commit").open("r+b") as file:
            file.seek(word * 8)
            old = int.from_bytes(file.read(8), "little")
            file.seek(word * 8)
            file.write((old ^ 1).to_bytes(8, "little"))
        with suppress(HeadwaterError):
            assert log.append("t0", 0, [record("next")])[0] == 7
        log.close()
        with EmbeddedLog(data, boot=BOOT) as again:
            assert [one.value for one in again.read("t0", 0, 0)][:7] == [*(f"{n}".encode() * 20 for n in range(6)), b"last"], word
            again.append("t0", 0, [record("more")])


class Full(Files):
    """A disk without a free byte: only what was there before can be written, until something is removed."""

    def __init__(self) -> None:
        self.full = False

    def open(self, path: Path, flags: int) -> int:
        if self.full and flags & os.O_CREAT and not path.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().open(path, flags)

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self.full = False


def test_deleting_works_on_a_full_disk(tmp_path: Path) -> None:
    files = Full()
    log = EmbeddedLog(prepared(tmp_path), files=files, boot=BOOT)
    log.append("t0", 0, [record("last")])
    files.full = True
    with pytest.raises(DiskFull):
        log.append("t0", 0, [record("x" * 200), record("x" * 200)]) and log.append("t0", 0, [record("rolls")])
    assert log.delete_before("t0", 0, 4) == 4
    log.append("t0", 0, [record("goes on")])
    assert (tmp_path / "log" / ".reserve").stat().st_size > 0  # kept for the next time


@pytest.mark.parametrize("reopen", [False, True])
def test_deleting_frees_a_real_full_disk(small_disk: Path, reopen: bool) -> None:
    log = EmbeddedLog(small_disk / "data", boot=BOOT)
    log.create_topic("t", settings=TopicSettings(segment=50_000))
    end = 0
    with pytest.raises(DiskFull):
        while True:
            end = log.append("t", 0, [Record(b"k", bytes(1000))])[-1] + 1
    fd = os.open(small_disk / "ballast", os.O_CREAT | os.O_WRONLY)
    with pytest.raises(OSError, match="No space"):
        while True:
            os.write(fd, bytes(512))
    os.close(fd)
    if reopen:
        log.close()
        log = EmbeddedLog(small_disk / "data", boot=BOOT)
    assert log.delete_before("t", 0, end - 10) == end - 10
    for _ in range(100):
        log.append("t", 0, [Record(b"k", bytes(1000))])
    log.delete_topic("t")
    log.close()


def test_a_reserve_that_cannot_be_made_stops_nobody(tmp_path: Path) -> None:
    files = FailingFiles(number=errno.ENOSPC, only=("pwritev",))
    log = EmbeddedLog(tmp_path, files=files, boot=BOOT)
    log.create_topic("t")
    (tmp_path / "log" / ".reserve").unlink()
    files.fail_at, files.calls = 1, 0
    log.create_topic("u")
    assert files.failed
    assert not (tmp_path / "log" / ".reserve").exists()
    log.create_topic("v")
    assert (tmp_path / "log" / ".reserve").exists()

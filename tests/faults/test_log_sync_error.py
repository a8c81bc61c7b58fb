"""A failing sync, a full disk: what the caller is told, and what happens next."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from headwater.core.errors import DiskFull, OutcomeUnknown, ReadOnly, Unavailable
from headwater.core.files import Files
from headwater.log.embedded.check import check
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.encoding import encode
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import FailingFiles


class SyncFails(Files):
    """`fdatasync` fails as often as it is told to."""

    def __init__(self) -> None:
        self.fail = 0

    def datasync(self, fd: int) -> None:
        if self.fail:
            self.fail -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().datasync(fd)


def record(text: str) -> Record:
    return Record(b"k", text.encode())


def opened(path: Path, files: Files) -> EmbeddedLog:
    log = EmbeddedLog(path, files=files, clock=ManualClock(wakes=False), boot=b"b" * 16)
    log.create_topic("t")
    return log


def values(log: EmbeddedLog) -> list[bytes | None]:
    return [one.value for one in log.read("t", 0, 0)]


def test_a_failed_sync_is_an_unknown_outcome_and_the_log_goes_on(tmp_path: Path) -> None:
    files = SyncFails()
    log = opened(tmp_path, files)
    log.append("t", 0, [record("a")])
    files.fail = 1
    with pytest.raises(OutcomeUnknown, match="may or may not"):
        log.append("t", 0, [record("lost")])
    assert values(log) == [b"a"]
    assert log.append("t", 0, [record("b")])[0] == 1
    assert values(log) == [b"a", b"b"]
    assert [path.name for path in sorted((tmp_path / "log" / "t" / "0").glob("*.log"))][1].startswith(f"{1:020d}-")  # a fresh file
    assert not check(log.reader("t", 0)).damage


def test_when_even_the_repair_fails_everybody_is_refused_until_it_is_opened_alone(tmp_path: Path) -> None:
    files = SyncFails()
    log = opened(tmp_path, files)
    log.append("t", 0, [record("a")])
    other = opened(tmp_path, Files())
    other.append("t", 0, [record("b")])
    files.fail = 2
    with pytest.raises(OutcomeUnknown):
        log.append("t", 0, [record("lost")])
    for one in (log, other):
        with pytest.raises(Unavailable, match="takes no records"):
            one.append("t", 0, [record("refused")])
        assert values(one) == [b"a", b"b"]
    log.close()
    other.close()
    again = opened(tmp_path, Files())
    again.append("t", 0, [record("c")])
    assert values(again)[:2] == [b"a", b"b"]
    assert values(again)[-1] == b"c"


def test_every_writer_that_waited_during_a_failed_sync_is_told_so(tmp_path: Path) -> None:
    """A writer whose own sync went well, but began before another's failure was repaired, must not be acknowledged."""
    files = SyncFails()
    log = opened(tmp_path, files)
    other = opened(tmp_path, Files())
    mine, theirs = log.partition("t", 0), other.partition("t", 0)
    sleeping = theirs.write(encode([record("sleeping")], now=1))
    files.fail = 1
    with pytest.raises(OutcomeUnknown):
        mine.append(encode([record("failing")], now=1))
    with pytest.raises(OutcomeUnknown, match="Another process's sync"):
        theirs.finish(sleeping)
    assert values(log) == []
    other.append("t", 0, [record("next")])
    assert values(log) == [b"next"]


def test_threads_that_append_during_failing_syncs_are_never_told_a_lie(tmp_path: Path) -> None:
    files = SyncFails()
    log = opened(tmp_path, files)
    acknowledged: dict[int, bytes] = {}
    unknown = []

    def work(who: int) -> None:
        for n in range(40):
            value = f"{who}-{n}".encode()
            if n % 13 == who:
                files.fail = 1
            try:
                acknowledged[log.append("t", 0, [Record(b"k", value)])[0]] = value
            except Unavailable:
                unknown.append(value)

    threads = [threading.Thread(target=work, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    files.fail = 0
    log.close()
    again = EmbeddedLog(tmp_path, boot=b"o" * 16)
    again.append("t", 0, [record("after")])
    stored = {one.offset: one.value for one in again.read("t", 0, 0)}
    assert unknown
    assert {offset: stored.get(offset) for offset in acknowledged} == acknowledged


def test_no_space_while_writing_leaves_everything_as_it_was(tmp_path: Path) -> None:
    files = FailingFiles(number=errno.ENOSPC)
    log = opened(tmp_path, files)
    log.append("t", 0, [record("a")])
    before = (tmp_path / "log" / "t" / "0" / f"{0:020d}.log").read_bytes()
    files.fail_at = files.calls + 1
    with pytest.raises(DiskFull, match="No space left"):
        log.append("t", 0, [record("b")])
    assert (tmp_path / "log" / "t" / "0" / f"{0:020d}.log").read_bytes() == before.rstrip(b"\0")  # what was written ahead is given back
    log.append("t", 0, [record("c")])
    assert values(log) == [b"a", b"c"]


def test_a_directory_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    log = opened(tmp_path, Files())
    log.append("t", 0, [record("a")])
    log.close()
    files = FailingFiles(1, forever=True, number=errno.EROFS)
    locked = EmbeddedLog(tmp_path, files=files, boot=b"b" * 16)
    assert values(locked) == [b"a"]
    with pytest.raises(ReadOnly, match="cannot be written"):
        locked.append("t", 0, [record("b")])


def test_a_full_disk_stops_appending_only_and_only_while_it_is_full(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1 << 20))
    with EmbeddedLog(small_disk / "data") as log:
        log.create_topic("t", settings=TopicSettings(segment=100_000))
        written = []
        with pytest.raises(DiskFull):
            for i in range(10_000):
                value = b"%d" % i + bytes(5000)
                log.append("t", 0, [Record(b"k", value)])
                written.append(value)
        assert len(written) > 100
        assert [one.value for one in log.read("t", 0, 0, limit=10_000)] == written
        with pytest.raises(DiskFull):
            log.append("t", 0, [Record(b"k", bytes(50_000))])
        ballast.unlink()
        log.append("t", 0, [record("after")])
        assert [one.value for one in log.read("t", 0, 0, limit=10_000)] == [*written, b"after"]
    with EmbeddedLog(small_disk / "data") as log:
        log.append("t", 0, [record("reopened")])
        assert log.bounds("t", 0).end == len(written) + 2
        assert not check(log.reader("t", 0)).damage

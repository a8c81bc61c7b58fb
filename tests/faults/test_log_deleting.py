"""Deleting a topic while others open it, append to it, or die."""

from __future__ import annotations

import contextlib
import errno
import threading
from pathlib import Path

import pytest

from headwater.core.errors import HeadwaterError, UnknownTopic
from headwater.core.files import Files
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.testing.clock import ManualClock
from headwater.testing.faults import FailingFiles

BOOT = b"b" * 16


def record(text: str) -> Record:
    return Record(b"k", text.encode())


def opened(path: Path, files: Files | None = None) -> EmbeddedLog:
    return EmbeddedLog(path, files=files, boot=BOOT)


class StopsAtRename(Files):
    """Calls `meanwhile` just before a topic's directory is renamed."""

    def __init__(self) -> None:
        self.stopped, self.go_on = threading.Event(), threading.Event()

    def rename(self, old: Path, new: Path) -> None:
        if new.name.startswith(".deleted-"):
            self.stopped.set()
            assert self.go_on.wait(120)
        super().rename(old, new)


def test_nothing_is_acknowledged_into_a_topic_that_is_being_deleted(tmp_path: Path) -> None:
    """Whoever opens between the mark and the rename must not take the mark away, and write on after the topic is made again."""
    files = StopsAtRename()
    deleter, other = opened(tmp_path, files), opened(tmp_path)
    deleter.create_topic("t")
    deleter.append("t", 0, [record("old")])
    deleting = threading.Thread(target=deleter.delete_topic, args=("t",))
    deleting.start()
    assert files.stopped.wait(120)
    outcome: list[object] = []

    def append() -> None:
        try:
            outcome.append(other.append("t", 0, [record("in between")])[0])
        except HeadwaterError as error:
            outcome.append(error)

    appending = threading.Thread(target=append)  # a process of its own opens the partition now
    appending.start()
    appending.join(0.05)
    files.go_on.set()
    deleting.join(120)
    appending.join(120)
    assert isinstance(outcome[0], UnknownTopic)
    deleter.create_topic("t")
    assert other.append("t", 0, [record("new")])[0] == 0
    assert [one.value for one in deleter.read("t", 0, 0)] == [b"new"]


def test_an_append_of_an_open_partition_goes_to_the_topic_that_was_made_again(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    one.create_topic("t", partitions=1)
    other.append("t", 0, [record("old")])
    one.delete_topic("t")
    one.create_topic("t", partitions=3)
    assert other.append("t", 0, [record("new")])[0] == 0
    assert other.append("t", 2, [record("new")])[0] == 0  # it knows of the partitions, too
    assert [found.value for found in one.read("t", 0, 0)] == [b"new"]


@pytest.mark.parametrize("deleter", ["other", "itself"])
def test_a_scan_that_rests_gives_no_records_of_a_topic_that_was_made_again(tmp_path: Path, deleter: str) -> None:
    """Descriptors that nobody uses for a while are let go, and so are those of a topic that the log itself deletes."""
    clock = ManualClock(wakes=False)
    log, other = EmbeddedLog(tmp_path, boot=BOOT, clock=clock), opened(tmp_path)
    other.create_topic("t")
    other.append("t", 0, [record("old")] * 6)
    scans = [log.scan("t", 0, 0, batch=2) for _ in range(2)]
    for scan in scans:
        assert next(scan).column("value").to_pylist() == [b"old"] * 2
    clock.advance(60)
    log._rest()
    deleting = log if deleter == "itself" else other
    deleting.delete_topic("t")
    deleting.create_topic("t")
    deleting.append("t", 0, [record("new")] * 6)
    for scan in scans:
        with pytest.raises(UnknownTopic):
            next(scan)
    assert [found.value for found in log.reader("t", 0).read(0, limit=10, max_bytes=1000)] == [b"new"] * 6
    assert [found.value for found in log.read("t", 0, 0)] == [b"new"] * 6
    log.close()
    other.close()


@pytest.mark.parametrize("forever", [False, True])
def test_a_deletion_that_fails_at_any_call_leaves_the_topic_or_none(memory_path: Path, forever: bool) -> None:
    for n in range(1, 60):
        data = memory_path / f"{n}"
        files = FailingFiles()
        deleter, other = opened(data, files), opened(data)
        deleter.create_topic("t", partitions=2)
        other.append("t", 0, [record("acknowledged")])
        files.fail_at, files.calls, files.forever = n, 0, forever
        with contextlib.suppress(HeadwaterError):
            deleter.delete_topic("t")
        files.fail_at = 0
        names = [topic.name for topic in other.topics()]
        if names:
            assert [found.value for found in other.read("t", 0, 0)] == [b"acknowledged"]
            assert other.append("t", 0, [record("more")])[0] == 1
            assert [found.value for found in opened(data).read("t", 0, 0)] == [b"acknowledged", b"more"]
        else:
            with pytest.raises(UnknownTopic):
                other.append("t", 0, [record("lost")])
        other.create_topic("t", partitions=2)
        assert not list((data / "log").glob(".deleted-*"))
        if not files.failed:
            return
    raise AssertionError("the deletion never ended without a failure")


class Order(Files):
    """What was synced, renamed and removed, in its order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def sync_dir(self, path: Path) -> None:
        super().sync_dir(path)
        self.calls.append(("sync", path.name))

    def rename(self, old: Path, new: Path) -> None:
        self.calls.append((new.name, ""))
        super().rename(old, new)

    def unlink(self, path: Path) -> None:
        self.calls.append(("unlink", path.name))
        super().unlink(path)


class NamesLost(Files):
    """Dies at the sync of a folder, as if the power went before it, from the call of this number on."""

    def __init__(self, number: int) -> None:
        self._left = number

    def sync_dir(self, path: Path) -> None:
        self._left -= 1
        if self._left < 0:
            raise OSError(errno.EIO, "died")
        super().sync_dir(path)


@pytest.mark.parametrize("again", [False, True], ids=["appended", "created again"])
def test_names_of_a_topic_whose_maker_died_are_durable_before_anything_is_built_on_them(tmp_path: Path, again: bool) -> None:
    with opened(tmp_path) as first:
        first.create_topic("other")
    with opened(tmp_path, NamesLost(2)) as maker, pytest.raises(HeadwaterError):
        maker.create_topic("t")
    assert (tmp_path / "log" / "t" / "topic.json").exists()  # its name is there, and was not synced
    files = Order()
    with opened(tmp_path, files) as log:
        if again:
            log.create_topic("t")
        else:
            log.append("t", 0, [record("first")])
            del files.calls[files.calls.index(("manifest", "")) :]
    assert {("sync", "t"), ("sync", "log")} <= set(files.calls)


def test_the_rename_of_a_deletion_that_died_is_durable_before_its_files_are_removed(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.create_topic("t")
        log.append("t", 0, [record("first")])
    with opened(tmp_path, NamesLost(0)) as dying, pytest.raises(HeadwaterError):
        dying.delete_topic("t")
    files = Order()
    with opened(tmp_path, files) as log:
        log.create_topic("t")
    assert files.calls.index(("sync", "log")) < files.calls.index(("unlink", "topic.json"))

"""Who waits for the embedded log is woken: by own commits at once, by others through the kernel or a sweep."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.core.errors import UnknownTopic
from headwater.log.embedded.arrivals import EmbeddedArrivals
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.watcher import FolderWatcher, process_watcher
from headwater.log.record import Record, TopicSettings
from headwater.testing.faults import crash
from headwater.testing.log_ground import PATIENCE, numbered
from headwater.testing.log_waiting import waited


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path) as opened:
        opened.create_topic("t", settings=TopicSettings(segment=200))  # rolls with each third record
        yield opened


def watched_by(log: EmbeddedLog, watcher: FolderWatcher) -> None:
    log._arrivals = EmbeddedArrivals(log._opened_reader, lambda name: log.topic(name).generation, watcher=lambda: watcher)


def test_own_records_are_told_without_the_watcher(log: EmbeddedLog) -> None:
    watched_by(log, FolderWatcher(threaded=False))  # nobody runs its rounds
    calls: list[int] = []
    with log.watch("t", 0, lambda: calls.append(watching.end())) as watching:
        for _ in range(5):
            log.append("t", 0, numbered(1))
        log.claim("t", 0).append(numbered(1))
    assert calls == [1, 2, 3, 4, 5, 6]


def test_a_thousand_who_wait_cost_one_look(log: EmbeddedLog) -> None:
    watcher = FolderWatcher(threaded=False)
    watched_by(log, watcher)
    told: list[int] = []
    looks = counted(log)
    watchings = [log.watch("t", 0, lambda: told.append(1)) for _ in range(1000)]
    assert len(watcher._places) == 1
    before = len(looks)
    log.append("t", 0, numbered(1))
    assert len(looks) == before + 1
    assert len(told) == 1000
    for watching in watchings:
        watching.close()


def counted(log: EmbeddedLog) -> list[int]:
    """Grows with every look at an end by those who wait."""
    looks: list[int] = []
    opened = log._arrivals._open_reader

    def counting(topic: str, partition: int) -> object:
        reader = opened(topic, partition)
        end: Callable[[], int] = reader.durable_offset
        reader.durable_offset = lambda: looks.append(1) or end()  # type: ignore[method-assign, func-returns-value]
        return reader

    log._arrivals._open_reader = counting  # type: ignore[assignment]
    return looks


def test_nobody_who_left_keeps_a_partition_watched(log: EmbeddedLog) -> None:
    watcher = FolderWatcher(threaded=False)
    watched_by(log, watcher)
    log.watch("t", 0, lambda: None).close()
    assert len(watcher._places) == 1
    watcher._sweep_at = 0
    assert watcher.round() is not None
    assert (watcher._places, log._arrivals._partitions) == ({}, {})
    assert watcher.round() is None


def test_a_topic_that_was_moved_away_ends_all_waiting(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as writer:
        writer.create_topic("t")
        writer.append("t", 0, numbered(1))
    arrived = threading.Event()
    with EmbeddedLog(tmp_path, read_only=True) as log, log.watch("t", 0, arrived.set) as watching:
        os.rename(tmp_path / "log" / "t", tmp_path / "elsewhere")  # of this the kernel says nothing to who watches the folder inside
        with pytest.raises(UnknownTopic):
            waited(watching, arrived, 1)


def test_a_forked_child_waits_by_itself(log: EmbeddedLog) -> None:
    """Its watcher is another one: what the parent's kernel queue holds is not the child's to take."""
    log.append("t", 0, numbered(1))
    arrived = threading.Event()
    watching = log.watch("t", 0, arrived.set)
    parents = process_watcher()
    said, say = os.pipe()
    child = os.fork()
    if not child:
        try:
            assert process_watcher() is not parents
            seen = next(batch for batch in log.tail("t", 0, 1, stopped=lambda: False) if batch)
            os.write(say, b"%d" % (seen[0].offset or 0))
        finally:
            os._exit(0)
    os.close(say)
    assert log.append("t", 0, [Record(b"k", b"v")])[0] == 1
    assert os.read(said, 10) == b"1"
    os.waitpid(child, 0)
    assert waited(watching, arrived, 1) == 2
    watching.close()
    os.close(said)


def test_a_batch_that_a_dead_writer_left_is_told_when_another_syncs_it(log: EmbeddedLog, tmp_path: Path) -> None:
    from headwater.log.encoding import encode

    log.append("t", 0, numbered(1))
    dying = EmbeddedLog(tmp_path)
    dying.partition("t", 0).write(encode(numbered(1), now=0, limit=1 << 20))
    arrived = threading.Event()
    with log.watch("t", 0, arrived.set) as watching:
        assert watching.end() == 1
        crash(dying)
        log.append("t", 0, numbered(1))
        assert waited(watching, arrived, 1) == 3


def test_a_tail_that_nobody_holds_any_more_waits_no_longer(log: EmbeddedLog) -> None:
    log.append("t", 0, numbered(1))
    tail = log.tail("t", 0, 0, stopped=lambda: False)
    next(tail)
    (found,) = log._arrivals._partitions.values()
    assert found.wanted
    del tail
    assert not found.wanted


def test_stopping_a_tail_from_another_thread_ends_it(log: EmbeddedLog) -> None:
    stop, seen = threading.Event(), threading.Event()

    def follow() -> None:
        for _ in log.tail("t", 0, 0, stopped=stop.is_set):
            seen.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert seen.wait(PATIENCE)
    stop.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_sweeps_seldom_read_files_of_partitions_that_nobody_writes_to(log: EmbeddedLog) -> None:
    watcher = FolderWatcher(threaded=False)
    watched_by(log, watcher)
    looks = counted(log)
    with log.watch("t", 0, lambda: None) as watching:
        before = len(looks)
        for _ in range(16):
            watcher._sweep_at = 0
            watcher.round()
        assert len(looks) - before == 2
        with EmbeddedLog(log.data) as other:
            other.append("t", 0, numbered(1))
        watcher.round()  # the kernel has told of it
        assert len(looks) - before == 3
        assert watching.end() == 1

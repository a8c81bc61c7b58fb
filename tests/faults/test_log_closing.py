"""Closing while others append: what was written is synced and answered; what was not is refused."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from slow_sync import SlowSync

from headwater.core.errors import Closed
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.testing.clock import ManualClock

BOOT = b"b" * 16


def test_close_waits_for_appends_under_way(tmp_path: Path) -> None:
    files = SlowSync()
    log = EmbeddedLog(tmp_path, files=files, clock=ManualClock(wakes=False), boot=BOOT)
    log.create_topic("t")
    log.append("t", 0, [Record(b"k", b"first")])
    outcome: list[object] = []

    def append() -> None:
        try:
            outcome.append(log.append("t", 0, [Record(b"k", b"under way")])[0])
        except Closed as error:
            outcome.append(error)

    files.armed = True
    appending = threading.Thread(target=append)
    appending.start()
    assert files.syncing.wait(120)
    closing = threading.Thread(target=log.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    files.go_on.set()
    closing.join(120)
    appending.join(120)
    assert outcome == [1]


def test_closed_is_never_said_of_a_record_that_is_there(tmp_path: Path) -> None:
    for number in range(10):
        log = EmbeddedLog(tmp_path / str(number), boot=BOOT)
        log.create_topic("t")
        acknowledged: set[bytes] = set()
        refused: set[bytes] = set()
        begun = threading.Barrier(5)

        def work(
            who: int, log: EmbeddedLog = log, yes: set[bytes] = acknowledged, no: set[bytes] = refused, begun: threading.Barrier = begun
        ) -> None:
            begun.wait()
            for n in range(1000):
                value = b"%d-%d" % (who, n)
                try:
                    log.append("t", 0, [Record(b"k", value)])
                except Closed:
                    no.add(value)
                    return
                yes.add(value)

        threads = [threading.Thread(target=work, args=(who,)) for who in range(4)]
        for thread in threads:
            thread.start()
        begun.wait()
        while len(acknowledged) < 5 * number:
            pass
        log.close()
        for thread in threads:
            thread.join()
        stored = {found.value for found in EmbeddedLog(tmp_path / str(number), boot=BOOT).read("t", 0, 0, limit=10_000)}
        assert stored == acknowledged
        assert refused


def test_a_partition_that_is_let_go_for_want_of_use_is_opened_again_by_the_next_append(tmp_path: Path) -> None:
    clock = ManualClock(wakes=False)
    log = EmbeddedLog(tmp_path, clock=clock, boot=BOOT)
    log.create_topic("t")
    writer = log.claim("t", 0)
    writer.append([Record(b"k", b"first")])
    log.read("t", 0, 0)
    log._rest()
    assert len(log._partitions) == len(log._readers) == 1
    clock.advance(60)
    log._rest()
    assert len(log._partitions) == len(log._readers) == 0
    open_files = [path for path in Path("/proc/self/fd").iterdir() if str(tmp_path) in str(path.resolve())]
    assert open_files == []
    assert (tmp_path / "log" / "t" / "0" / f"{0:020d}.log").stat().st_size == 51  # what was written ahead is given back
    assert writer.append([Record(b"k", b"second")])[0] == 1
    assert [found.value for found in log.read("t", 0, 0)] == [b"first", b"second"]


def test_a_partition_is_not_let_go_in_the_middle_of_a_compaction(tmp_path: Path) -> None:
    clock = ManualClock(wakes=False)
    log = EmbeddedLog(tmp_path, clock=clock, boot=BOOT)
    log.create_topic("t")
    log.append("t", 0, [Record(b"k", b"first")])
    log._rest()
    clock.advance(60)
    with log.partition("t", 0).held():
        log._rest()
        assert len(log._partitions) == 1
    log._rest()
    assert len(log._partitions) == 0


def test_an_append_that_meets_the_end_of_close_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It found the log open, and then waited while another partition was opened: meanwhile the log was closed."""
    log = EmbeddedLog(tmp_path, clock=ManualClock(wakes=False), boot=BOOT)
    log.create_topic("t")
    mutex = log._mutex

    class ClosedMeanwhile:
        def __enter__(self) -> None:
            log._mutex = mutex
            log.close()
            mutex.acquire()

        def __exit__(self, *_: object) -> None:
            mutex.release()

    for call in (lambda: log.append("t", 0, [Record(b"k", b"late")]), lambda: log.read("t", 0, 0)):
        log._closed = False
        monkeypatch.setattr(log, "_mutex", ClosedMeanwhile())
        with pytest.raises(Closed):
            call()
        assert not log._partitions
        assert not log._readers

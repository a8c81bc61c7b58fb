"""The keeper brings manifests up to date once a second, so that little is read again after a crash."""

from __future__ import annotations

from pathlib import Path

from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.keeper import settle
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.testing.clock import ManualClock


def durable(log: EmbeddedLog) -> int:
    found = manifests.load(log.data / "log" / "t" / "0")
    assert found is not None
    return found.durable.offset


def test_the_manifest_follows_within_a_second_after_the_last_append(tmp_path: Path) -> None:
    clock = ManualClock(wakes=False)
    log = EmbeddedLog(tmp_path, clock=clock)
    log.create_topic("t")
    for _ in range(3):
        log.append("t", 0, [Record(b"k", b"v")])
    assert durable(log) == 0
    settle([log.partition("t", 0)])
    assert durable(log) == 3


def test_an_append_after_a_second_replaces_it_too(tmp_path: Path) -> None:
    clock = ManualClock(wakes=False)
    log = EmbeddedLog(tmp_path, clock=clock)
    log.create_topic("t")
    log.append("t", 0, [Record(b"k", b"v")])
    clock.advance(1.5)
    log.append("t", 0, [Record(b"k", b"v")])
    assert durable(log) == 2


def test_the_thread_does_it_when_time_passes(tmp_path: Path) -> None:
    clock = ManualClock()
    log = EmbeddedLog(tmp_path, clock=clock)
    log.create_topic("t")
    log.append("t", 0, [Record(b"k", b"v")])
    while durable(log) < 1:  # a thread that never does it lets the suite's time limit end this
        clock.advance(1.1)
        clock.wait(log._keeper._stop, 0)
    log.close()

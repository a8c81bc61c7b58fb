"""The replicator of journals where calls fail and processes die: the copy is the same as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended, eventually, ground_at, held, random_records

from headwater.core.clock import SystemClock
from headwater.core.errors import HeadwaterError, Unavailable
from headwater.core.settings import Settings, SparkSettings
from headwater.journal.discovery import JournalTopic
from headwater.journal.rebuild import request_rebuild
from headwater.journal.replication_task import PartitionTask, copy_partition
from headwater.journal.replicator_process import order
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.sqlite_partition import SqlitePartitionStore
from headwater.journal.verify import verify_topic
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.clock import ManualClock

KILLS = int(os.environ.get("SOAK_REPLICATOR_KILLS", "6"))
CALLS: list[tuple[type, str]] = [
    *((SqlitePartitionStore, name) for name in ("pointer", "apply", "clear")),
    *((SqliteJournalStore, name) for name in ("partition", "setting", "set_setting")),
    *((EmbeddedLog, name) for name in ("read", "bounds", "topic", "topic_names", "watch")),
]


def fail_nth(monkeypatch: pytest.MonkeyPatch, number: int, *, done: bool) -> Callable[[], bool]:
    """Let the Nth call of the store or the log fail, before it or (`done`) after it has done its work. Returns whether it came to that."""
    calls = 0

    def failing(call: Callable[..., object]) -> Callable[..., object]:
        def called(*given: object, **named: object) -> object:
            nonlocal calls
            calls += 1
            if calls != number:
                return call(*given, **named)
            if done:
                call(*given, **named)
            raise Unavailable("It fails.")

        return called

    for kind, name in CALLS:
        monkeypatch.setattr(kind, name, failing(getattr(kind, name)))
    return lambda: calls >= number


def folded(ground: Ground, topic: JournalTopic, folder: Path) -> list[str]:
    """What a store holds into which the log was folded at once."""
    with ground_at(folder, ground.clock) as other:
        for partition in range(topic.partitions):
            end = ground.log.bounds(topic.name, partition).end
            task = PartitionTask(topic=topic.name, partition=partition, generation=topic.generation, end=end)
            assert copy_partition(ground.log, other.store, task).problem is None
        return held(other.store, topic)


@pytest.mark.parametrize("done", [False, True])
def test_each_call_fails_in_turn(tmp_path: Path, done: bool) -> None:
    number, reached = 0, True
    while reached:
        number += 1
        with ground_at(tmp_path / str(number), ManualClock()) as ground, pytest.MonkeyPatch.context() as monkeypatch:
            assert isinstance(ground.clock, ManualClock)
            topic = ground.topic()
            ground.append(*random_records(Random(7), 30))
            ground.append(appended("p1", 1), partition=1)
            ground.loop().catch_up()
            request_rebuild(ground.log, topic, partitions=[1])
            ground.append(*random_records(Random(8), 20))
            failed = fail_nth(monkeypatch, number, done=done)
            loop = ground.loop()
            for _ in range(10):
                try:
                    if loop.catch_up():
                        break
                except HeadwaterError:
                    pass
                ground.clock.advance(60)
            else:
                pytest.fail(f"It does not go on after call {number} failed: {loop.status()}")
            reached = failed()
            monkeypatch.undo()
            assert held(ground.store, topic) == folded(ground, topic, tmp_path / f"{number}-whole")
            loop.close()
    assert number > 20


def started(data: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-m", "headwater.journal.replicator_process"], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(order(Settings(data=data, spark=SparkSettings(start="never"))))
    process.stdin.flush()
    return process


def test_a_replicator_that_is_killed_under_load_copies_everything_once(tmp_path: Path) -> None:
    random = Random(11)
    with ground_at(tmp_path / "data", SystemClock()) as ground:
        topic = ground.topic()
        for _ in range(KILLS):
            process = started(tmp_path / "data")
            begin = ground.pointer(0)
            try:
                wanted = begin + random.randrange(1, 400)

                def loaded(wanted: int = wanted) -> bool:
                    for partition in range(2):
                        ground.append(*random_records(random, random.randrange(1, 40)), partition=partition)
                    return ground.pointer(0) >= wanted

                eventually(loaded)
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait()
        process = started(tmp_path / "data")
        ends = [ground.log.bounds(TOPIC, partition).end - 1 for partition in range(2)]
        eventually(lambda: [ground.pointer(partition) for partition in range(2)] == ends)
        process.terminate()
        assert process.wait(60) == 0
        assert held(ground.store, topic) == folded(ground, topic, tmp_path / "whole")
        verify_topic(ground.log, ground.store, topic, address=ground.address).check()

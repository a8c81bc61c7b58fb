"""The replicator of journals where calls fail and processes die: the copy is the same as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended, eventually, ground_at, held, random_records

from headwater.core.clock import SystemClock
from headwater.core.errors import HeadwaterError, Unavailable
from headwater.core.settings import Settings, SparkSettings
from headwater.core.units import Duration
from headwater.journal.cache import CacheLimits
from headwater.journal.chores import Chores
from headwater.journal.discovery import Discovery, JournalTopic
from headwater.journal.partition import JournalPartition
from headwater.journal.read import JournalRead
from headwater.journal.rebuild import request_rebuild
from headwater.journal.replication_task import PartitionTask, copy_partition
from headwater.journal.replicator_process import order
from headwater.journal.settings import JournalSettings
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.sqlite_partition import SqlitePartitionStore
from headwater.journal.verify import verify_topic
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Topic
from headwater.testing.clock import ManualClock

T = TypeVar("T")
KILLS = int(os.environ.get("SOAK_REPLICATOR_KILLS", "6"))
CALLS: list[tuple[type, str]] = [
    *((SqlitePartitionStore, name) for name in ("pointer", "apply", "clear")),
    *((SqliteJournalStore, name) for name in ("partition", "setting", "set_setting")),
    *((EmbeddedLog, name) for name in ("read", "bounds", "topic", "topic_names", "watch")),
]
LONG_CALLS: list[tuple[type, str]] = [
    *CALLS,
    *((SqlitePartitionStore, name) for name in ("checkpoint", "view")),
    *((EmbeddedLog, name) for name in ("scan", "offset_at", "read_at", "epoch", "delete_before")),
]
"""Also those of ranges of more than 500 records, of reads, and of the work by the clock."""


def fail_nth(
    monkeypatch: pytest.MonkeyPatch, number: int, *, done: bool, among: Sequence[tuple[type, str]] = CALLS, met: set[str] | None = None
) -> Callable[[], bool]:
    """Let the Nth call of the store or the log fail, before it or (`done`) after it has done its work; a scan then fails behind its first
    batch. Returns whether it came to that. `met`: the names of what was called."""
    calls = 0
    met = set() if met is None else met

    def failing(call: Callable[..., Any], name: str) -> Callable[..., object]:
        def called(*given: object, **named: object) -> object:
            nonlocal calls
            calls += 1
            met.add(name)
            if calls != number:
                return call(*given, **named)
            if done:
                made = call(*given, **named)
                if name == "scan":
                    return broken(made)
            raise Unavailable("It fails.")

        return called

    def broken(batches: Iterator[object]) -> Iterator[object]:
        yield from islice(batches, 1)
        raise Unavailable("It fails.")

    for kind, name in among:
        monkeypatch.setattr(kind, name, failing(getattr(kind, name), name))
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


def lived(ground: Ground, opened: Topic) -> list[list[int]]:
    """Copy, purge what has expired, copy that, let the log go, and read; whatever fails is tried again. Returns what reads give."""
    assert isinstance(ground.clock, ManualClock)
    loop = ground.loop()
    chores = Chores(ground.log, ground.store, Discovery(ground.log, ("journal",)), keep=Duration.parse("1d"), clock=ground.clock)
    limits = CacheLimits(record_bytes=1)  # bodies come from the log
    reader = JournalPartition(ground.log, lambda: ground.store, opened, 0, settings=JournalSettings(), limits=limits)

    def again(call: Callable[[], T]) -> T:
        for _ in range(10):
            try:
                if (found := call()) is not False:
                    return found
            except HeadwaterError:
                pass
            ground.clock.advance(60)  # type: ignore[attr-defined]
        pytest.fail(f"It does not go on: {loop.status()}")

    before = [again(lambda id=id: _numbers(reader, id)) for id in "abc"]  # type: ignore[misc]
    again(loop.catch_up)
    for _ in range(3):  # a turn that failed is taken again
        again(chores.turn)
    again(loop.catch_up)
    for _ in range(2):
        again(chores.turn)
    loop.close()
    return before + [again(lambda id=id: _numbers(reader, id)) for id in "abc"]  # type: ignore[misc]


def _numbers(reader: JournalPartition, id: str) -> list[int]:
    read, found = JournalRead(reader, id, end=reader.end()), list[int]()
    while page := read.page(50):
        found += [row.seq_nr for row in page]
    return found


def copied(ground: Ground, topic: JournalTopic) -> list[object]:
    """What the store holds, without what differs from one topic to the next."""
    found: list[object] = []
    for partition in range(topic.partitions):
        copy = ground.store.partition(topic.name, partition, topic.generation)
        assert copy is not None
        with copy.view() as view:
            found.append(view.pointer.offset)
            for id, head in view.heads():
                found.append((id, head.seq_nr, head.delete_to, head.offset, head.expire_on))
                found += [(row.seq_nr, row.offset, row.payload) for rows in view.rows(id, head, 1) for row in rows]
    return found


@pytest.mark.parametrize("done", [False, True])
def test_each_call_of_a_long_copy_and_of_its_care_fails_in_turn(tmp_path: Path, done: bool) -> None:
    """More records than one answer of the log holds, two days old: some journals have expired, and the log lets go what is copied."""
    number, reached, whole, met = -1, True, None, set[str]()
    while reached:
        number += 1  # 0: nothing fails
        with ground_at(tmp_path / str(number), ManualClock()) as ground, pytest.MonkeyPatch.context() as monkeypatch:
            assert isinstance(ground.clock, ManualClock)
            topic = ground.topic()
            ground.append(*random_records(Random(9), 640))
            ground.append(appended("p1", 1), partition=1)
            ground.clock.advance(2 * 86_400)
            opened = ground.log.topic(TOPIC)
            failed = fail_nth(monkeypatch, number, done=done, among=LONG_CALLS, met=met)
            read = lived(ground, opened)
            reached = failed()
            monkeypatch.undo()
            left = read, copied(ground, topic), [ground.log.bounds(TOPIC, partition) for partition in range(2)]
        whole = whole or left
        assert left == whole, f"after call {number} failed"
    assert met == {name for _, name in LONG_CALLS} - {"clear"}
    assert whole is not None
    assert whole[2][0].start >= 640
    assert any(whole[0][3:]) or not any(whole[0][:3])
    assert number > 60


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
        assert process.wait(240) == 0
        assert held(ground.store, topic) == folded(ground, topic, tmp_path / "whole")
        verify_topic(ground.log, ground.store, topic, address=ground.address).check()

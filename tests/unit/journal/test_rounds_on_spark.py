"""Rounds that really run on Spark, on this machine: the copy is the same as that of a round without Spark."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from quick_spark import quick
from tests.unit.journal.ground import TOPIC, Ground, appended, eventually, ground_at, held, random_records

from headwater.core.clock import SystemClock
from headwater.journal.discovery import Discovery, JournalTopic
from headwater.journal.loop import ReplicatorLoop
from headwater.journal.replicate import Rounds
from headwater.journal.replication_task import PartitionTask, copy_partition
from headwater.journal.verify import verify_topic
from headwater.log.record import Record
from headwater.spark.lazy import LazySpark
from headwater.spark.starting import running

pytestmark = pytest.mark.spark
EACH = 30_000


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[tuple[Ground, JournalTopic]]:
    """Two partitions with 30 000 records each, of 300 journals."""
    with ground_at(tmp_path / "data", SystemClock()) as ground:
        topic = ground.topic()
        random = Random(3)
        for partition in range(2):
            ids = [f"{partition}-{number}" for number in range(300)]
            records: list[Record] = random_records(random, 5000, ids)
            records += [appended(f"n-{partition}-{number % 300}", number // 300 + 1) for number in range(EACH - len(records))]
            ground.append(*records, partition=partition)
        yield ground, topic


def replicator(ground: Ground) -> ReplicatorLoop:
    rounds = Rounds(ground.log, ground.store, address=ground.address, spark=quick(), small=0, clock=ground.clock, ends_java=True)
    return ReplicatorLoop(
        ground.log,
        ground.store,
        rounds,
        Discovery(ground.log, ("journal",)),
        clock=ground.clock,
        random=Random(1),
        copied=ground.outcomes.append,
    )


def folded(ground: Ground, topic: JournalTopic, folder: Path) -> list[str]:
    with ground_at(folder, ground.clock) as other:
        for partition in range(topic.partitions):
            task = PartitionTask(topic=TOPIC, partition=partition, generation=topic.generation, end=EACH)
            assert copy_partition(ground.log, other.store, task).problem is None
        return held(other.store, topic)


def test_a_round_on_spark_copies_the_same_as_one_here(filled: tuple[Ground, JournalTopic], tmp_path: Path) -> None:
    ground, topic = filled
    loop = replicator(ground)
    assert loop.catch_up()
    assert {outcome.engine for outcome in ground.outcomes} == {"spark"}
    assert sum(outcome.records for outcome in ground.outcomes) == 2 * EACH
    assert loop.status().spark
    assert held(ground.store, topic) == folded(ground, topic, tmp_path / "here")
    verified = verify_topic(ground.log, ground.store, topic, address=ground.address, spark=LazySpark(ground.log.address, quick()), large=1)
    verified.check()
    assert verified.engine == "spark"
    loop.close()
    assert running() is None
    assert not [pid for pid in descendants(os.getpid()) if b"java" in command(pid)]


def test_a_python_worker_that_is_killed_copies_nothing_twice(filled: tuple[Ground, JournalTopic], tmp_path: Path) -> None:
    ground, topic = filled
    loop = replicator(ground)
    killed: list[int] = []

    def kill() -> None:
        eventually(lambda: ground.pointer(0) > 0 or ground.pointer(1) > 0)
        workers = [pid for pid in descendants(os.getpid()) if b"pyspark" in command(pid) and not descendants(pid)]
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    assert loop.catch_up()
    killer.join()
    assert killed
    assert held(ground.store, topic) == folded(ground, topic, tmp_path / "here")
    loop.close()


def descendants(pid: int) -> list[int]:
    """The processes below one."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""

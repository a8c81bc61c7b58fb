from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.unit.journal.ground import POISON, TOPIC, Ground, appended, eventually, held, random_records

from headwater.core.errors import Unavailable
from headwater.journal.dead import quarantine, retry
from headwater.journal.discovery import JournalTopic
from headwater.journal.leader import LocalReplicatorLock
from headwater.journal.loop import LOOK, ReplicatorLoop
from headwater.journal.range_fold import fold_range
from headwater.journal.rebuild import rebuild_progress, request_rebuild
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.sqlite_partition import SqlitePartitionStore
from headwater.log.record import Record
from headwater.testing.clock import ManualClock


@contextmanager
def running(loop: ReplicatorLoop) -> Iterator[threading.Thread]:
    """A loop in a thread, until the end of the block."""
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        yield thread
    finally:
        loop.stop()
        thread.join()


def test_it_catches_up_and_names_the_engine(ground: Ground) -> None:
    ground.topic()
    ground.append(appended("a", 1), appended("a", 2))
    ground.append(appended("b", 1), partition=1)
    loop = ground.loop()
    assert loop.catch_up()
    assert (ground.pointer(0), ground.pointer(1)) == (1, 0)
    [outcome] = ground.outcomes
    assert (outcome.engine, outcome.records) == ("here", 3)
    status = loop.status()
    assert (status.engine, status.copied, status.rounds, status.spark) == ("here", 3, {"here": 1}, False)
    loop.close()


def test_records_wake_it_without_the_clock(ground: Ground) -> None:
    ground.topic()
    with running(ground.loop()):
        for number in range(1, 4):
            ground.append(appended("a", number))
            eventually(lambda number=number: ground.pointer() == number - 1, ground.clock)


def test_new_topics_are_found_and_removed_ones_left(ground: Ground) -> None:
    assert isinstance(ground.clock, ManualClock)
    loop = ground.loop()
    with running(loop):
        eventually(lambda: ground.statuses)
        ground.topic("journal-new", partitions=1)
        ground.append(appended("a", 1), topic="journal-new")
        ground.clock.advance(LOOK + 1)
        eventually(lambda: ground.pointer(topic="journal-new") == 0)
        ground.log.delete_topic("journal-new", part="journal")
        ground.clock.advance(LOOK + 1)
        eventually(lambda: ground.statuses[-1].removed == ("journal-new",))


def test_a_topic_that_is_created_again_is_copied_anew(ground: Ground) -> None:
    ground.topic()
    ground.append(appended("old", 1), appended("old", 2), appended("old", 3))
    loop = ground.loop()
    loop.catch_up()
    ground.log.delete_topic(TOPIC, part="journal")
    topic = ground.topic()
    ground.append(appended("new", 1))
    assert loop.catch_up()
    assert ground.pointer() == 0
    copy = ground.store.partition(TOPIC, 0, topic.generation)
    assert copy is not None
    with copy.view() as view:
        assert view.ids() == ["new"]
    assert any("created again" in one.note for one in loop.status().partitions)
    loop.close()


def test_it_notices_that_a_topic_was_created_again_while_it_did_not_run(ground: Ground) -> None:
    ground.topic()
    ground.append(*[appended("old", number) for number in range(1, 9)])
    ground.loop().catch_up()
    ground.log.delete_topic(TOPIC, part="journal")
    ground.topic()
    loop = ground.loop()
    assert loop.catch_up()
    assert ground.pointer() == -1
    loop.close()


def test_poison_stops_its_partition_alone_and_is_named(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1), POISON, appended("a", 2))
    ground.append(appended("b", 1), partition=1)
    loop = ground.loop()
    assert not loop.catch_up()
    assert (ground.pointer(0), ground.pointer(1)) == (0, 0)
    [stopped] = loop.status().partitions
    assert stopped.problem is not None
    assert (stopped.topic, stopped.partition, stopped.problem.offset) == (TOPIC, 0, 1)
    ground.append(appended("b", 2), partition=1)
    assert not loop.catch_up()
    assert ground.pointer(1) == 1
    quarantine(ground.log, topic, 0, 1, why="test")
    assert loop.catch_up()
    assert ground.pointer(0) == 2
    assert loop.status().partitions == ()
    loop.close()


def test_a_quarantine_wakes_a_stopped_partition_without_the_clock(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(POISON, appended("a", 1))
    ground.append(POISON, partition=1)
    quarantine(ground.log, topic, 1, 0, why="so that the control topic is there")
    with running(ground.loop()):
        eventually(lambda: ground.statuses and ground.statuses[-1].partitions)
        quarantine(ground.log, topic, 0, 0, why="test")
        eventually(lambda: ground.pointer() == 1, ground.clock)


def test_a_record_that_is_replayed_makes_the_copy_anew(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = ground.topic(partitions=1)
    ground.append(appended("a", 1), POISON, appended("a", 2))
    quarantine(ground.log, topic, 0, 1, why="test")
    loop = ground.loop()
    assert loop.catch_up()
    left_out = held(ground.store, topic)

    # a newer headwater reads it
    def mended(*, records: list[Record], **given: object) -> object:
        known = [appended("x", 1, timestamp=one.timestamp) if one.value is None else one for one in records]
        placed = [Record(k.key, k.value, k.headers, o.timestamp, offset=o.offset) for k, o in zip(known, records, strict=True)]
        return fold_range(records=placed, **given)  # type: ignore[arg-type]

    monkeypatch.setattr("headwater.journal.copies.fold_range", mended)
    assert retry(ground.log, topic, 0, 1)
    assert loop.catch_up()
    assert held(ground.store, topic) != left_out
    copy = ground.store.partition(TOPIC, 0, topic.generation)
    assert copy is not None
    with copy.view() as view:
        assert view.ids() == ["a", "x"]
    loop.close()


def test_a_log_that_begins_behind_the_pointer_stops_that_partition_alone(ground: Ground) -> None:
    ground.topic()
    ground.append(*[appended("a", number) for number in range(1, 5)])
    ground.append(appended("b", 1), partition=1)
    ground.log.delete_before(TOPIC, 0, 2, part="journal")
    loop = ground.loop()
    assert not loop.catch_up()
    assert (ground.pointer(0), ground.pointer(1)) == (-1, 0)
    [stopped] = loop.status().partitions
    assert stopped.problem is not None
    assert stopped.problem.code == "log-gap"
    loop.close()


def test_a_store_that_is_ahead_of_its_log_is_named(ground: Ground) -> None:
    topic = ground.topic(partitions=1)
    ground.append(appended("a", 1), appended("a", 2))
    ground.loop().catch_up()
    copy = ground.store.partition(TOPIC, 0, topic.generation)
    assert copy is not None
    copy.apply(fold_range(topic=TOPIC, partition=0, generation=topic.generation, start=2, end=5, records=[]).change)
    loop = ground.loop()
    loop.look()
    assert loop.round() is None
    [stopped] = loop.status().partitions
    assert stopped.problem is not None
    assert stopped.problem.code == "differs"
    loop.close()


def test_what_failed_is_tried_again_after_a_growing_pause(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(ground.clock, ManualClock)
    ground.topic(partitions=1)
    ground.append(appended("a", 1))
    partition = SqliteJournalStore.partition
    asked: list[float] = []

    def away(self: SqliteJournalStore, *given: object, **named: object) -> SqlitePartitionStore | None:
        asked.append(ground.clock.monotonic())
        if len(asked) < 5:
            raise Unavailable("Away.")
        return partition(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(SqliteJournalStore, "partition", away)
    with running(ground.loop()):
        eventually(lambda: ground.outcomes, ground.clock)
    assert ground.outcomes[0].records == 1
    pauses = [later - earlier for earlier, later in itertools.pairwise(asked[:5])]
    assert all(0.05 * 2**number <= pause for number, pause in enumerate(pauses))


def test_a_log_that_does_not_answer_is_asked_again(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(ground.clock, ManualClock)
    ground.topic(partitions=1)
    ground.append(appended("a", 1))
    names = ground.log.topic_names
    tries = iter([True, True, False])

    def topic_names() -> list[str]:
        if next(tries, False):
            raise Unavailable("The brokers are away.")
        return names()

    monkeypatch.setattr(ground.log, "topic_names", topic_names)
    with running(ground.loop()):
        eventually(lambda: ground.pointer() == 0, ground.clock)
    assert any("away" in status.problem for status in ground.statuses)
    assert ground.statuses[-1].problem == ""


def test_a_rebuild_gives_the_same_store(ground: Ground) -> None:
    from random import Random

    topic = ground.topic(partitions=1)
    ground.append(*random_records(Random(5), 200))
    loop = ground.loop()
    loop.catch_up()
    before = held(ground.store, topic)
    request = request_rebuild(ground.log, topic, why="test")
    assert not rebuild_progress(ground.store, request).finished
    assert loop.catch_up()
    assert rebuild_progress(ground.store, request).finished
    assert held(ground.store, topic) == before
    rounds = len(ground.outcomes)
    assert loop.catch_up()
    assert len(ground.outcomes) == rounds  # once
    loop.close()


def test_one_of_two_replicators_works_and_the_other_takes_over(ground: Ground) -> None:
    assert isinstance(ground.clock, ManualClock)
    ground.topic(partitions=1)
    first, second = ground.loop(), ground.loop()
    path = ground.data / "replicator.lock"
    first.lock, second.lock = LocalReplicatorLock(path), LocalReplicatorLock(path)
    with running(first):
        eventually(lambda: first.status().active)
        with running(second):
            ground.append(appended("a", 1))
            eventually(lambda: ground.pointer() == 0, ground.clock)
            assert not second.status().active
            first.stop()
            eventually(lambda: second.status().active, ground.clock)
            ground.append(appended("a", 2))
            eventually(lambda: ground.pointer() == 1, ground.clock)


def test_a_topic_with_no_records_is_left_alone(ground: Ground) -> None:
    topic = ground.topic()
    loop = ground.loop()
    assert loop.catch_up()
    assert ground.outcomes == []
    assert held(ground.store, JournalTopic(topic.name, topic.partitions, topic.generation))
    loop.close()

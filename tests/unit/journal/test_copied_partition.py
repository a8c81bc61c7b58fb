from __future__ import annotations

import threading
from random import Random

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended
from tests.until import LONGEST_S

from headwater.core.errors import Differs, LogGap, Unavailable, UnknownTopic
from headwater.journal.control import PartitionControl
from headwater.journal.copied_partition import CopiedPartition, remade_setting, remake_pending
from headwater.journal.replication_task import PartitionOutcome, PartitionProblem
from headwater.log.record import Bounds

RANDOM = Random(1)


def settled(partition: CopiedPartition, *, pointer: int | None, code: str = "", offset: int = -1, now: float = 0.0) -> None:
    problem = PartitionProblem(code=code, message="No.", offset=offset) if code else None
    partition.settle(PartitionOutcome(topic=TOPIC, partition=0, pointer=pointer, problem=problem), now, RANDOM)


def test_a_task_is_capped_and_skips_what_is_quarantined(ground: Ground) -> None:
    partition = CopiedPartition(ground.topic(), 0)
    partition.watch(ground.log, lambda: None)
    partition.prepare(ground.log, ground.store)
    assert partition.task(5) is None
    ground.append(*[appended("a", number) for number in range(1, 9)])
    partition.decided(PartitionControl((3,)))
    task = partition.task(5)
    assert task is not None
    assert (task.end, task.skip) == (5, (3,))
    settled(partition, pointer=4)
    task = partition.task(5)
    assert task is not None
    assert task.end == 8
    partition.close()


def test_a_store_that_did_not_say_leaves_the_pointer(ground: Ground) -> None:
    partition = CopiedPartition(ground.topic(), 0)
    settled(partition, pointer=7)
    settled(partition, pointer=None, code="unavailable")
    assert partition.pointer == 7


def test_pauses_grow_to_a_bound_and_end_with_success(ground: Ground) -> None:
    partition = CopiedPartition(ground.topic(), 0)
    pauses = []
    for _ in range(12):
        partition.failed(Unavailable("Away."), 100.0, RANDOM)
        pauses.append(partition.retry_at - 100.0)
    assert all(0.05 * 2**number <= pause <= 0.1 * 2**number for number, pause in enumerate(pauses[:8]))
    assert max(pauses) <= 30
    assert not partition.ready(100.0)
    assert partition.ready(200.0)
    settled(partition, pointer=1)
    assert (partition.waits, partition.ready(0.0)) == (False, True)


def test_poison_waits_for_a_decision_not_for_time(ground: Ground) -> None:
    partition = CopiedPartition(ground.topic(), 0)
    settled(partition, pointer=2, code="unreadable-record", offset=3)
    assert (partition.waits, partition.ready(1e9)) == (False, False)
    assert not partition.decided(PartitionControl())
    assert partition.decided(PartitionControl((3,)))
    assert partition.ready(0.0)


def test_the_copy_of_an_earlier_topic_is_cleared(ground: Ground) -> None:
    old = CopiedPartition(ground.topic(), 0)
    ground.append(appended("a", 1))
    ground.loop().catch_up()
    ground.log.delete_topic(TOPIC, part="journal")
    new = CopiedPartition(ground.topic(), 0)
    new.prepare(ground.log, ground.store)
    assert (new.pointer, "created again" in new.note) == (-1, True)
    assert old.generation != new.generation


def test_a_gap_is_an_error(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1), appended("a", 2))
    ground.log.delete_before(TOPIC, 0, 1, part="journal")
    with pytest.raises(LogGap):
        CopiedPartition(topic, 0).prepare(ground.log, ground.store)


def test_a_log_that_is_older_than_the_store_is_an_error_also_once_it_has_grown(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1), appended("a", 2))
    ground.loop().catch_up()
    for end in (1, 5):  # brought back from a backup; then appended to, before and after a restart
        monkeypatch.setattr(ground.log, "bounds", lambda topic, partition, end=end: Bounds(0, end))
        with pytest.raises(Differs, match="up to offset 1, and the log ended"):
            CopiedPartition(topic, 0).prepare(ground.log, ground.store)
    remade = CopiedPartition(topic, 0)
    remade.decided(PartitionControl((), 0))
    remade.prepare(ground.log, ground.store)
    assert remade.pointer == -1
    CopiedPartition(topic, 0).prepare(ground.log, ground.store)


def test_a_decision_to_make_it_anew_is_followed_once(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1))
    ground.loop().catch_up()
    control = PartitionControl((), 4)
    assert remake_pending(ground.store, topic, 0, control)
    partition = CopiedPartition(topic, 0)
    partition.decided(control)
    partition.prepare(ground.log, ground.store)
    assert partition.pointer == -1
    assert not remake_pending(ground.store, topic, 0, control)
    assert ground.store.setting(remade_setting(TOPIC, 0)) == f"{topic.generation}/4"
    ground.loop().catch_up()
    again = CopiedPartition(topic, 0)
    again.decided(control)
    again.prepare(ground.log, ground.store)
    assert again.pointer == 0


def test_a_deleted_topic_is_noticed_by_its_watch(ground: Ground) -> None:
    partition = CopiedPartition(ground.topic(), 0)
    told = threading.Semaphore(0)
    partition.watch(ground.log, told.release)
    ground.log.delete_topic(TOPIC, part="journal")
    with pytest.raises(UnknownTopic):
        while partition.task(1) is None:  # a look that comes before the watch's own may still see the old end
            assert told.acquire(timeout=LONGEST_S)
    partition.close()
    partition.close()

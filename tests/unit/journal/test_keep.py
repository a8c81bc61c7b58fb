from __future__ import annotations

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended

from headwater.core.errors import Unavailable
from headwater.journal.discovery import JournalTopic
from headwater.journal.keep import KeptLog, delete_copied
from headwater.journal.rebuild import request_rebuild
from headwater.journal.sqlite_partition import SqlitePartitionStore
from headwater.testing.clock import ManualClock


def filled(ground: Ground) -> JournalTopic:
    """Three records a minute apart, all copied."""
    assert isinstance(ground.clock, ManualClock)
    topic = ground.topic(partitions=1)
    for number in range(1, 4):
        ground.append(appended("a", number))
        ground.clock.advance(60)
    ground.loop().catch_up()
    return topic


def kept(ground: Ground, topic: JournalTopic, seconds: int, *, dry_run: bool = False) -> list[KeptLog]:
    return delete_copied(ground.log, ground.store, topic, keep=seconds * 1000, now=ground.clock.now_ms(), dry_run=dry_run)


def test_old_copied_records_go(ground: Ground) -> None:
    topic = filled(ground)
    [one] = kept(ground, topic, 100, dry_run=True)
    assert (one.deleted, ground.log.bounds(TOPIC, 0).start) == (2, 0)
    [one] = kept(ground, topic, 100)
    assert (one.deleted, one.start, one.durable) == (2, 2, 2)
    assert ground.log.bounds(TOPIC, 0).start == 2
    assert kept(ground, topic, 100)[0].deleted == 0
    kept(ground, topic, 1)
    assert ground.log.bounds(TOPIC, 0).start == 3


def test_what_is_not_copied_stays_however_old_it_is(ground: Ground) -> None:
    assert isinstance(ground.clock, ManualClock)
    topic = filled(ground)
    ground.append(appended("a", 4))
    ground.clock.advance(100_000)
    kept(ground, topic, 1)
    assert ground.log.bounds(TOPIC, 0).start == 3


def test_zero_keeps_everything(ground: Ground) -> None:
    topic = filled(ground)
    assert kept(ground, topic, 0) == []
    assert ground.log.bounds(TOPIC, 0).start == 0


def test_a_store_that_cannot_be_synced_lets_nothing_go(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = filled(ground)

    def fail(self: SqlitePartitionStore) -> None:
        raise Unavailable("The disk is gone.")

    monkeypatch.setattr(SqlitePartitionStore, "checkpoint", fail)
    with pytest.raises(Unavailable):
        kept(ground, topic, 1)
    assert ground.log.bounds(TOPIC, 0).start == 0


def test_a_copy_of_an_earlier_topic_lets_nothing_go(ground: Ground) -> None:
    filled(ground)
    ground.log.delete_topic(TOPIC)
    topic = ground.topic(partitions=1)
    ground.append(appended("a", 1))
    ground.clock.advance(100_000)  # type: ignore[attr-defined]
    assert kept(ground, topic, 1) == []


def test_a_copy_that_is_to_be_made_anew_lets_nothing_go(ground: Ground) -> None:
    topic = filled(ground)
    request_rebuild(ground.log, topic)
    assert kept(ground, topic, 1) == []
    ground.loop().catch_up()
    assert kept(ground, topic, 1)[0].deleted == 3

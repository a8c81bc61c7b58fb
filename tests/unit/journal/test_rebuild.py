from __future__ import annotations

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended, held

from headwater.core.errors import LogGap, UnknownPartition
from headwater.journal.control import ControlLog
from headwater.journal.rebuild import RebuildProgress, check_rebuild, rebuild_progress, request_rebuild


def test_the_replicator_makes_the_chosen_partitions_anew(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1), appended("a", 2))
    ground.append(appended("b", 1), partition=1)
    loop = ground.loop()
    loop.catch_up()
    before = held(ground.store, topic)
    request = request_rebuild(ground.log, topic, partitions=[0], why="test", who="me")
    assert rebuild_progress(ground.store, request) == RebuildProgress(0, 2, 0, 1)
    loop.catch_up()
    assert rebuild_progress(ground.store, request) == RebuildProgress(2, 2, 1, 1)
    assert rebuild_progress(ground.store, request).finished
    assert held(ground.store, topic) == before
    [entry] = ControlLog(ground.log, TOPIC).audit()
    assert (entry.decision.partition, entry.decision.why, entry.decision.who) == (0, "test", "me")
    loop.close()


def test_it_is_refused_whole_where_the_log_no_longer_begins_at_zero(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1), partition=1)
    ground.log.delete_before(TOPIC, 1, 1, part="journal")
    with pytest.raises(LogGap, match="journal-bank/1"):
        request_rebuild(ground.log, topic)
    with pytest.raises(UnknownPartition):
        request_rebuild(ground.log, topic, partitions=[0, 2])
    assert list(ControlLog(ground.log, TOPIC).audit()) == []


def test_a_log_that_lost_its_beginning_since_keeps_the_old_copy(ground: Ground) -> None:
    topic = ground.topic(partitions=1)
    ground.append(appended("a", 1), appended("a", 2))
    loop = ground.loop()
    loop.catch_up()
    before = held(ground.store, topic)
    request_rebuild(ground.log, topic)
    ground.log.delete_before(TOPIC, 0, 1, part="journal")
    loop.catch_up()
    assert held(ground.store, topic) == before
    [stopped] = loop.status().partitions
    assert stopped.problem is not None
    assert stopped.problem.code == "log-gap"
    loop.close()


def test_a_check_says_how_many_records_and_decides_nothing(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1), appended("a", 2))
    assert check_rebuild(ground.log, topic) == [(topic, {0: 2, 1: 0})]
    assert check_rebuild(ground.log, topic, partitions=[0]) == [(topic, {0: 2})]
    assert list(ControlLog(ground.log, TOPIC).audit()) == []

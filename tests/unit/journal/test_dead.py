from __future__ import annotations

import pytest
from tests.unit.journal.ground import POISON, TOPIC, Ground, appended

from headwater.core.errors import BadInput, LogGap, NotFound, UnknownPartition, UnreadableRecord
from headwater.journal.control import ControlLog, Quarantine
from headwater.journal.dead import dead_records, quarantine, retry, show_dead


def test_what_stops_a_partition_is_listed_before_and_after_it_is_copied(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1), POISON, POISON, appended("a", 2))
    for _ in range(2):
        [dead] = dead_records(ground.log, ground.store, topic)
        assert (dead.topic, dead.partition, dead.offset, dead.quarantined) == (TOPIC, 0, 1, False)
        assert "JSON" in dead.error
        assert dead.commands[1] == f"headwater journal dead {TOPIC} quarantine 0 1 --why TEXT"
        ground.loop().catch_up()


def test_a_quarantined_record_is_listed_with_who_and_why_and_the_next_one_stops(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(POISON, POISON)
    made = quarantine(ground.log, topic, 0, 0, why=" broken ", who="me")
    assert made.quarantined
    again = quarantine(ground.log, topic, 0, 0, why="broken", who="me")
    assert again.offset == 0
    ground.loop().catch_up()
    first, second = dead_records(ground.log, ground.store, topic)
    assert (first.offset, first.quarantined, first.why, first.who) == (0, True, "broken", "me")
    assert (second.offset, second.quarantined) == (1, False)
    assert len(list(ControlLog(ground.log, TOPIC).audit())) == 1


def test_a_record_is_shown_with_its_bytes(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(POISON, appended("a", 1))
    detail = show_dead(ground.log, topic, 0, 0)
    assert detail.record.headers == POISON.headers
    assert "JSON" in detail.error
    assert show_dead(ground.log, topic, 0, 1).error == ""


def test_only_unreadable_records_can_be_left_out_and_only_with_a_reason(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(POISON, appended("a", 1))
    with pytest.raises(BadInput, match="reason"):
        quarantine(ground.log, topic, 0, 0, why=" ")
    with pytest.raises(BadInput, match="can be decoded"):
        quarantine(ground.log, topic, 0, 1, why="x")
    with pytest.raises(NotFound):
        quarantine(ground.log, topic, 0, 2, why="x")
    with pytest.raises(UnknownPartition):
        quarantine(ground.log, topic, 5, 0, why="x")
    assert list(ControlLog(ground.log, TOPIC).audit()) == []


def test_a_record_that_is_still_unreadable_stays_left_out(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(POISON)
    quarantine(ground.log, topic, 0, 0, why="x")
    with pytest.raises(UnreadableRecord):
        retry(ground.log, topic, 0, 0)
    control = ControlLog(ground.log, TOPIC)
    control.look()
    assert control.partition(topic.generation, 0).quarantined == (0,)


def test_a_record_that_was_never_left_out_needs_no_replay(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1))
    assert not retry(ground.log, topic, 0, 0)


def test_a_replay_is_refused_where_the_log_no_longer_begins_at_zero(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1), appended("a", 2))
    decision = Quarantine(generation=topic.generation, partition=0, offset=1, why="x")
    ControlLog(ground.log, TOPIC).append(decision)
    ground.log.delete_before(TOPIC, 0, 1, part="journal")
    with pytest.raises(LogGap):
        retry(ground.log, topic, 0, 1)


def test_decisions_about_an_earlier_topic_of_the_name_do_not_count(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(POISON)
    quarantine(ground.log, topic, 0, 0, why="x")
    ground.log.delete_topic(TOPIC, part="journal")
    again = ground.topic()
    ground.append(POISON)
    [dead] = dead_records(ground.log, ground.store, again)
    assert not dead.quarantined


def test_a_dry_run_decides_nothing(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(POISON, appended("a", 1))
    assert quarantine(ground.log, topic, 0, 0, why="test", dry_run=True).quarantined
    assert not retry(ground.log, topic, 0, 1, dry_run=True)
    assert list(ControlLog(ground.log, TOPIC).audit()) == []

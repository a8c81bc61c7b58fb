from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import pytest
from tests.unit.journal.ground import POISON, TOPIC, Ground, appended, deleted, random_records

from headwater.core.errors import BadConfig, Differs, LogGap, Unavailable
from headwater.journal.control import ControlLog, PartitionControl
from headwater.journal.dead import quarantine
from headwater.journal.discovery import JournalTopic
from headwater.journal.range_fold import fold_range
from headwater.journal.rebuild import request_rebuild
from headwater.journal.store_address import StoreAddress
from headwater.journal.store_sign import NO_SIGN, signed
from headwater.journal.verify import PartitionVerification, TopicVerification, verify_in_task, verify_topic
from headwater.log.record import Record
from headwater.spark.ranges import Range


def verified(ground: Ground, topic: JournalTopic) -> TopicVerification:
    return verify_topic(ground.log, ground.store, topic, address=ground.address)


def forge(ground: Ground, topic: JournalTopic, *records: Record) -> None:
    """Let a store hold what the log does not say."""
    copy = ground.store.partition(TOPIC, 0, topic.generation)
    assert copy is not None
    end = len(records)
    placed = [msgspec.structs.replace(record, offset=number, timestamp=ground.clock.now_ms()) for number, record in enumerate(records)]
    copy.apply(fold_range(topic=TOPIC, partition=0, generation=topic.generation, start=0, end=end, records=placed).change)


def test_a_copy_equals_the_log_before_while_and_after_it_lags(ground: Ground) -> None:
    topic = ground.topic()
    assert verified(ground, topic).equal
    ground.append(*random_records(Random(3), 100))
    ground.loop().catch_up()
    found = verified(ground, topic)
    found.check()
    assert (found.engine, found.partitions[0].pointer) == ("here", 99)
    assert found.partitions[0].rows > 0
    ground.append(appended("a", 900))
    assert verified(ground, topic).partitions[0].pointer == 99


@pytest.mark.parametrize(
    ("stored", "logged", "says"),
    [
        ([appended("a", 1)], [appended("b", 1)], "Journal 'a': the log has no such journal."),
        ([deleted("x", 1)], [appended("b", 1)], "Journal 'b': the store lacks it."),
        ([appended("a", 1, 2)], [appended("a", 1)], "Journal 'a', head: seq_nr is 2, not 1."),
        ([appended("a", 1)], [appended("a", 1, expire_after=60_000)], "expire_after is None, not 60000"),
        ([appended("a", 3)], [appended("a", 3, 3)], ""),
    ],
)
def test_the_first_difference_is_shown(ground: Ground, stored: list[Record], logged: list[Record], says: str) -> None:
    topic = ground.topic()
    ground.append(*logged)
    forge(ground, topic, *stored)
    found = verified(ground, topic)
    assert says in found.partitions[0].difference
    if says:
        with pytest.raises(Differs, match="is not what the log says"):
            found.check()
    else:
        found.check()


def test_rows_that_differ_are_shown_by_their_number(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1), appended("a", 2))
    other = msgspec.structs.replace(appended("a", 2), headers=(*appended("a", 2).headers, ("h", b"v")))
    forge(ground, topic, appended("a", 1), other)
    assert "Journal 'a', event 2:" in verified(ground, topic).partitions[0].difference


def test_quarantined_records_are_left_out_of_both(ground: Ground) -> None:
    topic = ground.topic()
    ground.append(appended("a", 1), POISON, appended("a", 2))
    quarantine(ground.log, topic, 0, 1, why="x")
    ground.loop().catch_up()
    assert verified(ground, topic).equal
    ground.log.delete_topic(ControlLog(ground.log, TOPIC).name, part="journal")
    with pytest.raises(Differs, match="offset 1"):
        verified(ground, topic)


def test_a_copy_that_is_being_made_anew_and_a_log_without_its_beginning_are_refused(ground: Ground) -> None:
    topic = ground.topic(partitions=1)
    ground.append(appended("a", 1), appended("a", 2))
    loop = ground.loop()
    loop.catch_up()
    request_rebuild(ground.log, topic)
    with pytest.raises(Unavailable, match="made anew"):
        verified(ground, topic)
    loop.catch_up()
    assert verified(ground, topic).equal
    ground.log.delete_before(TOPIC, 0, 1, part="journal")
    with pytest.raises(LogGap):
        verified(ground, topic)
    loop.close()


def test_a_task_of_spark_finds_the_same(ground: Ground) -> None:
    topic = ground.topic(partitions=1)
    ground.append(*random_records(Random(4), 50))
    ground.loop().catch_up()
    batch = verify_in_task(ground.address, topic, None, ((PartitionControl(), PartitionControl()),), ground.log, Range(TOPIC, 0, 0, 50))
    found = msgspec.json.decode(batch.column("result")[0].as_py(), type=PartitionVerification)
    assert found == verified(ground, topic).partitions[0]


def test_a_task_that_does_not_see_the_store_compares_nothing(ground: Ground, tmp_path: Path) -> None:
    topic = ground.topic(partitions=1)
    ground.append(appended("a", 1))
    ground.loop().catch_up()
    given = (topic, None, ((PartitionControl(), PartitionControl()),), ground.log, Range(TOPIC, 0, 0, 1))
    with signed(ground.store, ground.address, local=False) as sign:
        assert verify_in_task(ground.address, *given, sign=sign).num_rows == 1
        with pytest.raises(BadConfig, match="do not see the store"):
            verify_in_task(StoreAddress(folder=tmp_path / "elsewhere"), *given, sign=sign)
    assert ground.store.setting(sign[0]) is None
    with signed(ground.store, ground.address, local=True) as sign:
        assert sign == NO_SIGN, "this machine sees its own files"


def test_records_that_are_not_copied_are_counted(ground: Ground) -> None:
    topic = ground.topic(partitions=1)
    ground.append(appended("a", 1), appended("a", 2))
    found = verified(ground, topic)
    assert (found.equal, found.partitions[0].pointer, found.partitions[0].waiting) == (True, -1, 2)
    ground.loop().catch_up()
    assert verified(ground, topic).partitions[0].waiting == 0
    ground.append(appended("a", 3))
    assert verified(ground, topic).partitions[0].waiting == 1

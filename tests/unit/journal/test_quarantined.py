from __future__ import annotations

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended

from headwater.core.errors import UnreadableRecord
from headwater.journal.dead import quarantine, retry
from headwater.journal.ids import journal_ids
from headwater.journal.partition import JournalPartition
from headwater.journal.quarantined import QuarantinedRecords
from headwater.journal.read import JournalRead
from headwater.journal.settings import JournalSettings
from headwater.log.record import Record

HEADER = Record(b"a", b"?", (("journal.action", b"{"),))
BODY = Record(b"a", b"{no json", (("journal.action", b'{"append":{"range":{"from":2,"to":9},"payloadType":"json","metadata":{}}}'),))


def numbers(partition: JournalPartition) -> list[int]:
    read = JournalRead(partition, "a", end=partition.end())
    return [row.seq_nr for row in read.page()]


@pytest.mark.parametrize("poison", [HEADER, BODY], ids=["header", "body"])
def test_a_quarantined_record_is_left_out_of_reads_at_once_and_the_same_once_it_is_copied(ground: Ground, poison: Record) -> None:
    topic = ground.topic(partitions=1)
    ground.append(appended("a", 1), poison, appended("a", 2), Record(b"b", b"?", HEADER.headers))
    seconds = [0.0]
    partition = JournalPartition(ground.log, lambda: ground.store, ground.log.topic(TOPIC), 0, settings=JournalSettings())
    partition.quarantined = QuarantinedRecords(ground.log, TOPIC, topic.generation, 0, monotonic=lambda: seconds[0])
    with pytest.raises(UnreadableRecord):
        numbers(partition)
    assert journal_ids(partition, None, 10) == ["a", "b"]
    quarantine(ground.log, topic, 0, 1, why="test")
    seconds[0] += 1
    for copied in (-1, 0, 1, 2):
        assert numbers(partition) == [1, 2], copied
        assert partition.last_number("a", partition.end()) == 2, copied
        loop = ground.loop()
        loop.catch_up()
        loop.close()
    assert ground.pointer() == 2  # the next one stops it
    quarantine(ground.log, topic, 0, 3, why="test")
    assert partition.last_number("b", partition.end()) == 0
    assert journal_ids(partition, None, 10) == ["a"]


def test_what_is_known_is_asked_again_after_a_moment(ground: Ground) -> None:
    topic = ground.topic(partitions=1)
    seconds = [0.0]
    known = QuarantinedRecords(ground.log, TOPIC, topic.generation, 0, monotonic=lambda: seconds[0])
    assert known.offsets() == ()
    ground.append(HEADER)
    quarantine(ground.log, topic, 0, 0, why="test")
    assert known.offsets() == ()
    assert known.offsets(now=True) == (0,)
    with pytest.raises(UnreadableRecord):
        retry(ground.log, topic, 0, 0)
    seconds[0] += 0.2
    assert known.offsets() == (0,)

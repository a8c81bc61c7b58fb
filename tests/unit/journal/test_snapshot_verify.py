from __future__ import annotations

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended, purged

from headwater.core.errors import LogGap
from headwater.journal.discovery import JournalTopic
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.head import record_id
from headwater.journal.snapshot_wire import JournalLife, save_record
from headwater.journal.verify import verify_topic
from headwater.store.sqlite.database import Database

NAME = f"snapshot-{TOPIC}"


@pytest.fixture
def topic(ground: Ground) -> JournalTopic:
    made = ground.topic(partitions=1)
    ground.log.create_topic(NAME, part="journal")
    ground.append(appended("a", 1), appended("b", 1), purged("b"))
    lives = {id: record_id(made.generation, 0, at) for at, id in enumerate("ab")}
    payload = Payload(PayloadKind.JSON, b"{}")
    records = [save_record(id, 1, payload, JournalLife(made.generation, lives[id], 2)) for id in "ab"]
    ground.append(*records, *records, topic=NAME)
    ground.loop().catch_up()
    return made


def test_rings_are_compared_with_the_fold_of_their_topic(ground: Ground, topic: JournalTopic) -> None:
    found = verify_topic(ground.log, ground.store, topic, address=ground.address)
    assert found.equal
    assert [one.snapshots for one in found.partitions] == [1]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("delete from snapshot", "None instead of"),
        ("update snapshot set payload = x'31'", "slot 0"),
        ("update snapshot set buffer_idx = 4", "slot 4"),
        ("insert into snapshot select 'z', 1, 1, 1, 1, 1, 2, x'31', null, null, null from snapshot", "instead of None"),
    ],
)
def test_a_ring_that_is_changed_is_found(ground: Ground, topic: JournalTopic, change: str, says: str) -> None:
    with Database(ground.data / "store" / "journal" / TOPIC / "0.db", synced=True) as database:
        database.run(change)
    found = verify_topic(ground.log, ground.store, topic, address=ground.address)
    assert says in found.partitions[0].difference


def test_a_deleted_log_of_snapshots_cannot_be_compared(ground: Ground, topic: JournalTopic) -> None:
    ground.log.delete_before(NAME, 0, 1, part="journal")
    with pytest.raises(LogGap, match="rebuild journal-bank"):
        verify_topic(ground.log, ground.store, topic, address=ground.address)

"""The trail of a journal."""

from __future__ import annotations

from pathlib import Path

from tests.unit.journal.partitions import Ground, clear_sealing

from headwater.core.clock import SystemClock
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.partition import JournalPartition
from headwater.journal.places import places_of
from headwater.journal.replication_task import PartitionTask, copy_partition
from headwater.journal.settings import JournalSettings
from headwater.journal.snapshot_partition import SnapshotPartition
from headwater.journal.snapshot_sealing import SnapshotSealing
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.topic_cipher import TopicCipher
from headwater.journal.trail import trail
from headwater.journal.whole import WholeJournals
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.journal_cases_ground import raw_append, raw_delete


def test_it_shows_records_heads_and_lag(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.append("a", 1, 2)
    ground.append("b", 1)
    ground.copy()
    ground.append("a", 3)
    snapshots = SnapshotPartition(
        ground.log, lambda: ground.store, ground.topic, WholeJournals(ground.partition), sealing=clear_sealing(ground)
    )
    living = snapshots.living("a")
    assert living is not None
    snapshots.save("a", 2, Payload(PayloadKind.JSON, b"{}"), living, (None, None))
    shown = trail([ground.partition], snapshots, "a", 10)
    assert (shown.pointer, shown.end, shown.lag, shown.rows) == (1, 3, 1, 2)
    assert [(record.offset, record.copied, record.last) for record in shown.records] == [(0, True, 2), (2, False, 3)]
    assert shown.stored is not None
    assert shown.head is not None
    assert (shown.stored.seq_nr, shown.head.seq_nr) == (2, 3)
    assert [(one.seq_nr, one.payload) for one in shown.snapshots] == [(2, None)]
    assert [record.offset for record in trail([ground.partition], snapshots, "a", 1).records] == [2]
    nothing = trail([ground.partition], snapshots, "x", 10)
    assert (nothing.head, nothing.stored, nothing.records, nothing.rows) == (None, None, [], 0)
    ground.close()


def test_a_journal_whose_topic_grew_is_shown_in_all_of_its_places(tmp_path: Path) -> None:
    log, store = EmbeddedLog(tmp_path / "data"), SqliteJournalStore(tmp_path / "store")
    topic = log.create_topic("journal-grown", partitions=4, part="journal")
    id = next(name for name in map(str, range(100)) if len(places_of(name.encode(), (2, 4))) == 2)
    old, new = places_of(id.encode(), (2, 4))
    partitions = [JournalPartition(log, lambda: store, topic, number, settings=JournalSettings()) for number in (old, new)]
    log.append(topic.name, old, [raw_append(id, 1, 2), raw_append(id, 3)], part="journal")
    log.append(topic.name, new, [raw_append(id, 4), raw_delete(id, 1)], part="journal")
    task = PartitionTask(topic=topic.name, partition=old, generation=topic.generation, end=2, counts=(2, 4))
    assert copy_partition(log, store, task).problem is None
    cipher = TopicCipher(log, topic, lambda: None, clock=SystemClock())
    journals = WholeJournals(partitions[1])
    snapshots = SnapshotPartition(log, lambda: store, topic, journals, sealing=SnapshotSealing(cipher, journals))
    shown = trail(partitions, snapshots, id, 10)
    assert [(one.partition, one.offset, one.action, one.copied) for one in shown.records] == [
        (old, 0, "append", True),
        (old, 1, "append", True),
        (new, 0, "append", False),
        (new, 1, "delete", False),
    ]
    assert (shown.partition, shown.pointer, shown.end, shown.lag, shown.rows) == (new, -1, 2, 2, 3)
    assert shown.stored is not None
    assert shown.head is not None
    assert [(head.seq_nr, head.delete_to) for head in (shown.stored, shown.head)] == [(3, 0), (4, 1)]
    assert [one.partition for one in trail(partitions, snapshots, id, 3).records] == [old, new, new]
    store.close()
    log.close()

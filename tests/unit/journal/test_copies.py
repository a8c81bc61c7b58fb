from __future__ import annotations

from tests.unit.journal.ground import Ground, appended

from headwater.journal.copies import apply_to, fold_records, fold_scanned, open_copy
from headwater.journal.discovery import JournalTopic
from headwater.journal.range_fold import FoldedRange
from headwater.journal.snapshot_fold import FoldedSnapshots
from headwater.journal.store import PartitionStore, RingStore

JOURNALS = JournalTopic("journal-bank", 1, "g1")
SNAPSHOTS = JournalTopic("snapshot-journal-bank", 1, "s1:g1", "snapshots")


def test_a_copy_of_each_kind_is_opened_and_applied_to(ground: Ground) -> None:
    for topic, kind, folded in ((JOURNALS, PartitionStore, FoldedRange), (SNAPSHOTS, RingStore, FoldedSnapshots)):
        if topic is JOURNALS:
            assert open_copy(ground.store, topic, 0, create=False) is None
        copy = open_copy(ground.store, topic, 0)
        assert isinstance(copy, kind)
        change = fold_records(topic, 0, 0, 3, [])
        assert isinstance(change, folded)
        assert apply_to(copy, change)
        assert not apply_to(copy, change)
        assert copy.pointer().offset == 2


def test_scanned_batches_are_folded_like_records(ground: Ground) -> None:
    topic = ground.topic(partitions=1)
    ground.append(appended("a", 1), appended("a", 2))
    one = fold_records(topic, 0, 0, 2, ground.log.read(topic.name, 0, 0), claimed=False)
    assert fold_scanned(topic, 0, 0, 2, ground.log.scan(topic.name, 0, 0), claimed=False) == one

from __future__ import annotations

import pytest
from tests.unit.wal.conftest import TOPICS

from headwater.core.errors import Damaged, Fenced, Unavailable
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Bounds, Record
from headwater.wal.layout import encode_meta_key
from headwater.wal.recovery import recover
from headwater.wal.region_meta import RegionMeta
from headwater.wal.region_topics import PART
from headwater.wal.snapshot import encode_snapshot
from headwater.wal.snapshots import SnapshotStore
from headwater.wal.table_meta import TableMeta


def store(log: EmbeddedLog) -> SnapshotStore:
    return SnapshotStore(log, log.claim(TOPICS.meta, 0, part=PART), TOPICS, recover(log, TOPICS).snapshots)


def test_the_two_newest_stay(log: EmbeddedLog) -> None:
    snapshots = store(log)
    for _ in range(5):
        snapshots.store(encode_snapshot(RegionMeta(), snapshots.chunk), 0)
    assert log.bounds(TOPICS.meta, 0).start == 3
    assert [(one.first, one.last) for one in snapshots.stored] == [(3, 3), (4, 4)]
    assert recover(log, TOPICS).snapshots == snapshots.stored
    again = store(log)
    again.store(encode_snapshot(RegionMeta(), again.chunk), 0)
    assert [one.first for one in again.stored] == [4, 5]


def test_a_snapshot_in_chunks_goes_as_a_whole(log: EmbeddedLog) -> None:
    snapshots = store(log)
    meta = RegionMeta(tables={number: TableMeta(next=2, marked=2) for number in range(50)})
    for _ in range(3):
        values = encode_snapshot(meta, 150)
        assert len(values) > 3
        snapshots.store(values, 0)
    assert log.bounds(TOPICS.meta, 0).start == len(values)
    assert recover(log, TOPICS).meta == meta


def test_a_snapshot_that_reads_otherwise_does_not_count(log: EmbeddedLog) -> None:
    snapshots = store(log)
    with pytest.raises(Damaged, match="cannot be read back"):
        snapshots.store([b"\0nonsense"], 0)
    assert snapshots.stored == []


def test_a_former_owner_stores_nothing(log: EmbeddedLog) -> None:
    former = store(log)
    store(log)
    with pytest.raises(Fenced):
        former.store(encode_snapshot(RegionMeta(), former.chunk), 0)
    assert log.read(TOPICS.meta, 0, 0) == []
    with pytest.raises(Fenced):
        log.append(TOPICS.meta, 0, [Record(b"", b"")], part=PART)


def test_a_snapshot_may_be_larger_than_a_batch_of_the_log(log: EmbeddedLog) -> None:
    snapshots = store(log)
    with pytest.raises(Damaged, match="cannot be read back"):  # and not TooLarge
        snapshots.store([bytes(snapshots.chunk)] * 130, 0)
    assert log.bounds(TOPICS.meta, 0).end == 130


@pytest.mark.parametrize("arrived", [0, 2, 9])
def test_a_snapshot_of_unknown_outcome_spoils_no_later_one(log: EmbeddedLog, arrived: int) -> None:
    """Of its chunks none, some or all are there. The claim stays: an owner's records come in the order of its calls."""
    snapshots, writer = store(log), log.writer(TOPICS.meta, 0, log.epoch(TOPICS.meta, 0), part=PART)
    meta = RegionMeta(tables={number: TableMeta(next=2, marked=2) for number in range(50)})
    values = encode_snapshot(meta, 150)
    if arrived:
        writer.append([Record(encode_meta_key(TOPICS.region), value) for value in values[:arrived]])
    snapshots.store(values, 0)
    found = recover(log, TOPICS)
    assert found.meta == meta
    assert found.snapshots[-1] == snapshots.stored[-1]


def test_old_snapshots_that_cannot_be_removed_fail_no_new_one(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots = store(log)
    with monkeypatch.context() as refusing:

        def refused(offset: int) -> int:
            raise Unavailable("Brokers refuse to delete records.", hint="")

        refusing.setattr(snapshots._writer, "delete_before", refused)
        for _ in range(4):
            snapshots.store(encode_snapshot(RegionMeta(), snapshots.chunk), 0)
    assert log.bounds(TOPICS.meta, 0) == Bounds(0, 4)
    assert [one.first for one in snapshots.stored] == [2, 3]
    snapshots.store(encode_snapshot(RegionMeta(), snapshots.chunk), 0)
    assert log.bounds(TOPICS.meta, 0) == Bounds(3, 5)
    store(log)
    with pytest.raises(Fenced):
        snapshots.store(encode_snapshot(RegionMeta(), snapshots.chunk), 0)

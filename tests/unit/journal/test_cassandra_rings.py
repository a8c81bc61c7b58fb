"""The steps of the ring store in Cassandra. What it promises is held by the contract suite, with a real node."""

from __future__ import annotations

from tests.unit.journal.cassandra_tables import RecordingTables

from headwater.journal.cassandra_rings import CassandraRingStore
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.snapshot import Snapshot
from headwater.journal.snapshot_fold import SnapshotsChange, SnapshotsChanged
from headwater.testing.clock import ManualClock


def saved(offset: int, size: int = 1) -> Snapshot:
    return Snapshot(offset + 1, 0, offset, 1, PayloadKind.TEXT, payload=Payload(PayloadKind.TEXT, b"x" * size))


def change(*actions: Snapshot) -> SnapshotsChange:
    return SnapshotsChange("snapshot-journal-a", 0, "s1:g1", 0, len(actions), (SnapshotsChanged("a", actions),))


def test_a_ring_changes_in_one_batch_before_the_pointer_moves() -> None:
    tables = RecordingTables()
    store = CassandraRingStore("snapshot-journal-a", 0, "s1:g1", tables, clock=ManualClock())
    assert store.apply(change(saved(0), saved(1)))
    assert tables.steps() == [["set_note"], ["batch"], ["insert_pointer"]]
    [batch] = tables.written[1]
    assert [name for name, *_ in batch[1:]] == ["put_snapshot", "put_snapshot", "ring_applied"]
    assert batch[-1][2:] == (1, 0, "a", "journal-a")


def test_large_payloads_go_in_several_batches() -> None:
    tables = RecordingTables()
    store = CassandraRingStore("snapshot-journal-a", 0, "s1:g1", tables, clock=ManualClock())
    assert store.apply(change(saved(0, 2 << 20), saved(1, 2 << 20), saved(2)))
    assert [[name for name, *_ in batch[1:]] for batch in tables.written[1]] == [["put_snapshot", "ring_applied"]] * 3


def test_a_ring_that_a_dead_process_has_changed_is_not_changed_again() -> None:
    tables = RecordingTables()
    tables.answers["ring", ("a", "journal-a")] = [(1, 0, 2, 0, 1, 1, "text", None, None, None, 7, 0)]
    store = CassandraRingStore("snapshot-journal-a", 0, "s1:g1", tables, clock=ManualClock())
    assert store.apply(change(saved(0), saved(1)))
    assert tables.steps() == [["set_note"], ["insert_pointer"]]

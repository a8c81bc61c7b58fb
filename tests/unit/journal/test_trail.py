"""The trail of a journal."""

from __future__ import annotations

from pathlib import Path

from tests.unit.journal.partitions import Ground, clear_sealing

from headwater.journal.event import Payload, PayloadKind
from headwater.journal.snapshot_partition import SnapshotPartition
from headwater.journal.trail import trail


def test_it_shows_records_heads_and_lag(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    ground.append("a", 1, 2)
    ground.append("b", 1)
    ground.copy()
    ground.append("a", 3)
    snapshots = SnapshotPartition(ground.log, lambda: ground.store, ground.topic, ground.partition, sealing=clear_sealing(ground))
    living = snapshots.living("a")
    assert living is not None
    snapshots.save("a", 2, Payload(PayloadKind.JSON, b"{}"), living, (None, None))
    shown = trail(ground.partition, snapshots, "a", 10)
    assert (shown.pointer, shown.end, shown.lag, shown.rows) == (1, 3, 1, 2)
    assert [(record.offset, record.copied, record.last) for record in shown.records] == [(0, True, 2), (2, False, 3)]
    assert shown.stored is not None
    assert shown.head is not None
    assert (shown.stored.seq_nr, shown.head.seq_nr) == (2, 3)
    assert [(one.seq_nr, one.payload) for one in shown.snapshots] == [(2, None)]
    assert [record.offset for record in trail(ground.partition, snapshots, "a", 1).records] == [2]
    nothing = trail(ground.partition, snapshots, "x", 10)
    assert (nothing.head, nothing.stored, nothing.records, nothing.rows) == (None, None, [], 0)
    ground.close()

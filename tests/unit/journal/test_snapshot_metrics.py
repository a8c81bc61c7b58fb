from __future__ import annotations

from headwater.journal.snapshot_metrics import SnapshotMetrics


def test_saves_loads_and_deletions_are_counted() -> None:
    metrics = SnapshotMetrics()
    metrics.saved(100)
    metrics.saved(1 << 20)
    metrics.loaded(True)
    metrics.loaded(False)
    metrics.loaded(False)
    metrics.deleted(3)
    samples = {(one.name, *one.labels.values()): one.value for family in metrics.families() for one in family.samples}
    assert samples["headwater_journal_snapshot_bytes_count",] == 2
    assert samples["headwater_journal_snapshot_bytes_sum",] == 100 + (1 << 20)
    assert samples["headwater_journal_snapshot_loads_total", "found"] == 1
    assert samples["headwater_journal_snapshot_loads_total", "none"] == 2
    assert samples["headwater_journal_snapshot_deletions_total",] == 3

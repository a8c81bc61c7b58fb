from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from headwater.core.metrics import Metrics
from headwater.wal.metrics import RegionReading, WalMetrics


def test_everything_that_is_told_is_shown() -> None:
    metrics, wal = Metrics(), WalMetrics()
    metrics.add(wal)
    wal.read = lambda: [RegionReading("wal", 7, 5, 500, 9, 900)]
    wal.wrote(100)
    wal.stored(2000, 0.01)
    wal.recovered(12, 0.2)
    wal.cleaned()
    wal.cleaned(failed=True)
    wal.moved()
    wal.fenced()
    found = {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
        if sample.name.startswith("headwater_wal") and "_bucket" not in sample.name
    }
    assert found == {
        **{(f"headwater_wal_{name}_count", ()): 1 for name in ("write_bytes", "snapshot_bytes", "snapshot_seconds")},
        **{(f"headwater_wal_{name}_count", ()): 1 for name in ("recovery_seconds", "recovery_records")},
        ("headwater_wal_write_bytes_sum", ()): 100,
        ("headwater_wal_snapshot_bytes_sum", ()): 2000,
        ("headwater_wal_snapshot_seconds_sum", ()): 0.01,
        ("headwater_wal_recovery_seconds_sum", ()): 0.2,
        ("headwater_wal_recovery_records_sum", ()): 12,
        ("headwater_wal_cleans_total", ("done",)): 1,
        ("headwater_wal_cleans_total", ("failed",)): 1,
        ("headwater_wal_pin_moves_total", ()): 1,
        ("headwater_wal_fenced_total", ()): 1,
        ("headwater_wal_live_entries", ("wal", "7")): 5,
        ("headwater_wal_live_bytes", ("wal", "7")): 500,
        ("headwater_wal_pinned_entries", ("wal", "7")): 9,
        ("headwater_wal_pinned_bytes", ("wal", "7")): 900,
    }

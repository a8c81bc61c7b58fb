from __future__ import annotations

from pathlib import Path

from tests.unit.journal.test_replicator_metrics import copied, standing, values

from headwater.journal.replicator_metrics import MetricsFile, ReplicatorMetrics
from headwater.server.journal_metrics import ChildMetrics

RECORDS = ("headwater_replicator_records_total", "journal-bank")


def test_counts_of_all_replicators_of_the_server_are_shown(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.txt")
    running: list[int | None] = [None]
    shown = ChildMetrics(file, lambda: running[0])

    def records() -> float | None:
        return values(list(shown.families())).get(RECORDS)

    older = ReplicatorMetrics()
    older.copied(copied(100), 12_000)
    file.write(older, 6)
    running[0] = 7
    assert records() is None  # what another process has left counts for nothing
    first = ReplicatorMetrics()
    first.copied(copied(), 12_000)
    first.stands(standing())
    file.write(first, 7)
    assert records() == 5
    first.copied(copied(), 12_000)
    file.write(first, 7)
    assert records() == 10
    running[0] = None  # it has died
    assert records() == 10
    running[0] = 8
    assert records() == 10
    second = ReplicatorMetrics()
    second.copied(copied(1), 12_000)
    file.write(second, 8)
    assert records() == 11
    assert records() == 11

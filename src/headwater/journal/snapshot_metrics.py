"""The metrics of snapshots. Neither a topic nor a journal is a label: there may be millions."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from headwater.core.metrics import Counter, Histogram, histogram_family

_BYTES = tuple(float(1 << power) for power in range(4, 27, 2))  # 16 bytes to 64 MiB


class SnapshotMetrics:
    """What this process counts of the snapshots of journals."""

    def __init__(self) -> None:
        self._saved, self._deleted = Histogram(_BYTES), Counter()
        self._loads = {"found": Counter(), "none": Counter()}

    def saved(self, size: int) -> None:
        """A snapshot with a payload of so many bytes is durable."""
        self._saved.observe(size)

    def loaded(self, matched: bool) -> None:
        """A snapshot was asked for; whether one matched."""
        self._loads["found" if matched else "none"].add()

    def deleted(self, count: int) -> None:
        """So many snapshots were deleted."""
        self._deleted.add(count)

    def families(self) -> Iterator[Metric]:
        """The metrics as Prometheus reads them."""
        yield histogram_family(
            "headwater_journal_snapshot_bytes", "The payload of a saved snapshot.", [], [((), self._saved)], lambda entry: entry
        )
        loads = CounterMetricFamily("headwater_journal_snapshot_loads", "Loads of a snapshot.", labels=["outcome"])
        for outcome, counter in self._loads.items():
            loads.add_metric((outcome,), counter.value)
        yield loads
        yield CounterMetricFamily("headwater_journal_snapshot_deletions", "Snapshots that were deleted.", value=self._deleted.value)

"""The metrics of regions. A table is never a label: an engine keeps hundreds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from headwater.core.metrics import RECORDS, SECONDS, Counter, Histogram, histogram_family

_BYTES = tuple(float(1 << power) for power in range(4, 27, 2))  # 16 bytes to 64 MiB
_MANY_RECORDS = (*RECORDS, 100_000.0, 1_000_000.0, 10_000_000.0)
_LABELS = ["namespace", "region"]


class RegionReading(NamedTuple):
    """What an open region holds. Bytes are estimates, by the mean size of some records."""

    namespace: str
    region: int
    live_entries: int
    live_bytes: int
    pinned_entries: int
    pinned_bytes: int


class WalMetrics:
    """What this process counts of its regions. `read`: gives the open ones, at each scrape."""

    def __init__(self) -> None:
        self.read: Callable[[], Iterable[RegionReading]] = tuple
        self._written = Histogram(_BYTES)
        self._snapshot_bytes, self._snapshot_seconds = Histogram(_BYTES), Histogram(SECONDS)
        self._recovery_seconds, self._recovery_records = Histogram(SECONDS), Histogram(_MANY_RECORDS)
        self._cleans = {"done": Counter(), "failed": Counter()}
        self._moves, self._fenced = Counter(), Counter()

    def wrote(self, size: int) -> None:
        """Payloads of so many bytes were written by one call."""
        self._written.observe(size)

    def stored(self, size: int, seconds: float) -> None:
        """A snapshot was stored."""
        self._snapshot_bytes.observe(size)
        self._snapshot_seconds.observe(seconds)

    def recovered(self, records: int, seconds: float) -> None:
        """A region was opened: its state was recovered from a snapshot and so many records."""
        self._recovery_records.observe(records)
        self._recovery_seconds.observe(seconds)

    def cleaned(self, *, failed: bool = False) -> None:
        """A region was cleaned, or could not be."""
        self._cleans["failed" if failed else "done"].add()

    def moved(self) -> None:
        """A table was moved because it pinned more than `pin_limit`."""
        self._moves.add()

    def fenced(self) -> None:
        """Another process has taken a region over."""
        self._fenced.add()

    def families(self) -> Iterator[Metric]:
        for name, text, histogram in (
            ("write_bytes", "Payloads of one write.", self._written),
            ("snapshot_bytes", "A stored snapshot.", self._snapshot_bytes),
            ("snapshot_seconds", "Making and storing a snapshot.", self._snapshot_seconds),
            ("recovery_seconds", "Opening a region: owning it, and recovering its state.", self._recovery_seconds),
            ("recovery_records", "Records that were read to recover a region, beside its snapshot.", self._recovery_records),
        ):
            yield histogram_family(f"headwater_wal_{name}", text, [], [((), histogram)], lambda value: value)
        cleans = CounterMetricFamily("headwater_wal_cleans", "Cleans of a region.", labels=["outcome"])
        for outcome, counter in self._cleans.items():
            cleans.add_metric((outcome,), counter.value)
        yield cleans
        yield CounterMetricFamily(
            "headwater_wal_pin_moves", "Tables that were moved because they pinned more than `pin_limit`.", value=self._moves.value
        )
        yield CounterMetricFamily("headwater_wal_fenced", "Regions that another process has taken over.", value=self._fenced.value)
        yield from self._regions()

    def _regions(self) -> Iterator[Metric]:
        gauges = {
            "live_entries": GaugeMetricFamily("headwater_wal_live_entries", "Payloads that are not flushed.", labels=_LABELS),
            "live_bytes": GaugeMetricFamily("headwater_wal_live_bytes", "About how many bytes these have.", labels=_LABELS),
            "pinned_entries": GaugeMetricFamily(
                "headwater_wal_pinned_entries", "Records that are kept because of one table alone.", labels=_LABELS
            ),
            "pinned_bytes": GaugeMetricFamily("headwater_wal_pinned_bytes", "About how many bytes these have.", labels=_LABELS),
        }
        for reading in self.read():
            for name, gauge in gauges.items():
                gauge.add_metric((reading.namespace, str(reading.region)), getattr(reading, name))
        yield from gauges.values()

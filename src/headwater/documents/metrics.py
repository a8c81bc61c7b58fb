"""The metrics of documents. A path is never a label."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from headwater.core.errors import HeadwaterError, NotOwner
from headwater.core.metrics import SECONDS, Counter, Histogram, histogram_family

if TYPE_CHECKING:
    from headwater.documents.partition_status import PartitionStanding


class DocumentMetrics:
    """What this process counts of its documents. `read`: gives the partitions, at each scrape."""

    def __init__(self) -> None:
        self.read: Callable[[], Iterable[PartitionStanding]] = tuple
        self.write_seconds = Histogram(SECONDS)
        self.read_seconds = Histogram(SECONDS)
        self.hot_pass_seconds = Histogram(SECONDS)
        self.stale_pass_seconds = Histogram(SECONDS)
        self.writes = {"accepted": Counter(), "refused": Counter(), "failed": Counter()}
        self.hot_incomplete, self.stale_incomplete = Counter(), Counter()
        self.recovery_failures, self.expired, self.stashed, self.forwarded = Counter(), Counter(), Counter(), Counter()

    def accepted(self, seconds: float) -> None:
        """A write was answered."""
        self.writes["accepted"].add()
        self.write_seconds.observe(seconds)

    def refused(self, error: HeadwaterError) -> None:
        """A write has ended with an error."""
        if isinstance(error, NotOwner):
            self.forwarded.add()
        else:
            self.writes["refused" if error.status < 500 else "failed"].add()

    def families(self) -> Iterator[Metric]:
        for name, text, histogram in (
            ("write_seconds", "From a write to its answer.", self.write_seconds),
            ("read_seconds", "Reading one document.", self.read_seconds),
            ("hot_recovery_seconds", "One partition of a pass of hot recovery.", self.hot_pass_seconds),
            ("stale_recovery_seconds", "One partition of a pass of stale recovery.", self.stale_pass_seconds),
        ):
            yield histogram_family(f"headwater_documents_{name}", text, [], [((), histogram)], lambda entry: entry)
        writes = CounterMetricFamily("headwater_documents_writes", "Writes.", labels=["outcome"])
        for outcome, counter in self.writes.items():
            writes.add_metric((outcome,), counter.value)
        yield writes
        for name, text, counter in (
            ("hot_incomplete", "Changes that hot recovery found durable and not applied.", self.hot_incomplete),
            ("stale_incomplete", "Changes that stale recovery found missing in the store.", self.stale_incomplete),
            ("recovery_failures", "Partitions that a pass of recovery could not look after.", self.recovery_failures),
            ("expired", "Documents and items that were deleted because their time to live was over.", self.expired),
            ("stashed", "Writes that waited for this process to take a partition.", self.stashed),
            ("forwarded", "Writes for which another process is the owner.", self.forwarded),
        ):
            yield CounterMetricFamily(f"headwater_documents_{name}", text, value=counter.value)
        yield from self._partitions()

    def _partitions(self) -> Iterator[Metric]:
        backlog = GaugeMetricFamily(
            "headwater_documents_backlog_records", "Changes that are durable and not applied.", labels=["partition"]
        )
        queued = GaugeMetricFamily("headwater_documents_queued_writes", "Writes that wait for a commit.", labels=["partition"])
        active = GaugeMetricFamily("headwater_documents_active", "Whether this process owns the partition.", labels=["partition"])
        for partition in self.read():
            labels = (str(partition.partition),)
            backlog.add_metric(labels, max(0, partition.end - partition.applied))
            queued.add_metric(labels, partition.queued)
            active.add_metric(labels, float(partition.state == "Active"))
        yield from (backlog, queued, active)

"""The metrics of a replicator. It writes them beside its status, and the server that has started it shows them as its own."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from headwater.core.metrics import RECORDS, SECONDS, Counter, Histogram, histogram_family
from headwater.journal.replicate import RoundOutcome
from headwater.journal.status import ReplicatorStatus

_COUNTERS = {
    "records": "Records that were copied into the store.",
    "events": "Events of these.",
    "bytes": "Bytes of keys and values of these.",
    "forks": "Appends whose first number their journal had already, as two writers make them.",
    "gaps": "Appends that leave numbers of their journal out.",
}
_ENGINES = ("here", "spark")
_PID = "# pid "


class _TopicCopied:
    """What was copied of one topic."""

    def __init__(self) -> None:
        self.counters = {name: Counter() for name in _COUNTERS}
        self.latency = Histogram(SECONDS)


class ReplicatorMetrics(Collector):
    """What a replicator has copied since its start, and how it stands. Safe for several threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._topics: dict[str, _TopicCopied] = {}
        self._seconds = {engine: Histogram(SECONDS) for engine in _ENGINES}
        self._records = {engine: Histogram(RECORDS) for engine in _ENGINES}
        self._expired: dict[str, Counter] = {}
        self._expiry = Histogram(SECONDS)
        self._status: ReplicatorStatus | None = None

    def copied(self, outcome: RoundOutcome, now: int) -> None:
        """Count a round. `now`: milliseconds."""
        self._seconds[outcome.engine].observe(outcome.seconds)
        self._records[outcome.engine].observe(outcome.records)
        for partition in outcome.partitions:
            if not partition.records:
                continue
            with self._guard:
                topic = self._topics.setdefault(partition.topic, _TopicCopied())
            numbers = (partition.records, partition.tally.events, partition.bytes, partition.tally.forks, partition.tally.gaps)
            for counter, number in zip(topic.counters.values(), numbers, strict=True):
                counter.add(number)
            if partition.timestamp:
                topic.latency.observe(max(0, now - partition.timestamp) / 1000)

    def expired(self, topic: str, count: int, seconds: float) -> None:
        """Count the journals that a daily look through a topic has purged, and the time that it took."""
        with self._guard:
            counter = self._expired.setdefault(topic, Counter())
        counter.add(count)
        self._expiry.observe(seconds)

    def stands(self, status: ReplicatorStatus) -> None:
        """Take the newest status. Topics that are gone are no longer shown."""
        self._status = status
        with self._guard:
            for name in [name for name in self._topics if name in status.removed]:
                del self._topics[name]

    def collect(self) -> Iterator[Metric]:
        with self._guard:
            topics, expired = sorted(self._topics.items()), sorted(self._expired.items())
        for name, text in _COUNTERS.items():
            counter = CounterMetricFamily(f"headwater_replicator_{name}", text, labels=["topic"])
            for topic, copied in topics:
                counter.add_metric((topic,), copied.counters[name].value)
            yield counter
        yield histogram_family(
            "headwater_replicator_latency_seconds",
            "From the time of a record to its copy: of the newest record of a partition in each round.",
            ["topic"],
            [((topic,), copied) for topic, copied in topics],
            lambda copied: copied.latency,
        )
        engines = [((engine,), engine) for engine in _ENGINES]
        yield histogram_family(
            "headwater_replicator_round_seconds",
            "One round of copying, by its engine: here (in the replicator) or spark. Its count is the number of rounds.",
            ["engine"],
            engines,
            lambda engine: self._seconds[engine],
        )
        yield histogram_family(
            "headwater_replicator_round_records",
            "Records of one round, by its engine.",
            ["engine"],
            engines,
            lambda engine: self._records[engine],
        )
        purged = CounterMetricFamily("headwater_replicator_expired", "Journals that were purged on their day of expiry.", labels=["topic"])
        for name, number in expired:
            purged.add_metric((name,), number.value)
        yield purged
        yield histogram_family(
            "headwater_replicator_expiry_seconds",
            "One look through a topic for journals whose day has come, which is once a day.",
            [],
            [((), self._expiry)],
            lambda expiry: expiry,
        )
        yield from self._standing()

    def _standing(self) -> Iterator[Metric]:
        status = self._status
        left_out = GaugeMetricFamily(
            "headwater_replicator_quarantined_records",
            "Records that are left out because they cannot be decoded (`headwater journal dead`).",
            labels=["topic"],
        )
        stopped = GaugeMetricFamily(
            "headwater_replicator_stopped_partitions", "Partitions that a problem keeps from being copied.", labels=["topic"]
        )
        active = spark = 0.0
        if status is not None:
            active, spark = float(status.active), float(status.spark)
            problems = [partition.topic for partition in status.partitions if partition.problem is not None]
            for topic in status.topics:
                left_out.add_metric((topic,), status.quarantined.get(topic, 0))
                stopped.add_metric((topic,), problems.count(topic))
        yield from (left_out, stopped)
        yield GaugeMetricFamily(
            "headwater_replicator_active", "1 in the server whose replicator copies; 0 where it waits for another one.", value=active
        )
        yield GaugeMetricFamily("headwater_replicator_spark_up", "1 while a Java process runs for the replicator.", value=spark)


class WrittenMetrics(NamedTuple):
    """The metrics that a replicator has written down last."""

    pid: int
    families: list[Metric]


class MetricsFile:
    """The file by which a replicator tells its metrics to the server above it. It is no record: the next replicator begins at 0."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, metrics: ReplicatorMetrics, pid: int) -> None:
        """Replace the file. It is not synced: a machine that stops has no metrics. Errors: `OSError`."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(metrics)
        temporary = self._path.with_name(self._path.name + ".tmp")
        temporary.write_bytes(f"{_PID}{pid}\n".encode() + generate_latest(registry))
        temporary.replace(self._path)

    def read(self) -> WrittenMetrics | None:
        """What was written last; None where there is nothing that can be read."""
        with suppress(OSError, ValueError):
            head, _, text = self._path.read_text().partition("\n")
            return WrittenMetrics(int(head.removeprefix(_PID)), list(text_string_to_metric_families(text)))
        return None


def added(families: Iterable[Metric], before: Iterable[Metric]) -> list[Metric]:
    """Families with the counts of replicators that have ended added to their counters and histograms."""
    ended = {(metric.name, sample.name, *sorted(sample.labels.items())): sample for metric in before for sample in metric.samples}
    metrics: list[Metric] = []
    for metric in families:
        joined = Metric(metric.name, metric.documentation, metric.type)
        for sample in metric.samples:
            older = ended.pop((metric.name, sample.name, *sorted(sample.labels.items())), None) if metric.type != "gauge" else None
            joined.add_sample(sample.name, sample.labels, sample.value + (older.value if older else 0.0))
        for key in [key for key in ended if key[0] == metric.name and metric.type != "gauge"]:
            sample = ended.pop(key)  # of a topic of which the newer one has copied nothing yet
            joined.add_sample(sample.name, sample.labels, sample.value)
        metrics.append(joined)
    return metrics

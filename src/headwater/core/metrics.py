"""The counters and histograms of the process, for Prometheus. A `Metrics` is made once and passed to whoever measures.

The parts that count hold plain objects (`metrics.log.partition("bank", 0)`): counting on the hot path is an addition under a lock,
with no label to look up. Names, buckets and labels meet Prometheus only when somebody asks for `render`.
"""

from __future__ import annotations

import platform
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import metadata
from typing import NamedTuple, Protocol, TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

SECONDS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
RECORDS = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0)


T = TypeVar("T")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """Counts of values by upper bound, and their sum. Safe from several threads."""

    __slots__ = ("_bounds", "_counts", "_lock", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0
        self._lock = threading.Lock()  # += on two fields is several steps: without it threads lose counts

    def observe(self, value: float) -> None:
        at = bisect_left(self._bounds, value)
        with self._lock:
            self._counts[at] += 1
            self._sum += value

    def read(self) -> tuple[list[tuple[str, float]], float]:
        """Cumulated counts by upper bound as Prometheus writes them, and the sum."""
        with self._lock:
            counts, total = list(self._counts), self._sum
        buckets, seen = [], 0
        for bound, count in zip((*(repr(b) for b in self._bounds), "+Inf"), counts, strict=True):
            seen += count
            buckets.append((bound, float(seen)))
        return buckets, total


class Counter:
    """A sum that only grows. Safe from several threads."""

    __slots__ = ("_lock", "value")

    def __init__(self) -> None:
        self.value = 0
        self._lock = threading.Lock()

    def add(self, count: int = 1) -> None:
        with self._lock:
            self.value += count


class Described(Protocol):
    """A group of metrics that can list its current values."""

    def families(self) -> Iterable[Metric]: ...


class _TopicCounts:
    __slots__ = ("append_seconds", "appended_records", "batch_records", "foreign_records", "fsync_seconds", "refused_disposals")

    def __init__(self) -> None:
        self.append_seconds = Histogram(SECONDS)
        self.appended_records = Counter()
        self.foreign_records = Counter()
        self.batch_records = Histogram(RECORDS)
        self.fsync_seconds = Histogram(SECONDS)
        self.refused_disposals = Counter()


class PartitionMetrics:
    """What one partition counts. Times and counts are summed up by topic; the end is the partition's own."""

    __slots__ = ("_append", "_batch", "_fsync", "_records", "end_offset", "foreign", "refused_disposal")

    def __init__(self, topic: _TopicCounts) -> None:
        self._append = topic.append_seconds.observe
        self._batch = topic.batch_records.observe
        self._records = topic.appended_records.add
        self._fsync = topic.fsync_seconds.observe
        self.foreign = topic.foreign_records.add
        """Call it for each record in a claimed partition that no Writer wrote."""
        self.refused_disposal = topic.refused_disposals.add
        """Call it for each file of drained records whose bytes could not be overwritten."""
        self.end_offset: int | None = None

    def appended(self, records: int, seconds: float, end_offset: int) -> None:
        """A batch was acknowledged: its records, the time from the call to the acknowledgement, the durable end after it."""
        self._append(seconds)
        self._batch(records)
        self._records(records)
        self.end_offset = end_offset

    def synced(self, seconds: float) -> None:
        """Count one sync of the disk, which took this long."""
        self._fsync(seconds)


class LogMetrics:
    """The log's metrics, by topic; `headwater_log_end_offset` by partition, too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._topics: dict[str, _TopicCounts] = {}
        self._partitions: dict[tuple[str, int], PartitionMetrics] = {}

    def partition(self, topic: str, partition: int) -> PartitionMetrics:
        """The counters of a partition. A second call returns the same object."""
        with self._lock:
            if (topic, partition) not in self._partitions:
                self._partitions[topic, partition] = PartitionMetrics(self._topics.setdefault(topic, _TopicCounts()))
            return self._partitions[topic, partition]

    def forget(self, topic: str) -> None:
        """Stop showing a deleted topic."""
        with self._lock:
            self._topics.pop(topic, None)
            for key in [key for key in self._partitions if key[0] == topic]:
                del self._partitions[key]

    def families(self) -> Iterator[Metric]:
        with self._lock:
            topics, partitions = dict(self._topics), dict(self._partitions)
        by_topic = [((topic,), counts) for topic, counts in topics.items()]
        yield histogram_family(
            "headwater_log_append_seconds",
            "From the call to append to its acknowledgement.",
            ["topic"],
            by_topic,
            lambda c: c.append_seconds,
        )
        yield histogram_family(
            "headwater_log_fsync_seconds", "One sync of a segment to disk.", ["topic"], by_topic, lambda c: c.fsync_seconds
        )
        yield histogram_family("headwater_log_batch_records", "Records in one batch.", ["topic"], by_topic, lambda c: c.batch_records)
        records = CounterMetricFamily("headwater_log_appended_records", "Records acknowledged.", labels=["topic"])
        for labels, counts in by_topic:
            records.add_metric(labels, counts.appended_records.value)
        yield records
        foreign = CounterMetricFamily(
            "headwater_log_foreign_records",
            "Records in a claimed partition that no writer of headwater wrote, seen by its owner and left out. Kafka alone has them.",
            labels=["topic"],
        )
        for labels, counts in by_topic:
            foreign.add_metric(labels, counts.foreign_records.value)
        yield foreign
        refused = CounterMetricFamily(
            "headwater_log_refused_disposals",
            "Files of deleted records that a secure disposal could not overwrite; it tries again, unless they have other names.",
            labels=["topic"],
        )
        for labels, counts in by_topic:
            refused.add_metric(labels, counts.refused_disposals.value)
        yield refused
        ends = GaugeMetricFamily("headwater_log_end_offset", "The offset after the last durable record.", labels=["topic", "partition"])
        for (topic, partition), own in partitions.items():
            if own.end_offset is not None:
                ends.add_metric((topic, str(partition)), own.end_offset)
        yield ends


class HttpMetrics:
    """Requests by route (the pattern, never the address: ids must not become labels), method and status; connections and streams."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, str, str], Histogram] = {}
        self._refused: dict[str, Counter] = {}
        self._ended: dict[str, Counter] = {}
        self.connections = 0
        self.streams = 0
        self.streams_refused = Counter()

    def refused(self, reason: str) -> None:
        """Count a connection or request that the server refused or cut off because of its client."""
        self._counted(self._refused, reason)

    def stream_ended(self, reason: str) -> None:
        """Count the end of a stream: whole, because the client left, because it took nothing, because the server stops, or by an error."""
        self._counted(self._ended, reason)

    def _counted(self, counters: dict[str, Counter], reason: str) -> None:
        with self._lock:
            counter = counters.setdefault(reason, Counter())
        counter.add()

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        key = (route, method, str(status))
        histogram = self._requests.get(key)
        if histogram is None:
            with self._lock:
                histogram = self._requests.setdefault(key, Histogram(SECONDS))
        histogram.observe(seconds)

    def families(self) -> Iterator[Metric]:
        with self._lock:
            requests = list(self._requests.items())
        yield histogram_family(
            "headwater_http_request_seconds",
            "From the request's head to the answer's end.",
            ["route", "method", "status"],
            requests,
            lambda h: h,
        )
        with self._lock:
            refused, ended = list(self._refused.items()), list(self._ended.items())
        cut = CounterMetricFamily(
            "headwater_http_refused", "Connections and requests that the server refused or cut off.", labels=["reason"]
        )
        for reason, counter in refused:
            cut.add_metric((reason,), counter.value)
        yield cut
        yield GaugeMetricFamily("headwater_http_connections", "Connections that are open.", value=self.connections)
        yield GaugeMetricFamily("headwater_http_streams", "Streams that are open: followers, and NDJSON exports.", value=self.streams)
        yield CounterMetricFamily(
            "headwater_http_streams_refused",
            "Streams that the server answered 503 because there were too many.",
            value=self.streams_refused.value,
        )
        over = CounterMetricFamily("headwater_http_streams_ended", "Streams that have ended.", labels=["reason"])
        for reason, counter in ended:
            over.add_metric((reason,), counter.value)
        yield over


class SparkMetrics:
    """Whether a Spark session is up, and how long its rounds take."""

    def __init__(self) -> None:
        self.session_up = False
        self._rounds = Histogram(SECONDS)

    def round(self, seconds: float) -> None:
        """Count one round of ranges, which took this long."""
        self._rounds.observe(seconds)

    def families(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("headwater_spark_session_up", "1 while a Spark session is up.", value=float(self.session_up))
        yield histogram_family("headwater_spark_round_seconds", "One round of ranges on Spark.", [], [((), self._rounds)], lambda h: h)


class SinkReading(NamedTuple):
    """The position of a pipeline's sink. Only the process that runs the pipeline knows `records`."""

    pipeline: str
    sink: str
    offset: int
    lag: int
    stopped: bool
    records: int | None = None


class PipelineMetrics:
    """The positions of pipelines' sinks, read at each scrape by `read`, which the owner of the pipelines sets."""

    def __init__(self) -> None:
        self.read: Callable[[], Iterable[SinkReading]] = tuple

    def families(self) -> Iterator[Metric]:
        readings = list(self.read())
        labels = ["pipeline", "sink"]
        offsets = GaugeMetricFamily("headwater_pipeline_sink_offset", "The last message that a sink has taken; -1: none.", labels=labels)
        lags = GaugeMetricFamily("headwater_pipeline_sink_lag_records", "Messages of the log that a sink has not taken.", labels=labels)
        stopped = GaugeMetricFamily("headwater_pipeline_stopped", "1 while a sink has stopped at a message that it refused.", labels=labels)
        records = CounterMetricFamily("headwater_pipeline_records", "Messages that this run has written to a sink.", labels=labels)
        for reading in readings:
            named = (reading.pipeline, reading.sink)
            offsets.add_metric(named, reading.offset)
            lags.add_metric(named, reading.lag)
            stopped.add_metric(named, float(reading.stopped))
            if reading.records is not None:
                records.add_metric(named, reading.records)
        yield from (offsets, lags, stopped, records)


class Metrics:
    """All groups, and their registry. Parts add groups with `add`."""

    def __init__(self) -> None:
        self.log = LogMetrics()
        self.http = HttpMetrics()
        self.spark = SparkMetrics()
        self.pipeline = PipelineMetrics()
        self.registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self.registry)
        for group in (_Build(), self.log, self.http, self.spark, self.pipeline):
            self.add(group)

    def add(self, group: Described) -> None:
        """Add a group to the registry."""
        self.registry.register(_Shown(group))

    def render(self) -> bytes:
        """Everything in the Prometheus text format, version 0.0.4 (`CONTENT_TYPE`)."""
        return generate_latest(self.registry)


class _Shown(Collector):
    def __init__(self, group: Described) -> None:
        self._group = group

    def collect(self) -> Iterable[Metric]:
        return self._group.families()


class _Build:
    def __init__(self) -> None:
        self._labels = [metadata.version("headwater"), platform.python_version()]

    def families(self) -> Iterator[Metric]:
        info = GaugeMetricFamily("headwater_build_info", "1, with the versions as labels.", labels=["version", "python"])
        info.add_metric(self._labels, 1.0)
        yield info


def histogram_family(
    name: str, text: str, labels: list[str], entries: Iterable[tuple[Sequence[str], T]], of: Callable[[T], Histogram]
) -> HistogramMetricFamily:
    """A family of histograms: the values of the labels and what holds the histogram, for each."""
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, entry in entries:
        buckets, total = of(entry).read()
        family.add_metric(values, buckets, total)
    return family

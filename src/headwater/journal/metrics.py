"""The metrics of journals in the process that performs their operations. An id is never a label: a topic has millions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Literal, NamedTuple, Self

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from headwater.core.metrics import SECONDS, Counter, Histogram, histogram_family
from headwater.journal.cache import CacheCounts
from headwater.journal.lag import PartitionLag

CallType = Literal["append", "read", "pointer", "delete", "purge", "mark"]
_RESULTS = ("hit", "ahead", "limited", "behind")


class TopicReading(NamedTuple):
    """The head caches of an open topic, and how many events of its reads gave way to others of the same number."""

    topic: str
    counts: CacheCounts
    cached: int
    duplicates: int


class _Counted:
    """The calls of one type on one topic."""

    def __init__(self) -> None:
        self.seconds = Histogram(SECONDS)
        self.failures, self.events = Counter(), Counter()


class JournalMetrics:
    """Counts calls, by topic and type. `name`: the topic that a caller's name stands for; None where no such topic is open, so that no
    stranger's word becomes a label. `topics` and `lags` are read at each scrape, in whatever thread that is made."""

    def __init__(self, name: Callable[[str], str | None]) -> None:
        self._name = name
        self._guard = threading.Lock()
        self._calls: dict[tuple[str, CallType], _Counted] = {}
        self._expired: dict[str, Counter] = {}
        self.topics: Callable[[], Iterable[TopicReading]] = tuple
        self.lags: Callable[[], Iterable[PartitionLag]] = tuple

    def expired(self, topic: str, count: int) -> None:
        """Count journals that this process has purged because their day had come. `topic`: its whole name."""
        with self._guard:
            counter = self._expired.setdefault(topic, Counter())
        counter.add(count)

    def call(self, topic: str, type: CallType) -> MeasuredCall:
        """A call, as a block. An error that leaves it is a failure."""
        return MeasuredCall(self, topic, type)

    def counted(self, topic: str, type: CallType) -> _Counted | None:
        """What is counted of a type of calls; None for a topic that is not open."""
        name = self._name(topic)
        if name is None:
            return None
        counts = self._calls.get((name, type))
        if counts is None:
            with self._guard:
                counts = self._calls.setdefault((name, type), _Counted())
        return counts

    def families(self) -> Iterator[Metric]:
        with self._guard:
            calls, expired = sorted(self._calls.items()), sorted(self._expired.items())
        labels = ["topic", "type"]
        yield histogram_family(
            "headwater_journal_call_seconds",
            "A call on a journal, by type: append, read (up to its first page), pointer, delete, purge, mark.",
            labels,
            calls,
            lambda counted: counted.seconds,
        )
        failed = CounterMetricFamily("headwater_journal_failed_calls", "Calls on journals that ended with an error.", labels=labels)
        events = CounterMetricFamily("headwater_journal_events", "Events that were appended and read.", labels=labels)
        for place, counted in calls:
            failed.add_metric(place, counted.failures.value)
            if place[1] in ("append", "read"):
                events.add_metric(place, counted.events.value)
        purged = CounterMetricFamily("headwater_journal_expired", "Journals that this server has purged on their day.", labels=["topic"])
        for topic, counter in expired:
            purged.add_metric((topic,), counter.value)
        yield from (failed, events, purged)
        yield from self._caches()
        yield from self._lags()

    def _caches(self) -> Iterator[Metric]:
        results = CounterMetricFamily(
            "headwater_journal_cache_lookups",
            "How the head cache answered: hit; ahead, where the store holds everything; limited, where it had dropped the journal; behind, "
            "where it had not read so far. The last two scan the log.",
            labels=["topic", "result"],
        )
        seconds = CounterMetricFamily(
            "headwater_journal_cache_lookup_seconds",
            "Time of lookups in the head cache, with their scans of the log.",
            labels=["topic"],
        )
        cached = GaugeMetricFamily("headwater_journal_cached_journals", "Journals in the head caches.", labels=["topic"])
        doubles = CounterMetricFamily(
            "headwater_journal_duplicates", "Events that gave way to another one of the same number in a read.", labels=["topic"]
        )
        for reading in self.topics():
            for result in _RESULTS:
                results.add_metric((reading.topic, result), getattr(reading.counts, result))
            seconds.add_metric((reading.topic,), reading.counts.seconds)
            cached.add_metric((reading.topic,), reading.cached)
            doubles.add_metric((reading.topic,), reading.duplicates)
        yield from (results, seconds, cached, doubles)

    def _lags(self) -> Iterator[Metric]:
        labels = ["topic", "partition"]
        records = GaugeMetricFamily("headwater_replicator_lag_records", "Records that the store lacks.", labels=labels)
        seconds = GaugeMetricFamily("headwater_replicator_lag_seconds", "The age of the oldest record that the store lacks.", labels=labels)
        missing = GaugeMetricFamily(
            "headwater_replicator_missing_records", "Records that the store lacks and the log no longer has (`LogGap`).", labels=labels
        )
        for lag in self.lags():
            place = (lag.topic, str(lag.partition))
            records.add_metric(place, lag.records)
            seconds.add_metric(place, lag.seconds)
            missing.add_metric(place, lag.missing)
        yield from (records, seconds, missing)


class MeasuredCall:
    """One call on a journal: how long its block took, how it ended, and how many events went through it."""

    __slots__ = ("_began", "_metrics", "_topic", "_type")

    def __init__(self, metrics: JournalMetrics, topic: str, type: CallType) -> None:
        self._metrics, self._topic, self._type = metrics, topic, type

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        counted = self._metrics.counted(self._topic, self._type)
        if counted is not None:
            counted.seconds.observe(time.perf_counter() - self._began)
            if isinstance(error, Exception):
                counted.failures.add()

    def events(self, count: int) -> None:
        """Count events that were appended or read."""
        counted = self._metrics.counted(self._topic, self._type)
        if counted is not None:
            counted.events.add(count)

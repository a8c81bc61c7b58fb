"""What the metrics of journals read of this process: its open topics, and how far the store is behind the log."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.client.journal_topics import OpenTopics
from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.journal.cache import CacheCounts
from headwater.journal.discovery import JournalTopic
from headwater.journal.lag import PartitionLag, topic_lag
from headwater.journal.metrics import JournalMetrics, TopicReading
from headwater.journal.open_topic import OpenTopic

_FRESH = 5.0  # seconds for which a lag is shown again: a scrape asks every partition of every topic


def journal_metrics(topics: OpenTopics, clock: Clock) -> JournalMetrics:
    """The metrics of a process that performs the operations on journals."""
    metrics = JournalMetrics(topics.full_name)
    metrics.topics = lambda: _readings(topics.all_open())
    metrics.lags = LagReader(topics, clock)
    return metrics


class LagReader:
    """The lag of every partition of every topic of journals, whoever replicates. Topics that do not answer are left out."""

    def __init__(self, topics: OpenTopics, clock: Clock) -> None:
        self._topics, self._clock = topics, clock
        self._read_at: float | None = None
        self._lags: list[PartitionLag] = []

    def __call__(self) -> list[PartitionLag]:
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= _FRESH:
            self._lags, self._read_at = self._read(), now
        return self._lags

    def _read(self) -> list[PartitionLag]:
        log = self._topics.log_now()
        if log is None:
            return []
        lags: list[PartitionLag] = []
        try:
            topics = self._topics.topics(log).list()
        except HeadwaterError:
            return []
        for topic in topics:
            try:
                store = self._topics.store(log)
                named = JournalTopic(topic.name, topic.partitions, topic.generation)
                lags += topic_lag(log, store, named, now=self._clock.now_ms())
            except HeadwaterError:  # as a store that is down: a scrape shows the rest
                continue
        return lags


def _readings(topics: Iterable[OpenTopic]) -> list[TopicReading]:
    readings: dict[str, TopicReading] = {}
    for topic in topics:
        reading = readings.get(topic.topic.name) or TopicReading(topic.topic.name, CacheCounts(), 0, 0)
        counts, cached, duplicates = reading.counts, reading.cached, reading.duplicates
        for partition in topic.partitions:
            duplicates += partition.duplicates.dropped
            if (cache := partition.cache) is not None:
                cached += len(cache)
                for name in CacheCounts.__struct_fields__:
                    setattr(counts, name, getattr(counts, name) + getattr(cache.counts, name))
        readings[topic.topic.name] = TopicReading(topic.topic.name, counts, cached, duplicates)
    return list(readings.values())

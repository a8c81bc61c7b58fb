"""What Prometheus sees of projections: how far they lag, their dead events, and partitions that stand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from headwater.core.errors import HeadwaterError
from headwater.journal.discovery import JournalTopic
from headwater.journal.names import control_topic, is_journal_topic
from headwater.journal.projection_records import ProjectionLog
from headwater.journal.projection_requests import ShownProjection
from headwater.journal.projection_status import list_projections
from headwater.log import Log

_LABELS = ("topic", "projection")


class ProjectionReadings:
    """Reads the projections of every topic, at each scrape from where the last one ended. Safe for several threads."""

    def __init__(self, log: Callable[[], Log | None], prefixes: Sequence[str]) -> None:
        """`log`: the log, or None while it is not open."""
        self._log, self._prefixes = log, prefixes
        self._records: dict[str, ProjectionLog] = {}
        self._guard = threading.Lock()

    def __call__(self) -> list[ShownProjection]:
        log = self._log()
        if log is None:
            return []
        projections: list[ShownProjection] = []
        with self._guard:
            try:
                names = set(log.topic_names())
            except HeadwaterError:  # brokers that do not answer now
                return []
            for name in sorted(name for name in names if is_journal_topic(name, self._prefixes) and control_topic(name) in names):
                try:
                    topic = log.topic(name)
                    records = self._records.setdefault(name, ProjectionLog(log, name))
                    projections += list_projections(log, JournalTopic(name, topic.partitions, topic.generation), records)
                except HeadwaterError:  # deleted just now
                    continue
        return projections


class ProjectionMetrics:
    """The gauges. `read`: gives the projections at each scrape, in whatever thread that is made."""

    def __init__(self) -> None:
        self.read: Callable[[], Sequence[ShownProjection]] = tuple

    def families(self) -> Iterator[Metric]:
        lag = GaugeMetricFamily(
            "headwater_projection_lag_records", "Records that a projection has not done, as its runs have told.", labels=_LABELS
        )
        dead = GaugeMetricFamily("headwater_projection_dead_events", "Events that a projection could not take.", labels=_LABELS)
        standing = GaugeMetricFamily(
            "headwater_projection_standing_partitions", "Partitions of a projection that wait at an event or an error.", labels=_LABELS
        )
        for projection in self.read():
            for family, value in ((lag, projection.lag), (dead, projection.dead), (standing, projection.standing)):
                family.add_metric((projection.topic, projection.name), value)
        yield from (lag, dead, standing)

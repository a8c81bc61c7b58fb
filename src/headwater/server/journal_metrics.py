"""The metrics of journals in a server: of its own calls, and of the replicator that is its child."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.metrics_core import Metric

from headwater.client.journal_measuring import journal_metrics
from headwater.client.journal_performer import JournalPerformer
from headwater.client.journal_projections import measure as measure_projections
from headwater.client.local import LocalLog
from headwater.core.metrics import Metrics
from headwater.journal.replicator import metrics_file
from headwater.journal.replicator_metrics import MetricsFile, ReplicatorMetrics, added
from headwater.server.journal_replicator import child_pid


def measure(metrics: Metrics, performer: JournalPerformer, log: LocalLog) -> None:
    """Let a server's metrics count the calls on journals, and show what its replicator has counted."""
    performer.metrics = journal_metrics(performer.topics_open, performer.clock)
    performer.care.expired = performer.metrics.expired
    metrics.add(performer.metrics)
    metrics.add(performer.snapshots.metrics)
    measure_projections(metrics, performer, log)
    metrics.add(ChildMetrics(metrics_file(performer.settings.data.absolute()), lambda: child_pid(performer)))


class ChildMetrics:
    """What the replicators of this server have counted, one after the other. `pid`: of the one that runs; None: none does."""

    def __init__(self, file: MetricsFile, pid: Callable[[], int | None]) -> None:
        self._file, self._pid = file, pid
        self._last_pid: int | None = None
        self._last: list[Metric] = list(ReplicatorMetrics().collect())
        self._ended: list[Metric] = []

    def families(self) -> Iterable[Metric]:
        """Gauges are those of the last one; counters and histograms are added up."""
        pid, written = self._pid(), self._file.read()
        if pid is not None and written is not None and written.pid == pid:  # a file that another process has left says nothing
            if self._last_pid not in (None, pid):
                self._ended = added(self._last, self._ended)
            self._last_pid, self._last = pid, written.families
        return added(self._last, self._ended)

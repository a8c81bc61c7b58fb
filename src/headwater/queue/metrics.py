"""The metrics of queues, by queue. A key is never a label: a queue has millions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from headwater.queue.values import QueueStatistics

_STATES = ("due", "future", "held", "processing")
_COUNTERS = {
    "puts": ("puts", "Rows that were put."),
    "merges": ("merges", "Rows that were put and merged into the waiting row of their key."),
    "claims": ("claims", "Rows that were claimed."),
    "died": ("deaths", "Rows that went to the dead list."),
    "expired": ("expired", "Rows that reached their expiration date before they were done."),
    "cancelled": ("cancelled", "Rows that were cancelled."),
    "told": ("told_deaths", "Dead rows that the address of `on_dead` has taken."),
    "failed_notices": ("failed_notices", "Tries to tell the address of `on_dead` of a dead row that failed."),
    "ignored": ("ignored_puts", "Rows that were put and ignored, because their key was done within their `unique_for`."),
}
_OUTCOMES = ("done", "failed", "released", "timed_out")
_GAUGES = {
    "waiting_claims": ("waiting_claims", "Claims that wait for a row, of those that have reached the process which owns the queue."),
    "waiting_results": ("waiting_results", "Calls that wait for the result of a row."),
    "results": ("results", "Results of done rows that are kept."),
    "result_bytes": ("result_bytes", "Bytes of these."),
    "done_keys": ("done_keys", "Keys of done rows that are remembered for `unique_for`."),
    "answers": ("answers", "Answers that are kept for puts with an Idempotency-Key."),
    "answer_bytes": ("answer_bytes", "Bytes of these."),
    "log_records": ("log_records", "Records of the log that the queue needs, outdated ones between them included."),
    "log_bytes": ("log_bytes", "About how many bytes these have."),
}


class QueueReading(NamedTuple):
    """What an open queue holds, and what has happened since it was opened. `now`: the clock's date, in milliseconds."""

    queue: str
    now: int
    statistics: QueueStatistics


class QueueMetrics:
    """What this process counts of the queues that it owns. `read`: gives them at each scrape, in whatever thread that is made."""

    def __init__(self) -> None:
        self.read: Callable[[], Iterable[QueueReading]] = tuple

    def families(self) -> Iterator[Metric]:
        readings = list(self.read())
        rows = GaugeMetricFamily(
            "headwater_queue_rows",
            "Rows by state: due, future, held back by another row, being processed.",
            labels=["queue", "state"],
        )
        dead = GaugeMetricFamily("headwater_queue_dead_rows", "Rows in the dead list.", labels=["queue"])
        lag = GaugeMetricFamily(
            "headwater_queue_due_lag_seconds",
            "How long the row that is due for the longest time has waited; 0 without one.",
            labels=["queue"],
        )
        paused = GaugeMetricFamily("headwater_queue_paused", "1 where the queue gives out no rows.", labels=["queue"])
        for queue, now, statistics in readings:
            for state in _STATES:
                rows.add_metric((queue, state), getattr(statistics.counts, state))
            dead.add_metric((queue,), statistics.counts.dead)
            lag.add_metric((queue,), max(0, now - statistics.oldest_due) / 1000 if statistics.oldest_due else 0)
            paused.add_metric((queue,), statistics.paused)
        yield from (rows, dead, lag, paused)
        for name, (metric, text) in _GAUGES.items():
            gauge = GaugeMetricFamily(f"headwater_queue_{metric}", text, labels=["queue"])
            for queue, _, statistics in readings:
                gauge.add_metric((queue,), getattr(statistics, name))
            yield gauge
        for name, (metric, text) in _COUNTERS.items():
            counter = CounterMetricFamily(f"headwater_queue_{metric}", text, labels=["queue"])
            for queue, _, statistics in readings:
                counter.add_metric((queue,), getattr(statistics, name))
            yield counter
        ended = CounterMetricFamily(
            "headwater_queue_ended_claims", "Claims that ended, by outcome: done, failed, released, timed_out.", labels=["queue", "outcome"]
        )
        for queue, _, statistics in readings:
            for outcome in _OUTCOMES:
                ended.add_metric((queue, outcome), getattr(statistics, outcome))
        yield ended

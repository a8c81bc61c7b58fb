from __future__ import annotations

import math
from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headwater.core.metrics import Metrics
from headwater.server.counts import CountedFamily, added_up, decoded, encoded, families_of, only_growing, rendered


def counted(requests: int, *, connections: int, end: int) -> list[CountedFamily]:
    """What a process counts after so many requests."""
    metrics = Metrics()
    for _ in range(requests):
        metrics.http.answered("/log", "GET", 200, 0.01)
        metrics.log.partition("t", 0).appended(2, 0.001, end)
    metrics.http.connections = connections
    return families_of(metrics.registry)


def value(text: bytes, name: str) -> float:
    return next(float(line.rpartition(b" ")[2]) for line in text.splitlines() if line.startswith(name.encode()))


def test_counters_are_summed_and_each_gauge_by_what_it_means() -> None:
    text = rendered(added_up([counted(2, connections=3, end=4), counted(5, connections=1, end=14)]))
    assert value(text, "headwater_http_request_seconds_count") == 7
    assert value(text, 'headwater_http_request_seconds_bucket{le="+Inf"') == 7
    assert value(text, "headwater_log_appended_records_total") == 14
    assert value(text, "headwater_http_connections") == 4
    assert value(text, "headwater_log_end_offset") == 14
    assert value(text, "headwater_build_info") == 1
    assert text.count(b"# TYPE headwater_http_request_seconds histogram") == 1


def test_one_process_is_shown_as_it_shows_itself() -> None:
    metrics = Metrics()
    metrics.http.answered("/log", "GET", 200, 0.01)
    metrics.log.partition("t", 0).appended(2, 0.001, 2)
    same = rendered(added_up([decoded(encoded(families_of(metrics.registry)))]))
    ours = [line for line in metrics.render().splitlines() if b"process_" not in line]
    assert [line for line in same.splitlines() if b"process_" not in line] == ours


def test_of_a_process_that_has_ended_only_what_it_counted_stays() -> None:
    text = rendered(added_up([counted(1, connections=1, end=2), only_growing(counted(2, connections=9, end=99))]))
    assert value(text, "headwater_http_request_seconds_count") == 3
    assert value(text, "headwater_http_connections") == 1
    assert value(text, "headwater_log_end_offset") == 2


class Odd(Collector):
    def collect(self) -> Iterable[Metric]:
        gauge = GaugeMetricFamily("odd", "Values that are no plain float.", labels=["value"])
        gauge.add_metric(("bool",), True)
        gauge.add_metric(("whole",), 2)
        gauge.add_metric(("none",), math.nan)
        gauge.add_metric(("endless",), math.inf)
        yield gauge


def test_values_of_any_kind_reach_the_other_processes() -> None:
    registry = CollectorRegistry()
    registry.register(Odd())
    text = rendered(added_up([decoded(encoded(families_of(registry)))]))
    assert value(text, 'odd{value="bool"}') == 1
    assert value(text, 'odd{value="whole"}') == 2
    assert math.isnan(value(text, 'odd{value="none"}'))
    assert value(text, 'odd{value="endless"}') == math.inf

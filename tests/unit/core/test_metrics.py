from __future__ import annotations

import threading
from importlib import metadata

import pytest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from headwater.core.metrics import Counter, Histogram, Metrics, SinkReading


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What Prometheus itself reads from the text."""
    found = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_the_log_is_counted_by_topic_and_its_end_by_partition() -> None:
    metrics = Metrics()
    first, second = metrics.log.partition("bank", 0), metrics.log.partition("bank", 1)
    first.appended(10, 0.0004, 10)
    first.synced(0.0002)
    second.appended(1, 0.003, 7)
    second.foreign()
    second.refused_disposal()
    found = samples(metrics)
    bank = (("topic", "bank"),)
    assert found["headwater_log_appended_records_total", bank] == 11
    assert found["headwater_log_foreign_records_total", bank] == 1
    assert found["headwater_log_refused_disposals_total", bank] == 1
    assert found["headwater_log_append_seconds_count", bank] == 2
    assert found["headwater_log_append_seconds_sum", bank] == pytest.approx(0.0034)
    assert found["headwater_log_append_seconds_bucket", (("le", "0.0005"), ("topic", "bank"))] == 1
    assert found["headwater_log_append_seconds_bucket", (("le", "+Inf"), ("topic", "bank"))] == 2
    assert found["headwater_log_batch_records_bucket", (("le", "10.0"), ("topic", "bank"))] == 2
    assert found["headwater_log_fsync_seconds_count", bank] == 1
    assert found["headwater_log_end_offset", (("partition", "0"), ("topic", "bank"))] == 10
    assert found["headwater_log_end_offset", (("partition", "1"), ("topic", "bank"))] == 7


def test_a_partition_keeps_its_object_until_its_topic_is_forgotten() -> None:
    metrics = Metrics()
    one = metrics.log.partition("bank", 0)
    assert metrics.log.partition("bank", 0) is one
    one.appended(1, 0.1, 1)
    metrics.log.partition("shop", 0).appended(1, 0.1, 1)
    metrics.log.forget("bank")
    assert "bank" not in metrics.render().decode()
    assert "shop" in metrics.render().decode()
    assert metrics.log.partition("bank", 0) is not one


def test_a_partition_without_appends_shows_no_end() -> None:
    metrics = Metrics()
    metrics.log.partition("bank", 0)
    assert "headwater_log_end_offset{" not in metrics.render().decode()


def test_requests_by_route_method_and_status() -> None:
    metrics = Metrics()
    metrics.http.answered("/log/{topic}", "GET", 200, 0.01)
    metrics.http.answered("/log/{topic}", "GET", 200, 0.02)
    metrics.http.answered("/log/{topic}", "GET", 404, 0.01)
    found = samples(metrics)
    assert found["headwater_http_request_seconds_count", (("method", "GET"), ("route", "/log/{topic}"), ("status", "200"))] == 2
    assert found["headwater_http_request_seconds_count", (("method", "GET"), ("route", "/log/{topic}"), ("status", "404"))] == 1


def test_spark_and_build() -> None:
    metrics = Metrics()
    assert samples(metrics)["headwater_spark_session_up", ()] == 0
    metrics.spark.session_up = True
    metrics.spark.round(0.1)
    found = samples(metrics)
    assert found["headwater_spark_session_up", ()] == 1
    assert found["headwater_spark_round_seconds_bucket", (("le", "0.1"),)] == 1
    [labels] = [dict(labels) for name, labels in found if name == "headwater_build_info"]
    assert labels["version"] == metadata.version("headwater")


def test_sinks_of_pipelines_are_read_when_somebody_asks() -> None:
    metrics = Metrics()
    assert not any(name.startswith("headwater_pipeline") for name, _ in samples(metrics))
    metrics.pipeline.read = lambda: [SinkReading("shop", "report", 13, 7, True, 14), SinkReading("shop", "archive", -1, 0, False)]
    found = samples(metrics)
    report, archive = (("pipeline", "shop"), ("sink", "report")), (("pipeline", "shop"), ("sink", "archive"))
    assert [found[f"headwater_pipeline_{name}", report] for name in ("sink_offset", "sink_lag_records", "stopped", "records_total")] == [
        13, 7, 1, 14,
    ]  # fmt: skip
    assert [found[f"headwater_pipeline_{name}", archive] for name in ("sink_offset", "sink_lag_records", "stopped")] == [-1, 0, 0]
    assert ("headwater_pipeline_records_total", archive) not in found  # only the process that runs it knows


def test_two_registries_share_nothing() -> None:
    first, second = Metrics(), Metrics()
    first.log.partition("bank", 0).appended(1, 0.1, 1)
    assert "bank" not in second.render().decode()


def test_a_part_adds_a_group_of_its_own() -> None:
    class Queue:
        def families(self) -> list[GaugeMetricFamily]:
            return [GaugeMetricFamily("headwater_queue_rows", "Rows.", value=3)]

    metrics = Metrics()
    metrics.add(Queue())
    assert samples(metrics)["headwater_queue_rows", ()] == 3


def test_bounds_belong_to_their_bucket() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    assert histogram.read() == ([("1.0", 2.0), ("2.0", 4.0), ("+Inf", 5.0)], 7.5)


def test_threads_lose_no_count() -> None:
    histogram, counter = Histogram((1.0,)), Counter()
    start = threading.Barrier(4)

    def count() -> None:
        start.wait()
        for _ in range(5000):
            histogram.observe(0.5)
            counter.add(2)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert histogram.read() == ([("1.0", 20000.0), ("+Inf", 20000.0)], 10000.0)
    assert counter.value == 40000

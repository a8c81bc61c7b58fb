from __future__ import annotations

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from headwater.core.metrics import Metrics
from headwater.queue.metrics import QueueMetrics, QueueReading
from headwater.queue.values import Counts, QueueStatistics

STATISTICS = QueueStatistics(
    counts=Counts(due=1, future=2, held=3, processing=4, dead=5),
    paused=True,
    waiting_claims=6,
    waiting_results=22,
    oldest_due=1000,
    log_records=7,
    log_bytes=8,
    puts=9,
    merges=10,
    claims=11,
    done=12,
    failed=13,
    released=14,
    timed_out=15,
    died=16,
    expired=17,
    ignored=21,
    results=2,
    result_bytes=30,
    done_keys=4,
    answers=5,
    answer_bytes=600,
    cancelled=18,
    told=19,
    failed_notices=20,
)


def samples(*readings: QueueReading) -> dict[tuple[str, ...], float]:
    """By name and label values."""
    queues, metrics = QueueMetrics(), Metrics()
    queues.read = lambda: readings
    metrics.add(queues)
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (
            sample.name.removeprefix("headwater_queue_"),
            *(sample.labels[name] for name in ("queue", "state", "outcome") if name in sample.labels),
        ): sample.value
        for family in families
        if family.name.startswith("headwater_queue_")
        for sample in family.samples
    }


def test_every_number_of_a_queue_is_shown() -> None:
    found = samples(QueueReading("pages", 3500, STATISTICS))
    assert found == {
        ("rows", "pages", "due"): 1,
        ("rows", "pages", "future"): 2,
        ("rows", "pages", "held"): 3,
        ("rows", "pages", "processing"): 4,
        ("dead_rows", "pages"): 5,
        ("due_lag_seconds", "pages"): 2.5,
        ("paused", "pages"): 1,
        ("waiting_claims", "pages"): 6,
        ("log_records", "pages"): 7,
        ("log_bytes", "pages"): 8,
        ("puts_total", "pages"): 9,
        ("merges_total", "pages"): 10,
        ("claims_total", "pages"): 11,
        ("ended_claims_total", "pages", "done"): 12,
        ("ended_claims_total", "pages", "failed"): 13,
        ("ended_claims_total", "pages", "released"): 14,
        ("ended_claims_total", "pages", "timed_out"): 15,
        ("deaths_total", "pages"): 16,
        ("expired_total", "pages"): 17,
        ("cancelled_total", "pages"): 18,
        ("told_deaths_total", "pages"): 19,
        ("failed_notices_total", "pages"): 20,
        ("ignored_puts_total", "pages"): 21,
        ("waiting_results", "pages"): 22,
        ("results", "pages"): 2,
        ("result_bytes", "pages"): 30,
        ("done_keys", "pages"): 4,
        ("answers", "pages"): 5,
        ("answer_bytes", "pages"): 600,
    }


def test_queues_are_kept_apart_and_none_is_no_error() -> None:
    quiet = msgspec.structs.replace(STATISTICS, oldest_due=0, paused=False)
    found = samples(QueueReading("pages", 3500, STATISTICS), QueueReading("mail", 3500, quiet))
    assert (found["due_lag_seconds", "pages"], found["due_lag_seconds", "mail"]) == (2.5, 0)
    assert (found["paused", "pages"], found["paused", "mail"]) == (1, 0)
    assert samples() == {}

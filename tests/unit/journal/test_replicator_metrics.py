from __future__ import annotations

from pathlib import Path

from prometheus_client.metrics_core import Metric

from headwater.journal.replicate import RoundOutcome
from headwater.journal.replication_task import PartitionOutcome, PartitionProblem
from headwater.journal.replicator_metrics import MetricsFile, ReplicatorMetrics, added
from headwater.journal.status import PartitionStatus, ReplicatorStatus
from headwater.journal.tally import CopyTally


def values(families: list[Metric]) -> dict[tuple[str, ...], float]:
    """By name and label values, without buckets."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
        if "le" not in sample.labels
    }


def copied(records: int = 5, topic: str = "journal-bank") -> RoundOutcome:
    one = PartitionOutcome(topic=topic, partition=0, pointer=4, records=records, bytes=70, tally=CopyTally(8, 1, 2), timestamp=10_000)
    return RoundOutcome(engine="here", partitions=(one, PartitionOutcome(topic=topic, partition=1, pointer=-1)), seconds=0.5)


def standing() -> ReplicatorStatus:
    problem = PartitionProblem(code="unreadable", message="no JSON", offset=3)
    stopped = PartitionStatus(topic="journal-bank", partition=1, pointer=2, problem=problem)
    return ReplicatorStatus(
        pid=7, host="h", at=1, topics=("journal-bank",), partitions=(stopped,), quarantined={"journal-bank": 3}, spark=True
    )


def test_rounds_are_counted_by_topic_and_engine() -> None:
    metrics = ReplicatorMetrics()
    metrics.copied(copied(), 12_000)
    metrics.stands(standing())
    metrics.expired("journal-bank", 3, 0.25)
    found = values(list(metrics.collect()))
    assert found["headwater_replicator_expired_total", "journal-bank"] == 3
    assert found["headwater_replicator_expiry_seconds_sum",] == 0.25
    assert found["headwater_replicator_records_total", "journal-bank"] == 5
    assert found["headwater_replicator_events_total", "journal-bank"] == 8
    assert found["headwater_replicator_bytes_total", "journal-bank"] == 70
    assert found["headwater_replicator_forks_total", "journal-bank"] == 1
    assert found["headwater_replicator_gaps_total", "journal-bank"] == 2
    assert found["headwater_replicator_latency_seconds_sum", "journal-bank"] == 2.0
    assert found["headwater_replicator_round_seconds_count", "here"] == 1
    assert found["headwater_replicator_round_seconds_count", "spark"] == 0
    assert found["headwater_replicator_quarantined_records", "journal-bank"] == 3
    assert found["headwater_replicator_stopped_partitions", "journal-bank"] == 1
    assert found["headwater_replicator_active",] == found["headwater_replicator_spark_up",] == 1


def test_a_topic_that_is_removed_is_shown_no_longer() -> None:
    metrics = ReplicatorMetrics()
    metrics.copied(copied(), 12_000)
    metrics.stands(ReplicatorStatus(pid=7, host="h", at=1, removed=("journal-bank",)))
    assert not [place for place in values(list(metrics.collect())) if "journal-bank" in place]


def test_what_is_written_is_read_and_rot_is_read_as_nothing(tmp_path: Path) -> None:
    file, metrics = MetricsFile(tmp_path / "metrics.txt"), ReplicatorMetrics()
    assert file.read() is None
    metrics.copied(copied(), 12_000)
    metrics.stands(standing())
    file.write(metrics, 7)
    written = file.read()
    assert written is not None
    assert written.pid == 7
    assert values(written.families) == values(list(metrics.collect()))
    (tmp_path / "metrics.txt").write_bytes(b"\xff\xfe rot")
    assert file.read() is None
    (tmp_path / "metrics.txt").write_text("# pid 7\nno metric { at all")
    assert file.read() is None


def test_counts_of_an_ended_replicator_are_added_and_its_gauges_are_not() -> None:
    before, now = ReplicatorMetrics(), ReplicatorMetrics()
    before.copied(copied(), 12_000)
    before.copied(copied(topic="journal-old"), 12_000)
    before.stands(standing())
    now.copied(copied(records=2), 12_000)
    now.stands(ReplicatorStatus(pid=8, host="h", at=1, topics=("journal-bank",)))
    found = values(added(now.collect(), list(before.collect())))
    assert found["headwater_replicator_records_total", "journal-bank"] == 7
    assert found["headwater_replicator_records_total", "journal-old"] == 5
    assert found["headwater_replicator_round_seconds_count", "here"] == 3
    assert found["headwater_replicator_stopped_partitions", "journal-bank"] == 0

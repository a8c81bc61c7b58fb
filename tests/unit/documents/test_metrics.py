from __future__ import annotations

from headwater.core.document_errors import NotMatched
from headwater.core.errors import NotOwner, Unavailable
from headwater.documents.metrics import DocumentMetrics
from headwater.documents.partition_status import PartitionStanding


def test_writes_are_counted_by_what_became_of_them() -> None:
    metrics = DocumentMetrics()
    metrics.accepted(0.001)
    metrics.refused(NotMatched("no"))
    metrics.refused(Unavailable("no"))
    metrics.refused(NotOwner("no"))
    metrics.read = lambda: [PartitionStanding(partition=1, state="Active", end=7, applied=5, queued=2)]
    samples = {(sample.name, *sample.labels.values()): sample.value for family in metrics.families() for sample in family.samples}
    assert [samples["headwater_documents_writes_total", outcome] for outcome in ("accepted", "refused", "failed")] == [1, 1, 1]
    assert samples[("headwater_documents_forwarded_total",)] == 1
    assert samples["headwater_documents_backlog_records", "1"] == 2
    assert samples["headwater_documents_active", "1"] == 1
    assert samples[("headwater_documents_write_seconds_count",)] == 1

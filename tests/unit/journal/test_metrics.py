from __future__ import annotations

import asyncio

import pytest

from headwater.core.errors import Unavailable
from headwater.journal.cache import CacheCounts
from headwater.journal.lag import PartitionLag
from headwater.journal.metrics import JournalMetrics, TopicReading


def values(metrics: JournalMetrics) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in metrics.families()
        for sample in family.samples
        if "le" not in sample.labels
    }


def test_calls_are_counted_by_the_topics_full_name_and_failures_apart() -> None:
    metrics = JournalMetrics({"bank": "journal-bank"}.get)
    with metrics.call("bank", "append") as call:
        pass
    call.events(3)
    with pytest.raises(Unavailable), metrics.call("bank", "append"):
        raise Unavailable("no", hint="")
    with pytest.raises(asyncio.CancelledError), metrics.call("bank", "append"):
        raise asyncio.CancelledError
    found = values(metrics)
    assert found["headwater_journal_call_seconds_count", "journal-bank", "append"] == 3
    assert found["headwater_journal_failed_calls_total", "journal-bank", "append"] == 1
    assert found["headwater_journal_events_total", "journal-bank", "append"] == 3


def test_a_strangers_word_becomes_no_label() -> None:
    metrics = JournalMetrics({"bank": "journal-bank"}.get)
    with metrics.call("no-such-topic", "read") as call:
        pass
    call.events(3)
    assert not values(metrics)
    metrics.expired("journal-bank", 2)
    assert values(metrics) == {("headwater_journal_expired_total", "journal-bank"): 2}


def test_caches_and_lags_are_read_at_each_scrape() -> None:
    metrics = JournalMetrics(str)
    metrics.topics = lambda: [TopicReading("journal-bank", CacheCounts(hit=1, miss=7, ahead=2, limited=3, behind=4, seconds=0.5), 5, 6)]
    metrics.lags = lambda: [PartitionLag(topic="journal-bank", partition=1, pointer=1, start=0, end=9, records=7, seconds=1.5, missing=2)]
    found = values(metrics)
    assert [found["headwater_journal_cache_lookups_total", result, "journal-bank"] for result in ("hit", "ahead", "limited", "behind")] == [
        1, 2, 3, 4,
    ]  # fmt: skip
    assert found["headwater_journal_cache_lookup_seconds_total", "journal-bank"] == 0.5
    assert found["headwater_journal_cached_journals", "journal-bank"] == 5
    assert found["headwater_journal_duplicates_total", "journal-bank"] == 6
    assert found["headwater_replicator_lag_records", "1", "journal-bank"] == 7
    assert found["headwater_replicator_lag_seconds", "1", "journal-bank"] == 1.5
    assert found["headwater_replicator_missing_records", "1", "journal-bank"] == 2

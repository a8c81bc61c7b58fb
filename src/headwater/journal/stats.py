"""Statistics of a topic of journals: what the log keeps of each partition, what its copy holds, and how far that is behind."""

from __future__ import annotations

from datetime import date

import msgspec

from headwater.core.errors import Conflict, Differs
from headwater.journal.discovery import JournalTopic
from headwater.journal.lag import PartitionLag, partition_lag
from headwater.journal.store import CopyTotals, JournalStore
from headwater.log import Log
from headwater.log.content import content_of

_TIMES = 5  # how often a copy is counted again because changes have overtaken the count


class PartitionStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """One partition. `log_bytes`: of the log's files; None where the log is on brokers."""

    lag: PartitionLag
    totals: CopyTotals
    log_bytes: int | None = None


def topic_statistics(log: Log, store: JournalStore, topic: JournalTopic, *, today: date, now: int) -> list[PartitionStatistics]:
    """The statistics of every partition. `today`: journals that expire on it or before have expired. `now`: milliseconds.

    Errors: those of the log and the store; `Conflict` where a copy changes faster than it can be counted.
    """
    sizes = [content.bytes for content in content_of(log, topic.name)] if log.engine == "embedded" else [None] * topic.partitions
    return [
        PartitionStatistics(
            lag=partition_lag(log, store, topic, number, now=now), totals=_totals(store, topic, number, today), log_bytes=sizes[number]
        )
        for number in range(topic.partitions)
    ]


def _totals(store: JournalStore, topic: JournalTopic, partition: int, today: date) -> CopyTotals:
    copy = store.partition(topic.name, partition, topic.generation, create=False)
    if copy is None:
        return CopyTotals()
    for attempt in range(_TIMES):
        try:
            with copy.view() as view:
                return view.totals(today)
        except Differs:  # of an earlier topic of this name: none of this one's journals is in it
            return CopyTotals()
        except Conflict:
            if attempt == _TIMES - 1:
                raise
    raise AssertionError("unreachable")

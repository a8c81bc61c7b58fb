"""The setting `journal.keep`: deletes records that the store has copied durably and that are older than it says, and never others."""

from __future__ import annotations

import msgspec

from headwater.journal.control import PART, ControlLog
from headwater.journal.copied_partition import remake_pending
from headwater.journal.copies import open_copy
from headwater.journal.discovery import JournalTopic
from headwater.journal.store import JournalStore
from headwater.log import Log


class KeptLog(msgspec.Struct, frozen=True, kw_only=True):
    """One partition after the deletion. `durable`: the last record that the store has copied and synced."""

    topic: str
    partition: int
    durable: int
    before: int  # the log's start before it
    start: int

    @property
    def deleted(self) -> int:
        """How many offsets have gone."""
        return self.start - self.before


def delete_copied(log: Log, store: JournalStore, topic: JournalTopic, *, keep: int, now: int, dry_run: bool = False) -> list[KeptLog]:
    """Delete the records of a topic that are copied and older than `keep` milliseconds; 0 keeps everything. `now`: milliseconds.

    A partition whose copy is of another generation of the topic, or is to be made anew, loses nothing.
    Errors: those of the store and the log; partitions that were done by then stay so.
    """
    kept_logs: list[KeptLog] = []
    control = ControlLog(log, topic.journals)
    control.look()
    for partition in range(topic.partitions) if keep > 0 else ():
        copy = open_copy(store, topic, partition, create=False)
        if copy is None or remake_pending(store, topic, partition, control.partition(topic.generation, partition)):
            continue
        before = log.bounds(topic.name, partition).start
        durable = copy.checkpoint()  # a pointer that a loss of power takes back must not have let its records go
        if durable.offset < before or durable.generation != topic.generation:
            continue
        start = min(durable.offset + 1, log.offset_at(topic.name, partition, now - keep))
        if start > before and not dry_run:
            start = _delete(log, topic.name, partition, start)
        kept_logs.append(KeptLog(topic=topic.name, partition=partition, durable=durable.offset, before=before, start=max(start, before)))
    return kept_logs


def _delete(log: Log, topic: str, partition: int, offset: int) -> int:
    """Delete below `offset`; where the partition is claimed, in the name of its owner."""
    epoch = log.epoch(topic, partition)
    if not epoch:
        return log.delete_before(topic, partition, offset, part=PART)
    return log.writer(topic, partition, epoch, part=PART).delete_before(offset)

"""Brings a base into the store: the copy of a partition as its base holds it, from which replication goes on."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.journal.base import JournalBases
from headwater.journal.discovery import JournalTopic
from headwater.journal.replication_task import gap
from headwater.journal.store import PartitionStore, RingStore
from headwater.journal.store_address import StoreAddress, open_store
from headwater.log import Log


def restore_base(bases: JournalBases, log: Log, topic: JournalTopic, copy: PartitionStore) -> None:
    """Let a copy hold what its base holds. Done twice, it does the same. Errors: those of `JournalBases.usable` and `scratch`."""
    note = bases.usable(log, topic, copy.partition)
    with bases.scratch(note) as folder, open_store(StoreAddress(folder=folder)) as scratch:
        base = scratch.partition(topic.name, copy.partition, topic.generation)
        assert base is not None
        with base.view() as view:
            copy.restore(view)


def restore_rings(bases: JournalBases, log: Log, topic: JournalTopic, copy: RingStore, counts: Sequence[int] = ()) -> None:
    """As `restore_base`, of snapshots. `counts`: as of `RingStore.restore`.

    Errors: `LogGap` where no base has those that the log has deleted; those of `JournalBases.of_snapshots` and `scratch`.
    """
    note = bases.of_snapshots(log, topic, copy.partition)
    if note is None:
        raise gap(topic.name, copy.partition, 0, log.bounds(topic.name, copy.partition).start)
    with bases.scratch(note) as folder, open_store(StoreAddress(folder=folder)) as scratch:
        base = scratch.snapshots(topic.name, copy.partition, topic.generation)
        assert base is not None
        with base.view() as view:
            copy.restore(view, counts)

"""Brings a base into the store: the copy of a partition as its base holds it, from which replication goes on."""

from __future__ import annotations

from headwater.journal.base import JournalBases
from headwater.journal.discovery import JournalTopic
from headwater.journal.store import PartitionStore
from headwater.journal.store_address import StoreAddress, open_store
from headwater.log import Log


def restore_base(bases: JournalBases, log: Log, topic: JournalTopic, copy: PartitionStore) -> None:
    """Let a copy hold what its base holds. Done twice, it does the same. Errors: those of `JournalBases.usable` and `scratch`."""
    note = bases.usable(log, topic, copy.partition)
    with bases.scratch(topic, note) as folder, open_store(StoreAddress(folder=folder)) as scratch:
        base = scratch.partition(topic.name, copy.partition, topic.generation)
        assert base is not None
        with base.view() as view:
            copy.restore(view)

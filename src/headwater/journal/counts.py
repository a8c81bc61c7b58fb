"""The numbers of partitions that a Kafka topic has had. A topic that grew keeps its generation, and its older journals lie where the older
number put them: readers look an id up by each number, older ones first.
"""

from __future__ import annotations

import msgspec

from headwater.journal.discovery import JournalTopic, generation_of_journals
from headwater.journal.store import JournalStore


class PartitionCounts(msgspec.Struct, frozen=True):
    """The numbers that were seen of one generation of a topic, in the order in which they were seen."""

    generation: str
    counts: tuple[int, ...]


def partition_counts(store: JournalStore, topic: JournalTopic) -> tuple[int, ...]:
    """The numbers of partitions that a topic has had, older ones first; its present one is the last. Of a topic of snapshots: those of its
    journals' topic that were noted."""
    counts = noted_counts(store, topic)
    if topic.holds == "snapshots":
        return counts
    return counts if counts and counts[-1] == topic.partitions else (*counts, topic.partitions)


def note_count(store: JournalStore, topic: JournalTopic) -> bool:
    """Keep the present number of partitions; whether it is new."""
    counts = noted_counts(store, topic)
    if topic.partitions in counts:
        return False
    noted = PartitionCounts(topic.generation, (*counts, topic.partitions))
    store.set_setting(_setting(topic.name), msgspec.json.encode(noted).decode())
    return True


def noted_counts(store: JournalStore, topic: JournalTopic) -> tuple[int, ...]:
    """The numbers of partitions that were seen of a topic, or of the journals' topic of one of snapshots."""
    text = store.setting(_setting(topic.journals))
    if text is None:
        return ()
    noted = msgspec.json.decode(text, type=PartitionCounts)
    return noted.counts if noted.generation == generation_of_journals(topic.generation) else ()


def _setting(topic: str) -> str:
    return f"headwater/partitions/{topic}"

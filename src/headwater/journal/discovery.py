"""Finds the topics of journals by the prefixes of their names, and notices topics that are added, removed, created again or grown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from headwater.core.errors import Damaged, UnknownTopic
from headwater.journal.names import SNAPSHOTS, is_journal_topic, snapshot_topic
from headwater.log import Log

Holds = Literal["journals", "snapshots"]


class JournalTopic(msgspec.Struct, frozen=True):
    """A topic of journals, or of their snapshots, as the log has it now. `generation` differs when a deleted topic is created again under
    its name; that of a topic of snapshots names the generation of the journals' topic, too (`snapshot_generation`)."""

    name: str
    partitions: int
    generation: str
    holds: Holds = "journals"

    @property
    def journals(self) -> str:
        """The name of the topic of journals."""
        return self.name if self.holds == "journals" else self.name.removeprefix(SNAPSHOTS)


def snapshot_generation(snapshots: str, journals: str) -> str:
    """The generation of a topic of snapshots: its own, and that of the journals' topic, whose older snapshots count for nothing."""
    return f"{snapshots}:{journals}"  # Kafka's ids of topics may hold slashes


def generation_of_journals(generation: str) -> str:
    """The generation of the journals' topic, from that of the topic of snapshots."""
    return generation.rpartition(":")[2]


def snapshots_of(log: Log, topic: JournalTopic) -> JournalTopic | None:
    """The topic of a topic's snapshots; None where none was saved yet. Errors: those of `Log.topic`."""
    try:
        snapshots = log.topic(snapshot_topic(topic.name))
    except UnknownTopic:
        return None
    return JournalTopic(snapshots.name, snapshots.partitions, snapshot_generation(snapshots.generation, topic.generation), "snapshots")


def with_snapshots(log: Log, topic: JournalTopic) -> list[JournalTopic]:
    """A topic of journals, and that of its snapshots where there is one. Errors: those of `Log.topic`."""
    snapshots = snapshots_of(log, topic)
    return [topic] if snapshots is None else [topic, snapshots]


class TopicChanges(msgspec.Struct, frozen=True):
    """What is different since the last look."""

    added: tuple[JournalTopic, ...] = ()
    removed: tuple[str, ...] = ()
    created_again: tuple[JournalTopic, ...] = ()
    grown: tuple[JournalTopic, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.created_again or self.grown)


class Discovery:
    """The topics of journals of one log, as the last `look` has found them."""

    def __init__(self, log: Log, prefixes: Sequence[str]) -> None:
        self._log, self._prefixes = log, tuple(prefixes)
        self.topics: dict[str, JournalTopic] = {}
        """Topics of journals, each before the one of its snapshots."""
        self.names: frozenset[str] = frozenset()
        """All topics of the log, of whatever kind."""
        self.damaged: dict[str, str] = {}
        """Topics that the log cannot describe, with what it says. They are left out, and the others go on."""

    def look(self) -> TopicChanges:
        """Read the list of topics. Errors: those of the log; then `topics` is as it was."""
        everything = self._log.topic_names()
        existing = frozenset(everything)
        names = [name for name in everything if is_journal_topic(name, self._prefixes)]
        damaged: dict[str, str] = {}
        topics: dict[str, JournalTopic] = {}
        for name in names:
            try:
                topic = self._log.topic(name)
            except UnknownTopic:  # deleted since the list was read
                continue
            except Damaged as error:
                damaged[name] = str(error)
                continue
            topics[name] = JournalTopic(name, topic.partitions, topic.generation)
            if snapshot_topic(name) in existing and (snapshots := self._snapshots(topics[name], damaged)) is not None:
                topics[snapshots.name] = snapshots
        before, self.topics, self.damaged, self.names = self.topics, topics, damaged, existing
        both = [(before[name], topic) for name, topic in topics.items() if name in before]
        return TopicChanges(
            added=tuple(topic for name, topic in topics.items() if name not in before),
            removed=tuple(name for name in before if name not in topics and name not in damaged),
            created_again=tuple(topic for old, topic in both if old.generation != topic.generation),
            grown=tuple(topic for old, topic in both if old.generation == topic.generation and old.partitions < topic.partitions),
        )

    def _snapshots(self, topic: JournalTopic, damaged: dict[str, str]) -> JournalTopic | None:
        try:
            return snapshots_of(self._log, topic)
        except Damaged as error:
            damaged[snapshot_topic(topic.name)] = str(error)
            return None

"""Finds the topics of journals by the prefixes of their names, and notices topics that are added, removed, created again or grown."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.core.errors import Damaged, UnknownTopic
from headwater.journal.names import is_journal_topic
from headwater.log import Log


class JournalTopic(msgspec.Struct, frozen=True):
    """A topic of journals as the log has it now. `generation` differs when a deleted topic is created again under its name."""

    name: str
    partitions: int
    generation: str


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
        self.names: frozenset[str] = frozenset()
        """All topics of the log, of whatever kind."""
        self.damaged: dict[str, str] = {}
        """Topics that the log cannot describe, with what it says. They are left out, and the others go on."""

    def look(self) -> TopicChanges:
        """Read the list of topics. Errors: those of the log; then `topics` is as it was."""
        everything = self._log.topic_names()
        names = [name for name in everything if is_journal_topic(name, self._prefixes)]
        damaged: dict[str, str] = {}
        found: dict[str, JournalTopic] = {}
        for name in names:
            try:
                topic = self._log.topic(name)
            except UnknownTopic:  # deleted since the list was read
                continue
            except Damaged as error:
                damaged[name] = str(error)
                continue
            found[name] = JournalTopic(name, topic.partitions, topic.generation)
        before, self.topics, self.damaged, self.names = self.topics, found, damaged, frozenset(everything)
        both = [(before[name], topic) for name, topic in found.items() if name in before]
        return TopicChanges(
            added=tuple(topic for name, topic in found.items() if name not in before),
            removed=tuple(name for name in before if name not in found and name not in damaged),
            created_again=tuple(topic for old, topic in both if old.generation != topic.generation),
            grown=tuple(topic for old, topic in both if old.generation == topic.generation and old.partitions < topic.partitions),
        )

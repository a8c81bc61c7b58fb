"""Persistence ids of Akka and Pekko: which topic and which journal they name, as the plugin of kafka-journal has it. For programs that read
what such a plugin has written; headwater itself goes by topics and ids."""

from __future__ import annotations

from typing import Protocol

import msgspec


class PersistenceIds(Protocol):
    """A rule."""

    def place(self, persistence_id: str) -> tuple[str, str]:
        """The topic and the journal's id."""


class ConstantTopic(msgspec.Struct, frozen=True):
    """All journals are in one topic, and the persistence id is the journal's id."""

    topic: str = "journal"

    def place(self, persistence_id: str) -> tuple[str, str]:
        """The topic and the journal's id."""
        return self.topic, persistence_id


class SplitTopic(msgspec.Struct, frozen=True):
    """What stands before the last separator is the topic, what stands behind it is the journal's id. `fallback`: for ids without one."""

    separator: str = "-"
    fallback: ConstantTopic = ConstantTopic()

    def place(self, persistence_id: str) -> tuple[str, str]:
        """The topic and the journal's id."""
        topic, separator, id = persistence_id.rpartition(self.separator)
        return (topic, id) if separator else self.fallback.place(persistence_id)

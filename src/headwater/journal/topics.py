"""Topics of journals: which there are, and how one is created."""

from __future__ import annotations

from typing import Literal

from headwater.core.errors import UnknownJournal, UnknownTopic
from headwater.core.spelling import meant
from headwater.journal.names import is_journal_topic, topic_of
from headwater.journal.settings import JournalSettings
from headwater.log import Log
from headwater.log.owners import not_made_by
from headwater.log.record import Topic, TopicSettings

PART = "journal"
Writers = Literal["owner", "shared"]
"""Who appends to a topic: headwater alone, which numbers events, or others, too, which bring their numbers."""
_HERE, _KAFKA = 2, 8  # partitions of a new topic


class JournalTopics:
    """The topics of one log that hold journals. Blocking."""

    def __init__(self, log: Log, settings: JournalSettings, usual: TopicSettings | None = None) -> None:
        self.log = self._log = log
        self._settings, self._usual = settings, usual

    def name(self, name: str) -> str:
        """The topic's name: `journal-bank` for `bank`. Errors: `BadInput`."""
        return topic_of(name, self._settings.prefixes)

    def list(self) -> list[Topic]:
        """Every topic of journals, sorted by name."""
        return [topic for topic in self._log.topics() if is_journal_topic(topic.name, self._settings.prefixes) and self._holds(topic)]

    def find(self, name: str) -> Topic:
        """A topic. Errors: `UnknownJournal` with the command that creates it."""
        topic = self.name(name)
        try:
            log_topic = self._log.topic(topic)
        except UnknownTopic:
            raise self.unknown(name) from None
        if not self._holds(log_topic):
            raise UnknownJournal(
                f"Topic {topic} holds no journals: `headwater log create` or a program has made it, and everybody may change it.",
                hint="Create journals under another name with `headwater journal create`, or delete the topic first.",
            )
        return log_topic

    def unknown(self, name: str) -> UnknownJournal:
        """The error for a topic that is not there."""
        near = meant(self.name(name), [topic.name for topic in self.list()])
        did = f"Did you mean {near}? " if near else ""
        return UnknownJournal(
            f"There are no journals {name!r:.60}: no topic {self.name(name)}.",
            hint=f"{did}Create them with `headwater journal create {name}`, or list topics with `headwater journal topics`.",
        )

    def create(self, name: str, partitions: int = 0) -> tuple[Topic, bool]:
        """Create a topic, or find the one that is there; and whether it is new. `partitions`: 0 for the setting's.

        Errors: `AlreadyExists` where it is there with another number of partitions.
        """
        log_topic, count = self.creation(name, partitions)
        if log_topic is not None and partitions in (0, log_topic.partitions):
            return log_topic, False
        return self._log.create_topic(self.name(name), partitions=count, settings=self._usual, part=PART), True

    def creation(self, name: str, partitions: int = 0) -> tuple[Topic | None, int]:
        """The topic that is there, and the number of partitions that `create` would give a new one. Errors: `AlreadyExists` for a topic
        that holds no journals."""
        try:
            log_topic = self._log.topic(self.name(name))
        except UnknownTopic:
            log_topic = None
        if log_topic is not None and not self._holds(log_topic):
            raise not_made_by(log_topic.name, PART)
        return log_topic, partitions or self._settings.partitions or (_HERE if self._log.engine == "embedded" else _KAFKA)

    def _holds(self, topic: Topic) -> bool:
        """Whether a topic with such a name holds journals: on Kafka also other programs' topics, here none that everybody may compact."""
        return self._log.engine != "embedded" or topic.settings.owner == PART

    def writers(self, topic: Topic) -> Writers:
        """Who appends to a topic. On this machine the log's lock lets every process number events; on Kafka the topic's owner does."""
        return "owner" if self._log.engine == "embedded" or topic.settings.owner == PART else "shared"

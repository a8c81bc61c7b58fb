"""The identity of a topic: a topic that is created again under its name has another id, and claims of the old one mean nothing there."""

from __future__ import annotations

from collections.abc import Callable

from headwater.core.clock import Clock
from headwater.core.errors import Fenced
from headwater.log.kafka.topics import KafkaTopics

_FRESH = 0.02  # seconds for which an earlier answer will do before an append: no topic is deleted and created again so fast


class TopicIdentity:
    """The topic that a Writer has claimed. Safe for several threads.

    A check before an append keeps stale records out of a new topic, as far as checks can: the topic may change a moment later. The check
    after it is what the Writer's promise needs: an answer with the same id came after the records were replicated, so they lie in the
    topic of the claim, because an id never comes back.
    """

    def __init__(self, topics: KafkaTopics, clock: Clock, name: str) -> None:
        """Errors: `UnknownTopic`."""
        self._topics, self._clock, self._name = topics, clock, name
        self.generation = topics.get(name).generation
        self._confirmed = clock.monotonic()

    def check(self) -> None:
        """Errors: `Fenced` for another topic of this name, `UnknownTopic` for none. An answer of the last moment will do."""
        if self._clock.monotonic() - self._confirmed > _FRESH:
            self.begin()()

    def begin(self) -> Callable[[], None]:
        """Ask now. The function that it returns waits for the answer. Its errors are those of `check`, and of brokers that are silent."""
        asked, answer = self._clock.monotonic(), self._topics.generation(self._name)

        def check() -> None:
            if answer() != self.generation:
                raise Fenced(
                    f"The topic {self._name} was deleted and created again since it was claimed.",
                    hint="Claim it again, and read the new one.",
                )
            self._confirmed = max(self._confirmed, asked)

        return check

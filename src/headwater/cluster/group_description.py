"""Asks the brokers who is in a consumer group, and never lets the client end a question by its own timer.

librdkafka aborts the process where its timer ends a DescribeGroups request while it still looks for the group's coordinator, as it does
when that broker has died: the timer and the search count the request down twice. So the client gets far more time than callers have.
Callers stop waiting by themselves, and whoever asks next waits for the question that is under way before it asks its own.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitedTooLong
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._group import ConsumerGroupDescription

_LONGEST = 3600.0  # seconds: beyond any time in which brokers elect a coordinator


class GroupDescription:
    """Describes one group through one client. Safe for several threads; at most one question is under way."""

    def __init__(self, admin: AdminClient, group: str, *, kafka: Any, patience: float) -> None:
        """`kafka`: the module `confluent_kafka`; `patience`: seconds that a caller waits."""
        self._admin, self._group, self._kafka, self._patience = admin, group, kafka, patience
        self._guard = threading.Lock()
        self._asked: Future[ConsumerGroupDescription] | None = None

    def now(self) -> ConsumerGroupDescription:
        """The group as it was after this call began. Errors: `KafkaException`, with `_TIMED_OUT` where no broker answers in time."""
        with self._guard:
            before = self._asked
        if before is not None and not before.done():
            self._wait(before)  # its answer may be older than this call
        with self._guard:
            if self._asked is before or self._asked is None:
                self._asked = self._admin.describe_consumer_groups([self._group], request_timeout=_LONGEST)[self._group]
            description = self._asked
        return self._wait(description)

    def _wait(self, description: Future[ConsumerGroupDescription]) -> ConsumerGroupDescription:
        try:
            return description.result(self._patience)
        except WaitedTooLong:
            error = self._kafka.KafkaError(self._kafka.KafkaError._TIMED_OUT, "no broker has described the group")
            raise self._kafka.KafkaException(error) from None

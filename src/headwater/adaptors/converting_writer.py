"""What writers of messages, one request for many of them, have in common: converting, refusing, and the time that a batch may take."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from headwater.core.errors import BadInput, Rejected, Timeout
from headwater.pipeline.adaptor import Batch, Part, SinkWriter
from headwater.pipeline.message import Message

Converted = TypeVar("Converted")


class ConvertingWriter(SinkWriter, Generic[Converted]):
    """Converts a batch's messages into what the system takes, then sends them, within the sink's timeout.

    A message that cannot be converted is refused once all before it are sent: they count as taken, so they have to be.
    """

    def __init__(self, part: Part, where: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`where`: the system and its address, as errors call it."""
        self._part, self._where, self._clock = part, where, clock
        self._deadline = 0.0

    @abstractmethod
    def convert(self, message: Message) -> Converted:
        """Errors: `BadInput` for a message of which nothing can be made; `Unavailable` when the system has to be asked, and cannot."""

    @abstractmethod
    def send(self, converted: Sequence[Converted]) -> None:
        """Make all of them durable there. Errors: `Rejected` for the first one that is refused; else as `SinkWriter.write`."""

    def write(self, batch: Batch) -> None:
        self._deadline = self._clock() + self._part.timeout
        ready: list[Converted] = []
        refused: Rejected | None = None
        for message in batch.messages:
            try:
                ready.append(self.convert(message))
            except BadInput as error:
                refused = rejected(message.offset, error)
                break
        if ready:
            self.send(ready)
        if refused is not None:
            raise refused

    def left(self, why: str = "") -> float:
        """Seconds that the batch may still take. Errors: `Timeout`."""
        left = self._deadline - self._clock()
        if left <= 0:
            raise self.late(why)
        return left

    def late(self, why: str = "") -> Timeout:
        return Timeout(
            f"{self._where} has not taken a batch within {self._part.timeout:g} s{f': {why}' if why else ''}.",
            hint="Give the sink a longer timeout or a smaller batch.",
        )


def rejected(offset: int, error: BadInput) -> Rejected:
    """The refusal of a message, all before which are taken."""
    return Rejected(error.message, offset=offset, before_taken=True, hint=error.hint)

"""The base of writers that send many messages with one request: conversion, refusal, the batch's timeout, and whose fault an error is."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from headwater.core.errors import BadInput, Fenced, HeadwaterError, Rejected, Timeout, Unreachable
from headwater.pipeline import values
from headwater.pipeline.message import Message, Op
from headwater.pipeline.sink_adaptor import Batch, Part, SinkWriter

Converted = TypeVar("Converted")


class ConvertingWriter(SinkWriter, Generic[Converted]):
    """Converts the messages of a batch, then sends them, within the sink's timeout.

    A message that cannot be converted is refused after all before it are sent: `Rejected` says that they are taken.
    """

    def __init__(self, part: Part, where: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`where`: the system and its address in errors."""
        self._part, self._where, self._clock = part, where, clock
        self._deadline = 0.0

    @abstractmethod
    def convert(self, message: Message) -> Converted:
        """Convert one message. Errors: `BadInput` where it cannot be converted; `Unavailable` where that needs an answer of the system."""

    @abstractmethod
    def send(self, converted: Sequence[Converted]) -> None:
        """Make all of them durable in the system. Errors: `Rejected` for the first one that it refuses; else as `SinkWriter.write`."""

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
        """The seconds until the batch's deadline. Errors: `Timeout` after it."""
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


def identity_of(message: Message, system: str, *, needed: Sequence[Op] = (Op.UPDATE, Op.DELETE)) -> Any:
    """The message's id. Errors: `BadInput` for a command, and for an op that needs the id of a document that has none."""
    if message.op not in (Op.INSERT, Op.UPDATE, Op.DELETE):
        command = values.encode(message.data).decode()[:200]
        raise BadInput(f"{system} has no commands, such as {command}.", hint="Skip it with ack.")
    identity = message.id
    if identity is None and message.op in needed:
        missing = ", ".join(message.id_fields)
        raise BadInput(f"The {message.op.name.lower()} names no document: it has no {missing}.", hint="Correct it with edit.")
    return identity


def made_id(pipeline: str, message: Message) -> str:
    """The id that a sink gives a document without one: the same when the message is sent again, so that there is no second copy."""
    return f"{pipeline}-{message.offset}"


def key_of(identity: Any) -> bytes | None:
    """An id as the key of a record: text as it is, everything else as JSON."""
    return None if identity is None else identity.encode() if isinstance(identity, str) else values.canonical(identity)


def as_unreachable(error: HeadwaterError) -> Unreachable:
    """The error of a request that fails for every message, such as a missing right: the sink waits, and no message is refused."""
    return error if isinstance(error, Unreachable) else Unreachable(error.message, hint=error.hint)


@contextmanager
def blaming_no_message(*kinds: type[HeadwaterError]) -> Iterator[None]:
    """Turns errors of these kinds into `Unreachable`, except `Fenced`, which ends the run."""
    try:
        yield
    except kinds as error:
        if isinstance(error, Fenced | Unreachable):
            raise
        raise as_unreachable(error) from error

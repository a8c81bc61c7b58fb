"""Answers of calls: awaitables that cost no coroutine. An answer is known when the call is made, and given when its record is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class Answer(msgspec.Struct, Generic[T], eq=False):
    """What a call gives, once the future of its record has ended. Errors: those of the future."""

    future: asyncio.Future[int]
    value: T

    def __await__(self) -> Generator[Any, None, T]:
        yield from self.future
        return self.value


class RecalledAnswer(msgspec.Struct, Generic[T], eq=False):
    """An answer that must reach its caller: where the caller gives up before it is there, `recall` is called with it."""

    future: asyncio.Future[int]
    value: T
    recall: Callable[[T], object]

    def __await__(self) -> Generator[Any, None, T]:
        try:
            yield from self.future
        except (asyncio.CancelledError, GeneratorExit):
            self.recall(self.value)
            raise
        return self.value

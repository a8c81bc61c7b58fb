"""Answers of calls: awaitables that cost no coroutine. An answer is known when the call is made, and given when its record is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Answer(Generic[T]):
    """What a call gives, once the future of its record has ended. Errors: those of the future."""

    __slots__ = ("_future", "_value")

    def __init__(self, future: asyncio.Future[int], value: T) -> None:
        self._future, self._value = future, value

    def __await__(self) -> Generator[Any, None, T]:
        yield from self._future
        return self._value


class RecalledAnswer(Answer[T]):
    """An answer that must reach its caller: where the caller gives up before it is there, `recall` is called with it."""

    __slots__ = ("_recall",)

    def __init__(self, future: asyncio.Future[int], value: T, recall: Callable[[T], object]) -> None:
        super().__init__(future, value)
        self._recall = recall

    def __await__(self) -> Generator[Any, None, T]:
        try:
            yield from self._future
        except (asyncio.CancelledError, GeneratorExit):
            self._recall(self._value)
            raise
        return self._value

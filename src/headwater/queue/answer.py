"""Answers of calls that must reach their callers. An answer is given when its record is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class RecalledAnswer(msgspec.Struct, Generic[T], eq=False):
    """An answer that must reach its caller: where the caller gives up before it is there, it is recalled."""

    future: asyncio.Future[T]

    def recall(self) -> None:
        """Take back what the call has done for its caller."""
        raise NotImplementedError

    def __await__(self) -> Generator[Any, None, T]:
        try:
            return (yield from self.future)
        except (asyncio.CancelledError, GeneratorExit):
            self.recall()
            raise


class KnownAnswer(RecalledAnswer[T], eq=False):
    """An answer that is known when the call is made. `back`: is called with it where it is recalled."""

    value: T
    back: Callable[[T], object]

    def recall(self) -> None:
        self.back(self.value)

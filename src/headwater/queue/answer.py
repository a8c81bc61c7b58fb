"""Answers of calls that must reach their callers. An answer is known when the call is made, and given when its record is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class RecalledAnswer(msgspec.Struct, Generic[T], eq=False):
    """An answer that must reach its caller: where the caller gives up before it is there, `recall` is called with it."""

    future: asyncio.Future[T]
    value: T
    recall: Callable[[T], object]

    def __await__(self) -> Generator[Any, None, T]:
        try:
            yield from self.future
        except (asyncio.CancelledError, GeneratorExit):
            self.recall(self.value)
            raise
        return self.value

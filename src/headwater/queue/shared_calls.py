"""Calls that share a record: each has its own future and answer, and all of them are told together what became of the record."""

from __future__ import annotations

import asyncio
from typing import Any


class SharedCalls:
    """What a region tells of a record, passed on to the calls that share it. A call whose caller has given up is passed over."""

    __slots__ = ("answers", "futures")

    def __init__(self, futures: list[asyncio.Future[Any]], answers: list[Any]) -> None:
        """One answer for each future, at its place; at least one."""
        self.futures, self.answers = futures, answers

    def set_result(self, result: None) -> None:
        """The record is durable: give each call its answer."""
        for future, answer in zip(self.futures, self.answers, strict=True):
            try:
                future.set_result(answer)
            except asyncio.InvalidStateError:
                continue  # the caller has given up; the record has its call nevertheless

    def set_exception(self, error: Exception) -> None:
        """The record was not written, or nobody knows."""
        for future in self.futures:
            if not future.done():
                future.set_exception(error)

    def done(self) -> bool:
        """Whether nobody waits any more."""
        return all(future.done() for future in self.futures)

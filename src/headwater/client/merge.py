"""Merges several tails into one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")
_TURN = 0.1  # seconds after which tails without items give an empty batch
_MANY = 1000  # items that wait in the queue


async def merged(tails: Mapping[int, AsyncIterator[T]]) -> AsyncGenerator[list[tuple[int, T]]]:
    """The items of all tails as they come, in batches of (name, item). A batch is empty where none comes for 0.1 s.

    When a tail fails, the merged one yields what came before and raises the tail's error.
    """
    arrived: asyncio.Queue[tuple[int, T]] = asyncio.Queue(_MANY)

    async def follow(name: int, tail: AsyncIterator[T]) -> None:
        async for item in tail:
            await arrived.put((name, item))

    tasks = [asyncio.create_task(follow(name, tail)) for name, tail in tails.items()]
    try:
        while True:
            yield [arrived.get_nowait() for _ in range(arrived.qsize())] or await _next(arrived, tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _next(arrived: asyncio.Queue[T], tasks: Sequence[asyncio.Task[None]]) -> list[T]:
    """One item, or none after a pause. Errors: those of the tails."""
    taking = asyncio.create_task(arrived.get())
    try:
        done, _ = await asyncio.wait([taking, *tasks], timeout=_TURN, return_when=asyncio.FIRST_COMPLETED)
    finally:
        taking.cancel()  # also where the caller is cancelled: nobody would end it; what arrives meanwhile stays in the queue
    if taking in done:
        return [taking.result()]
    for task in tasks:
        if task in done:
            task.result()
    return []

"""Lets one task at a time open or close a region. Nothing is kept of regions that nobody opens or closes now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class _Gate:
    def __init__(self) -> None:
        self.lock, self.users = asyncio.Lock(), 0


class RegionGates:
    """A lock for each region. Belongs to one event loop."""

    def __init__(self) -> None:
        self._gates: dict[int, _Gate] = {}

    def __len__(self) -> int:
        """How many are held."""
        return len(self._gates)

    @asynccontextmanager
    async def alone(self, region: int) -> AsyncIterator[None]:
        """Wait for the others, in the order of their calls."""
        gate = self._gates.setdefault(region, _Gate())
        gate.users += 1
        try:
            async with gate.lock:
                yield
        finally:
            gate.users -= 1
            if not gate.users:
                del self._gates[region]

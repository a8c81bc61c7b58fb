"""One change of a table at a time, for changes that build on what is in the log: marks, drops and moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

Written = asyncio.Future[Any]


class _Gate(asyncio.Lock):
    """Of one table. `users`: who holds it and who waits for it."""

    users = 0


class TableGates:
    """A lock for each table that somebody changes. Belongs to one event loop."""

    def __init__(self) -> None:
        self._gates: dict[int, _Gate] = {}

    def __len__(self) -> int:
        """How many tables somebody changes, or waits for."""
        return len(self._gates)

    @asynccontextmanager
    async def alone(self, table: int) -> AsyncIterator[Callable[[Written], Awaitable[object]]]:
        """Hold a table's gate, and give a function that waits for a record of it.

        A caller that gives up leaves the gate closed until its record is in the log, or is not: what comes next builds on that.
        """
        gate = self._gates.setdefault(table, _Gate())
        gate.users += 1
        under_way: list[Written] = []

        def wait_for(future: Written) -> Awaitable[object]:
            under_way.append(future)
            return asyncio.shield(future)

        def leave(given_up: Written | None = None) -> None:
            if given_up is not None and not given_up.cancelled():
                given_up.exception()  # nobody else looks at it
            gate.release()
            self._left(table, gate)

        try:
            await gate.acquire()
        except BaseException:
            self._left(table, gate)
            raise
        try:
            yield wait_for
        finally:
            if under_way and not under_way[-1].done():
                under_way[-1].add_done_callback(leave)
            else:
                leave()

    def _left(self, table: int, gate: _Gate) -> None:
        gate.users -= 1
        if not gate.users:
            del self._gates[table]

"""Waits in tests for what other threads, sockets and processes do."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable

LONGEST_S = 120.0
"""After so long a test fails instead of hanging. Turns of the loop are no measure: ten thousand of them may pass in 40 ms."""


async def until(holds: Callable[[], object]) -> None:
    """Return once `holds` gives something true, or something to be awaited that is. Errors: `AssertionError` after `LONGEST_S`."""
    end = time.monotonic() + LONGEST_S
    while time.monotonic() < end:
        found = holds()
        if await found if inspect.isawaitable(found) else found:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"It does not hold after {LONGEST_S:.0f} s.")

"""A loop that looks after each partition of documents again and again. A partition that fails never stops the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.core.timers import Timers

_logger = logging.getLogger("headwater.documents")


class PartitionLoop:
    """Calls `look` for each partition, and again after `period` milliseconds. `name`: of the loop, for messages. `partitions` is called in
    a thread."""

    def __init__(
        self,
        name: str,
        partitions: Callable[[], Iterable[int]],
        look: Callable[[int], Awaitable[object]],
        *,
        period: int,
        timers: Timers,
        clock: Clock,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        self.name, self._partitions, self._look, self._period = name, partitions, look, period
        self._timers, self._clock, self._failed = timers, clock, failed
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin with a pass at once. Starting twice is no error."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"headwater-documents-{self.name}")

    async def stop(self) -> None:
        """End the loop; a partition that is being looked after is finished first. Stopping twice is no error."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def once(self) -> None:
        """One pass."""
        try:
            partitions = await asyncio.to_thread(lambda: list(self._partitions()))
        except Exception as error:  # whatever it is, the loop goes on
            self._failed()
            fault = not isinstance(error, HeadwaterError)
            _logger.warning("The loop %s does not know its partitions: %s", self.name, error, exc_info=fault)
            return
        for partition in partitions:
            looking = asyncio.ensure_future(self._look(partition))
            try:
                await asyncio.shield(looking)
            except asyncio.CancelledError:
                await asyncio.gather(looking, return_exceptions=True)
                raise
            except HeadwaterError as error:
                self._failed()
                _logger.warning("The loop %s has failed for partition %s: %s", self.name, partition, error)
            except Exception:
                self._failed()
                _logger.exception("The loop %s has failed for partition %s.", self.name, partition)

    async def _run(self) -> None:
        while True:
            await self.once()
            await self._timers.sleep_until(self._clock.now_ms() + self._period)

"""The catalogue of queues, which every process may look at and one at a time changes: table 0 of region 0 of the namespace `queue`.

A look needs no ownership. A change owns the region for as long as it takes; a process that serves keeps it, so that others know where to
ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from headwater.core.errors import RegionNotFound, UnknownQueue, UnknownTopic
from headwater.core.spelling import meant
from headwater.log import Bounds, Log
from headwater.queue.catalogue_fold import CatalogueFold, QueueEntry
from headwater.queue.region_hints import CATALOGUE_REGION, CATALOGUE_TABLE, NAMESPACE
from headwater.wal.manager import RegionManager
from headwater.wal.region import Region
from headwater.wal.region_topics import region_topics
from headwater.wal.settings import RegionSettings
from headwater.wal.view import RegionView

T = TypeVar("T")
Change = Callable[[CatalogueFold], Awaitable[tuple[Sequence[bytes], T]]]


class Catalogue:
    """The queues that are there. Belongs to one event loop.

    Guarantees: a change that has returned is durable, and every later look, of any process, sees it. Changes of one process are made one
    after the other. Errors of a look: `Damaged`; of a change: `NotOwner`, with the address of the process that owns the catalogue, as well.
    """

    def __init__(self, log: Log, regions: RegionManager, *, keeps: bool) -> None:
        """`regions`: of the namespace of queues. `keeps`: this process serves, and stays the owner after a change."""
        self._log, self._regions, self._keeps = log, regions, keeps
        self.topics = region_topics(regions.namespace, CATALOGUE_REGION)
        self._changing = asyncio.Lock()
        self._owned: tuple[Region, CatalogueFold] | None = None
        self._seen: tuple[tuple[str, Bounds], CatalogueFold] | None = None

    # -- looking ------------------------------------------------------------------------------------------------

    async def entries(self) -> list[QueueEntry]:
        """Every queue, sorted by name."""
        fold = await asyncio.to_thread(self._look)
        return [entry for _, entry in sorted(fold.entries.items())]

    async def find(self, name: str) -> QueueEntry | None:
        """A queue; None where there is none of this name."""
        return (await asyncio.to_thread(self._look)).entries.get(name)

    async def entry(self, name: str) -> QueueEntry:
        """A queue. Errors: `UnknownQueue`, with the nearest name that is there."""
        fold = await asyncio.to_thread(self._look)
        entry = fold.entries.get(name)
        if entry is None:
            raise unknown(name, fold)
        return entry

    def _look(self) -> CatalogueFold:
        """The queues by the log alone, whoever owns the catalogue. Nobody changes what this returns. Blocking."""
        try:
            place = self._log.topic(self.topics.data).generation, self._log.bounds(self.topics.data, 0)
        except UnknownTopic:
            return CatalogueFold()
        if self._seen is None or self._seen[0] != place:
            self._seen = place, stored_catalogue(self._log, self.topics.namespace)
        return self._seen[1]

    # -- changing -----------------------------------------------------------------------------------------------

    async def change(self, decide: Change[T]) -> T:
        """Own the catalogue, let `decide` say what is written for the queues that are there, write it, and return what `decide` gives.

        Where `decide` writes nothing, or raises, nothing changes. It may be called again where somebody closes the region meanwhile.
        """
        async with self._changing:
            await self._regions.create(CATALOGUE_REGION, RegionSettings())
            try:
                return await self._regions.using(CATALOGUE_REGION, lambda region: self._changed(region, decide))
            except BaseException:
                self._owned = None  # what was written may be there, or not: the next change reads it
                raise
            finally:
                if not self._keeps:
                    await self._regions.close(CATALOGUE_REGION)

    async def _changed(self, region: Region, decide: Change[T]) -> T:
        if self._owned is None or self._owned[0] is not region:
            self._owned = region, CatalogueFold([entry.payload async for entry in region.read(CATALOGUE_TABLE)])
        fold = self._owned[1]
        payloads, answer = await decide(fold)
        if payloads:
            await region.write(CATALOGUE_TABLE, list(payloads))
            for payload in payloads:
                fold.apply(payload)
            if fold.crowded:
                await self._carry(region, fold)
        return answer

    async def _carry(self, region: Region, fold: CatalogueFold) -> None:
        """Write what counts once more, and forget everything before it."""
        carried = fold.carried()
        last = await region.write(CATALOGUE_TABLE, carried)
        await region.mark_delete_up_to(CATALOGUE_TABLE, last - len(carried))
        self._owned = region, CatalogueFold(carried)


def stored_catalogue(log: Log, namespace: str = NAMESPACE) -> CatalogueFold:
    """The queues by the log alone, whoever owns the catalogue. Blocking. Errors: `Damaged`."""
    try:
        _, entries = RegionView(log, region_topics(namespace, CATALOGUE_REGION)).table(CATALOGUE_TABLE)
    except RegionNotFound:
        return CatalogueFold()
    return CatalogueFold(entry.payload for entry in entries)


def unknown(name: str, fold: CatalogueFold) -> UnknownQueue:
    """The error for a name that no queue has."""
    near = meant(name, fold.entries)
    return UnknownQueue(
        f"There is no queue {name}.",
        hint=f"{f'Did you mean {near}? ' if near else ''}Create it with `headwater queue create {name}`, or list queues with "
        "`headwater queue list`.",
    )


def deleted(name: str) -> UnknownQueue:
    """The error of calls that wait while their queue is deleted."""
    return UnknownQueue(f"The queue {name} was deleted.", hint=f"Create it anew with `headwater queue create {name}`.")

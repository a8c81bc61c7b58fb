"""The builds of indexes that run in this process: one task for each index of the partitions that it owns."""

from __future__ import annotations

import asyncio
from typing import Final

from headwater.core.clock import Clock
from headwater.documents.change import IndexDefinition
from headwater.documents.index.build import IndexBuild, IndexRecorder
from headwater.documents.index.shard import ShardSource
from headwater.documents.store import DocumentStore

MOST: Final = 4
"""Builds that run at once; the others wait."""
_HEADS: Final = 1000


class IndexBuilds:
    """Begins builds, and stops them. Belongs to the event loop."""

    def __init__(self, recorder: IndexRecorder, *, clock: Clock, most: int = MOST) -> None:
        self._recorder, self._clock = recorder, clock
        self._turns = asyncio.Semaphore(most)
        self.shards: ShardSource | None = None
        """Who takes what is too much for this process; set before the first build."""
        self._builds: dict[tuple[str, int], IndexBuild] = {}
        self._tasks: dict[tuple[str, int], asyncio.Task[None]] = {}

    def begin(self, store: DocumentStore, uri: str, index: IndexDefinition) -> None:
        """Build an index that is being built, unless it is under way here."""
        key = uri, index.number
        if index.state == "building" and key not in self._tasks:
            self._builds[key] = IndexBuild(store, self._recorder, uri=uri, index=index, clock=self._clock, shards=self.shards)
            self._tasks[key] = asyncio.create_task(self._run(key), name=f"index build of {uri}")

    async def look(self, store: DocumentStore) -> None:
        """Go on with every build of a partition: another owner, or this process before it was restarted, has begun it."""
        for uri, index in await asyncio.to_thread(building, store):
            self.begin(store, uri, index)

    def progress(self, uri: str, number: int) -> IndexBuild | None:
        """A build that runs or waits here: how far it is."""
        return self._builds.get((uri, number))

    async def wait(self) -> None:
        """Return when no build is left."""
        while self._tasks:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def stop(self) -> None:
        """Cancel the builds; they go on where they are once they begin again. Stopping twice is no error."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, key: tuple[str, int]) -> None:
        try:
            async with self._turns:
                await self._builds[key].run()
        finally:
            del self._builds[key], self._tasks[key]


def building(store: DocumentStore) -> list[tuple[str, IndexDefinition]]:
    """The indexes of a partition that are being built, with their collections. Blocking. Errors: those of the store."""
    indexes: list[tuple[str, IndexDefinition]] = []
    after = ""
    while True:
        with store.view() as view:
            heads = view.heads(after=after, limit=_HEADS)
            for head in heads:
                if head.uri.endswith("~"):
                    indexes += [(head.uri, index) for index in view.indexes(head.uri) if index.state == "building"]
        if len(heads) < _HEADS:
            return indexes
        after = heads[-1].uri

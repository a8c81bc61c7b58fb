"""Shards that are worked off in this process, as the tasks of Spark do it."""

from __future__ import annotations

from headwater.core.errors import HeadwaterError
from headwater.documents.index.shard import IndexShard, ShardRows, cut_shards, index_shard
from headwater.documents.store import DocumentStore


class RunHere:
    """Three shards of ten items are cut at once. It ends at the first error, as a process does."""

    def __init__(self, store: DocumentStore, uri: str, number: int) -> None:
        self._store, self._uri, self._number = store, uri, number
        self._shards: list[IndexShard] = []
        self._after: str | None = None
        self.closed = False

    async def ready(self) -> bool:
        return True

    async def next(self, after: str) -> ShardRows | None:
        assert not self.closed
        self._after = after if self._after is None else self._after
        try:
            if not self._shards:
                self._shards = cut_shards(self._store, self._uri, self._number, after=self._after, limit=3, each=10)
            made = index_shard(self._store, self._shards.pop(0))
        except HeadwaterError:
            return None
        self._after = made.last
        return made

    async def aclose(self) -> None:
        self.closed = True


class ShardsHere:
    def __init__(self) -> None:
        self.runs: list[RunHere] = []

    async def begin(self, store: DocumentStore, uri: str, number: int, after: str) -> RunHere | None:
        self.runs.append(RunHere(store, uri, number))
        return self.runs[-1]

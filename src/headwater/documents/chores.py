"""Chores of an owner: removes rows of collections that were deleted, rows of dropped indexes, and the old end of the log."""

from __future__ import annotations

import asyncio

from headwater.core.clock import Clock
from headwater.core.timers import Timers
from headwater.documents.calls import DroppedIndexCall
from headwater.documents.named_loop import PartitionLoop
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.settings import DocumentSettings

_AT_ONCE = 1000  # rows of one transaction: writes wait no longer than that takes
_HEADS = 1000
_DAY = 86_400_000


class DocumentChores:
    """Looks after the partitions that this process owns. `loop`: its passes.

    Before the log is shortened, a verified base copy holds what goes (`OpenDocuments.bases`): without base copies it is kept for ever.
    `least`: so many records go at once, because verifying costs as much as reading all that is kept.
    """

    def __init__(
        self,
        documents: OpenDocuments,
        *,
        settings: DocumentSettings,
        clock: Clock,
        timers: Timers,
        least: int = 1000,
    ) -> None:
        self._documents, self._settings, self._clock, self._least = documents, settings, clock, least
        self._searched: set[int] = set()  # partitions whose indexes were looked through since they were taken
        self._dropping: dict[int, set[tuple[str, int]]] = {}
        self.loop = PartitionLoop("chores", documents.owned, self.look, period=int(settings.chores), timers=timers, clock=clock)

    def start(self) -> None:
        """Begin the loop. Starting twice is no error."""
        if self._drop not in self._documents.dropping:
            self._documents.dropping.append(self._drop)
            self._documents.activated.append(self._taken)
        self.loop.start()

    async def stop(self) -> None:
        """End the loop. Stopping twice is no error."""
        if self._drop in self._documents.dropping:
            self._documents.dropping.remove(self._drop)
            self._documents.activated.remove(self._taken)
        await self.loop.stop()

    async def look(self, number: int) -> None:
        """Do what is to be done in one partition. Errors: those of the log and the store."""
        store = self._documents.reads(number).store
        while await asyncio.to_thread(store.purge, _AT_ONCE) >= _AT_ONCE:
            continue
        if number not in self._searched:
            self._dropping.setdefault(number, set()).update(await asyncio.to_thread(self._deleting, number))
            self._searched.add(number)
        for uri, index in sorted(self._dropping.get(number, ())):
            while await asyncio.to_thread(store.remove_index_rows, uri, index, _AT_ONCE) >= _AT_ONCE:
                continue
            await self._documents.call_partition(number, DroppedIndexCall(uri, index))
            self._dropping[number].discard((uri, index))
        if self._settings.keep and self._documents.bases is not None:
            await asyncio.to_thread(self.shorten, number)

    def shorten(self, number: int) -> int:
        """Delete what the log has kept long enough, below what the store has durably; return its start. Blocking.

        Errors: those of `DocumentBases.write`: then nothing is deleted; those of the log and the store.
        """
        documents, reads = self._documents, self._documents.reads(number)
        partition, log, bases = documents.opened(number), documents.log, documents.bases
        start = log.bounds(documents.topic_name, number).start
        if partition is None or bases is None:
            return start
        oldest = self._clock.now_ms() - max(self._settings.keep, _DAY)  # idempotency keys are looked for during a day
        # The record before the applied offset stays: its mark tells which epoch the partition has there.
        offset = min(log.offset_at(documents.topic_name, number, max(0, oldest)), reads.store.checkpoint() - 1)
        if offset - start < self._least:
            return start
        bases.write_to(log, reads.store, reads.topic, number, offset)
        return partition.delete_before(offset)

    def _drop(self, number: int, uri: str, index: int) -> None:
        self._dropping.setdefault(number, set()).add((uri, index))

    def _taken(self, number: int) -> None:
        self._searched.discard(number)

    def _deleting(self, number: int) -> list[tuple[str, int]]:
        """The indexes that are being deleted, by another owner or by this process before it was restarted."""
        indexes: list[tuple[str, int]] = []
        after = ""
        while True:
            with self._documents.partition_view(number) as view:
                heads = view.heads(after=after, limit=_HEADS)
                for head in heads:
                    if head.uri.endswith("~"):
                        indexes += [(head.uri, index.number) for index in view.indexes(head.uri) if index.state == "deleting"]
            if len(heads) < _HEADS:
                return indexes
            after = heads[-1].uri

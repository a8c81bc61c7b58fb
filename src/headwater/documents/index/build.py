"""Builds an index in the background: rows of the items that were there before it, slice by slice in the order of their ids.

Writes go on meanwhile. The store keeps the row of every item that changes after the index came, and passes over the rows of such items
here, so that no row of an old body comes back. A build that was interrupted goes on behind the last slice that the log knows of.

    1. Read a slice of items behind the last one, at one moment of the store.
    2. Add their rows. The last slice says that the index is complete.
    3. Every so many slices, record how far it is.
    4. Record that the index is ready, or that it has failed, and why.

Where many items are left, steps 1 and 2 are those of shards that Spark works off (`shard`), until it ends or fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from headwater.core.clock import Clock
from headwater.core.document_errors import UnknownIndex
from headwater.core.errors import Closed, Conflict, HeadwaterError, NotOwner, Unavailable
from headwater.documents.change import IndexDefinition
from headwater.documents.index.shard import BuiltSlice, ShardRows, ShardRun, ShardSource, add_shard, building_index, rows_of_items
from headwater.documents.store import DocumentStore

SLICE: Final = 1000
_RECORDED: Final = 20  # slices between two records
_ASKED: Final = 100  # slices between two questions whether somebody else takes what is left
_PAUSE: Final = 15.0  # seconds after a failure that may pass
_MISSED: Final = 40  # pauses during which a new index may be durable and not applied
_logger = logging.getLogger("headwater.documents")


class IndexRecorder(Protocol):
    """Writes a definition of an index to the log, through the owner of its collection."""

    async def change_index(self, uri: str, number: int, change: Callable[[IndexDefinition], IndexDefinition]) -> bool:
        """Set what `change` makes of the newest definition. False: the index is gone, or is being deleted, and nothing was written.

        Errors: `NotOwner`, `Unavailable`, `Closed`.
        """
        ...


def build_slice(store: DocumentStore, uri: str, number: int, *, after: str = "", limit: int = SLICE) -> BuiltSlice | None:
    """Add the rows of some items behind an id. None: the index is ready, has failed or is being deleted. Blocking, in any thread.

    Errors: `UnknownIndex` where the store does not have it, or not yet; `Conflict` where the store was folded anew and lacks the rows of
    earlier items; those of the store. Doing it twice changes nothing.
    """
    with store.view() as view:
        definition, fold = building_index(view, uri, number), view.fold()
        if definition is None:
            return None
        items = view.rows(uri, low=f"{after}\0" if after else "", limit=limit)
    rows, unlike = rows_of_items(definition, items)
    done, last = len(items) < limit, items[-1].item if items else after
    store.add_index_rows(uri, number, rows, after=after, last=last, complete=done, fold=fold)
    return BuiltSlice(last, len(rows), unlike, done)


class IndexBuild:
    """The build of one index, from where it was. Belongs to the event loop; slices run in threads."""

    def __init__(
        self,
        store: DocumentStore,
        recorder: IndexRecorder,
        *,
        uri: str,
        index: IndexDefinition,
        clock: Clock,
        shards: ShardSource | None = None,
    ) -> None:
        """`shards`: who takes what is too much for this process."""
        self._store, self._recorder, self._clock, self._shards = store, recorder, clock, shards
        self.uri, self.number = uri, index.number
        self.built, self.rows, self.unlike = index.built, index.rows, index.unlike
        """How far it is."""
        self._seen = False
        self._missed = 0
        self._asked = -_ASKED
        self._slices = 0
        self._shard_run: ShardRun | None = None

    async def run(self) -> bool:
        """Build the index to its end; whether it is ready. False: it has failed, is gone, or another process goes on with it.

        A store or log that is away is waited for. Raises nothing of its own but cancellation.
        """
        try:
            return await self._whole()
        finally:
            await self._leave()

    async def _whole(self) -> bool:
        while True:
            try:
                return await self._run()
            except (Closed, NotOwner):
                return False
            except UnknownIndex:  # its record is durable and not applied yet; where the index was seen before, it is gone
                self._missed += 1
                if self._seen or self._missed > _MISSED:
                    return False
                await self._clock.sleep(_PAUSE)
            except Unavailable as error:
                _logger.warning("The build of index %d of %s waits: %s", self.number, self.uri, error)
                await self._clock.sleep(_PAUSE)
            except Exception as error:
                _logger.exception("The build of index %d of %s has failed.", self.number, self.uri)
                if await self._fail(str(error) if isinstance(error, HeadwaterError) else f"{type(error).__name__}: {error}"):
                    return False

    async def _run(self) -> bool:
        recorded = self._slices
        while True:
            try:
                built = await self._slice()
            except Conflict:  # the store was folded anew: the rows that were added to it before are in no record
                self.built, self.rows, self.unlike = "", 0, 0
                continue
            self._seen = True
            if built is None:
                return False
            self.built, self.rows, self.unlike = built.last, self.rows + built.rows, self.unlike + built.unlike
            if built.done:
                return await self._record(state="ready", built="")
            if self._slices - recorded >= _RECORDED:
                recorded = self._slices
                if not await self._record(built=self.built):
                    return False

    async def _slice(self) -> BuiltSlice | None:
        shard = await self._made_elsewhere()
        if shard is not None:
            self._slices += _RECORDED
            try:
                return await asyncio.to_thread(add_shard, self._store, self.uri, self.number, shard)
            except BaseException:
                await self._leave()  # its next shard lies behind one that is not there
                raise
        built = await asyncio.to_thread(build_slice, self._store, self.uri, self.number, after=self.built)
        self._slices += 1
        return built

    async def _made_elsewhere(self) -> ShardRows | None:
        """The next shard that somebody else has worked off; None: the next slice is to be done here."""
        if self._shards is None:
            return None
        if self._shard_run is None and self._slices - self._asked >= _ASKED:
            self._asked = self._slices
            self._shard_run = await self._shards.begin(self._store, self.uri, self.number, self.built)
        if self._shard_run is None or not await self._shard_run.ready():
            return None
        shard = await self._shard_run.next(self.built)
        if shard is None:
            await self._leave()
        return shard

    async def _leave(self) -> None:
        run, self._shard_run = self._shard_run, None
        if run is not None:
            await run.aclose()

    async def _record(self, **fields: Any) -> bool:
        rows, unlike = self.rows, self.unlike

        def change(index: IndexDefinition) -> IndexDefinition:
            return msgspec.structs.replace(index, rows=rows, unlike=unlike, **fields)

        return await self._recorder.change_index(self.uri, self.number, change)

    async def _fail(self, error: str) -> bool:
        """Record the failure. False: this, too, must be tried again."""
        try:
            await self._record(state="failed", error=error)
        except (Closed, NotOwner):
            return True
        except Unavailable:
            await self._clock.sleep(_PAUSE)
            return False
        return True

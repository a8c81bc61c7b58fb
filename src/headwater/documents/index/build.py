"""Builds an index in the background: rows of the items that were there before it, slice by slice in the order of their ids.

Writes go on meanwhile. The store keeps the row of every item that changes after the index came, and passes over the rows of such items
here, so that no row of an old body comes back. A build that was interrupted goes on behind the last slice that the log knows of.

    1. Read a slice of items behind the last one, at one moment of the store.
    2. Add their rows. The last slice says that the index is complete.
    3. Every so many slices, record how far it is.
    4. Record that the index is ready, or that it has failed, and why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from headwater.core.clock import Clock
from headwater.core.document_errors import UnknownIndex
from headwater.core.errors import Closed, Conflict, HeadwaterError, NotOwner, Unavailable
from headwater.documents.change import IndexDefinition
from headwater.documents.index.keys import index_keys
from headwater.documents.store import DocumentRow, DocumentStore, IndexRow
from headwater.wire import json

SLICE: Final = 1000
_RECORDED: Final = 20  # slices between two records
_PAUSE: Final = 15.0  # seconds after a failure that may pass
_MISSED: Final = 40  # pauses during which a new index may be durable and not applied
_logger = logging.getLogger("headwater.documents")
_decode = json.decoder(dict[str, Any])


class IndexRecorder(Protocol):
    """Writes a definition of an index to the log, through the owner of its collection."""

    async def change_index(self, uri: str, number: int, change: Callable[[IndexDefinition], IndexDefinition]) -> bool:
        """Set what `change` makes of the newest definition. False: the index is gone, or is being deleted, and nothing was written.

        Errors: `NotOwner`, `Unavailable`, `Closed`.
        """
        ...


class BuiltSlice(NamedTuple):
    """What a slice did. `last`: the last id that it has looked at. `done`: nothing is left."""

    last: str
    rows: int
    unlike: int
    done: bool


def build_slice(store: DocumentStore, uri: str, number: int, *, after: str = "", limit: int = SLICE) -> BuiltSlice | None:
    """Add the rows of some items behind an id. None: the index is ready, has failed or is being deleted. Blocking, in any thread.

    Errors: `UnknownIndex` where the store does not have it, or not yet; `Conflict` where the store was folded anew and lacks the rows of
    earlier items; those of the store. Doing it twice changes nothing.
    """
    with store.view() as view:
        definition = next((one for one in view.indexes(uri) if one.number == number), None)
        if definition is None:
            raise UnknownIndex(f"The store has no index {number} of {uri}.")
        if definition.state != "building":
            return None
        items = view.rows(uri, low=f"{after}\0" if after else "", limit=limit)
    keys = index_keys(definition)
    rows: list[IndexRow] = []
    unlike = 0
    for item in items:
        body = _body(item)
        key = None if body is None else keys.key(item.item, body)
        if key is not None and body is not None:
            rows.append(IndexRow(key, item.item))
            unlike += keys.unlike(body)
    done, last = len(items) < limit, items[-1].item if items else after
    store.add_index_rows(uri, number, rows, after=after, last=last, complete=done)
    return BuiltSlice(last, len(rows), unlike, done)


class IndexBuild:
    """The build of one index, from where it was. Belongs to the event loop; slices run in threads."""

    def __init__(self, store: DocumentStore, recorder: IndexRecorder, *, uri: str, index: IndexDefinition, clock: Clock) -> None:
        self._store, self._recorder, self._clock = store, recorder, clock
        self.uri, self.number = uri, index.number
        self.built, self.rows, self.unlike = index.built, index.rows, index.unlike
        """How far it is."""
        self._seen = False
        self._missed = 0

    async def run(self) -> bool:
        """Build the index to its end; whether it is ready. False: it has failed, is gone, or another process goes on with it.

        A store or log that is away is waited for. Raises nothing of its own but cancellation.
        """
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
                _logger.warning("index build waits", extra={"uri": self.uri, "index": self.number, "error": str(error)})
                await self._clock.sleep(_PAUSE)
            except Exception as error:
                _logger.exception("index build failed", extra={"uri": self.uri, "index": self.number})
                if await self._fail(str(error) if isinstance(error, HeadwaterError) else f"{type(error).__name__}: {error}"):
                    return False

    async def _run(self) -> bool:
        slices = 0
        while True:
            try:
                built = await asyncio.to_thread(build_slice, self._store, self.uri, self.number, after=self.built)
            except Conflict:  # the store was folded anew: the rows that were added to it before are in no record
                self.built, self.rows, self.unlike = "", 0, 0
                continue
            self._seen = True
            if built is None:
                return False
            self.built, self.rows, self.unlike = built.last, self.rows + built.rows, self.unlike + built.unlike
            slices += 1
            if built.done:
                return await self._record(state="ready", built="")
            if slices % _RECORDED == 0 and not await self._record(built=self.built):
                return False

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


def _body(row: DocumentRow) -> dict[str, Any] | None:
    try:
        return _decode(row.body)
    except json.UNREADABLE:
        return None

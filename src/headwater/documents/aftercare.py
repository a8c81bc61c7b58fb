"""Tells those who look after what was written: of times to live, and of indexes that go with their collection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from headwater.core.errors import HeadwaterError
from headwater.documents.calls import RedriveCall
from headwater.documents.commit import Request

if TYPE_CHECKING:
    from headwater.documents.change import IndexDefinition
    from headwater.documents.open_documents import OpenDocuments

Called = Callable[[str, Request], Coroutine[Any, Any, Any]]


class Aftercare:
    """Belongs to the event loop of its documents. They are told also where the caller has given up by then, or was told that the outcome is
    not known: the record may be there."""

    def __init__(self, documents: OpenDocuments, call: Called, begin: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        """`call`: calls the owner of a document or collection. `begin`: runs what the documents wait for before they close."""
        self._documents, self._call, self._begin = documents, call, begin
        self.expiring: list[Callable[[int, int], None]] = []
        self.dropping: list[Callable[[int, str, int], None]] = []

    async def called(self, uri: str, request: Request, ttl: int | None, *, ends: bool) -> Any:
        """The answer of a write. `ttl`: its time to live in ms. `ends`: it deletes a whole collection."""
        try:
            return await self._call(uri, request)
        except asyncio.CancelledError:
            if ttl is not None or ends:
                self._begin(self._later(uri, ttl, ends=ends))
            raise
        finally:
            self._tell(uri, ttl, ends=ends)

    async def ended(self, uri: str) -> None:
        """Tell of the indexes of a collection that are being deleted."""
        with suppress(HeadwaterError):  # then the next owner finds them
            for index in await asyncio.to_thread(self._indexes, uri):
                for callback in self.dropping if index.state == "deleting" else ():
                    callback(self._documents.partition_of(uri), uri, index.number)

    async def _later(self, uri: str, ttl: int | None, *, ends: bool) -> None:
        await asyncio.gather(self._call(uri, RedriveCall()), return_exceptions=True)  # it is done behind what was queued before
        self._tell(uri, ttl, ends=ends)

    def _tell(self, uri: str, ttl: int | None, *, ends: bool) -> None:
        documents = self._documents
        if ttl is not None and documents.partitions:
            for callback in self.expiring:
                callback(documents.partition_of(uri), documents.clock.now_ms() + ttl)
        if ends and self.dropping and not documents.closed:
            self._begin(self.ended(uri))

    def _indexes(self, uri: str) -> list[IndexDefinition]:
        with self._documents.view(uri) as view:
            return view.indexes(uri)

"""The views of one log: makes and deletes them, and mirrors those whose partitions this process owns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from headwater.core.document_errors import DocumentNotFound
from headwater.core.errors import AlreadyExists, Closed, Fenced, HeadwaterError, NotOwner
from headwater.core.spelling import meant
from headwater.documents.decisions import is_view
from headwater.documents.feed import DocumentFeeds
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.path import ResourcePath
from headwater.documents.store import DocumentHead
from headwater.documents.view import ViewDefinition, new_view, no_view, view_settings
from headwater.documents.view_mirror import ViewMirror
from headwater.documents.write import Draft

_logger = logging.getLogger("headwater.documents")
_PAGE = 1000
_AGAIN = 1.0  # seconds after which a mirror that failed is begun again


class MirroredViews:
    """Belongs to one event loop. `feeds` is called once there are documents."""

    def __init__(self, documents: OpenDocuments, feeds: Callable[[], DocumentFeeds]) -> None:
        self._documents, self._feeds = documents, feeds
        self._mirrors: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self) -> None:
        """Mirror the views of the partitions that this process has taken, and of those that it takes from now on."""
        self._documents.activated.append(self._taken)
        for number in self._documents.owned():
            self._taken(number)

    async def aclose(self) -> None:
        """Stop mirroring. The next owner goes on where this one ended."""
        if self._taken in self._documents.activated:
            self._documents.activated.remove(self._taken)
        tasks = [*self._mirrors.values(), *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def put(self, uri: str, definition: ViewDefinition) -> bool:
        """Make a view; whether it is new. Errors: those of `ViewDefinition.check`; `AlreadyExists` where there is another view, or an
        ordinary collection; `NotOwner`."""
        definition.check(uri)
        head, _ = await self._documents.read(ResourcePath(uri))
        if head is not None and not head.deleted and view_settings(head.settings).view is None:
            raise AlreadyExists(f"{uri} is a collection.", hint="Delete it first, or give the view another name.")
        made = await self._documents.change(uri, new_view(uri, definition))
        self._mirror(uri)
        return made is not None

    async def delete(self, uri: str) -> None:
        """Delete a view and what it shows; the documents stay. Errors: `DocumentNotFound`, `NotOwner`."""
        await self.definition(uri)
        mirror = self._mirrors.pop(uri, None)
        if mirror is not None:
            mirror.cancel()
            await asyncio.gather(mirror, return_exceptions=True)
        await self._documents.change(uri, no_view(uri))
        head, _ = await self._documents.read(ResourcePath(uri))
        if head is not None and not head.deleted:
            await self._documents.write(Draft(path=ResourcePath(uri), verb="delete"))

    async def definition(self, uri: str) -> tuple[ViewDefinition, int]:
        """A view and its revision. Errors: `DocumentNotFound`."""
        head, _ = await self._documents.read(ResourcePath(uri))
        definition = view_settings(head.settings).view if head is not None else None
        if head is None or definition is None:
            near = meant(uri, [view_uri for view_uri, _, _ in await self.all()])
            did = f"Did you mean {near}? " if near else ""
            raise DocumentNotFound(f"There is no view {uri}.", hint=f"{did}List them with `headwater doc view list`.")
        return definition, head.revision

    async def all(self) -> list[tuple[str, ViewDefinition, int]]:
        """Every view with its revision, by uri."""
        views: list[tuple[str, ViewDefinition, int]] = []
        for number in range(self._documents.partitions):
            for head in await asyncio.to_thread(self._views, number):
                definition = view_settings(head.settings).view
                if definition is not None:
                    views.append((head.uri, definition, head.revision))
        return sorted(views, key=lambda view: view[0])

    def _views(self, number: int) -> list[DocumentHead]:
        view_heads: list[DocumentHead] = []
        uri = ""
        while True:
            with self._documents.partition_view(number) as view:
                heads = view.heads(after=uri, limit=_PAGE)
            view_heads += [head for head in heads if head.settings and is_view(head.settings)]
            if len(heads) < _PAGE:
                return view_heads
            uri = heads[-1].uri

    # -- mirrors ----------------------------------------------------------------------------------------------

    def _taken(self, number: int) -> None:
        task = asyncio.ensure_future(self._begin(number))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _begin(self, number: int) -> None:
        for head in await asyncio.to_thread(self._views, number):
            self._mirror(head.uri)

    def _mirror(self, uri: str) -> None:
        running = self._mirrors.get(uri)
        if running is None or running.done():
            self._mirrors[uri] = asyncio.ensure_future(self._run(uri))

    async def _run(self, uri: str) -> None:
        """Mirror one view for as long as this process owns it."""
        number = self._documents.partition_of(uri)
        while (partition := self._documents.opened(number)) is not None:
            try:
                await ViewMirror(self._documents, self._feeds(), partition, uri).run()
                return
            except (NotOwner, Fenced, Closed) as error:
                if self._documents.opened(number) is partition:
                    _logger.warning("The view %s is not mirrored any more: %s", uri, error)
                    return
            except Exception as error:
                fault = not isinstance(error, HeadwaterError)
                _logger.warning("The view %s is mirrored again in a second: %s", uri, error, exc_info=fault)
                await self._documents.clock.sleep(_AGAIN)

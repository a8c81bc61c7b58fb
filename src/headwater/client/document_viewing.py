"""Performs the operations on views of documents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from headwater.core.document_errors import DocumentNotFound
from headwater.documents import index_requests
from headwater.documents.answers import ShownView
from headwater.documents.feed import DocumentFeeds
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.view import ViewDefinition
from headwater.documents.views import MirroredViews
from headwater.wire.operation import Reply


class DocumentViewing:
    """The views of the documents that `opened` gives. `feeds`: those of this process, once there are documents."""

    def __init__(self, opened: Callable[[], Awaitable[OpenDocuments]], feeds: Callable[[OpenDocuments], DocumentFeeds]) -> None:
        self._opened, self._feeds = opened, feeds
        self._views: MirroredViews | None = None

    async def start(self) -> None:
        """Mirror the views of the partitions that this process takes. Starting twice is no error."""
        if self._views is None:
            documents = await self._opened()
            self._views = MirroredViews(documents, lambda: self._feeds(documents))
            self._views.start()

    async def aclose(self) -> None:
        """Stop mirroring. Closing twice is no error."""
        views, self._views = self._views, None
        if views is not None:
            await views.aclose()

    async def view_list(self, request: index_requests.ListViews) -> list[ShownView]:
        return [_shown(uri, view, revision) for uri, view, revision in await (await self._mirrored()).all()]

    async def view_get(self, request: index_requests.ViewRequest) -> ShownView:
        """Errors: `DocumentNotFound`."""
        uri = request.collection()
        return _shown(uri, *await (await self._mirrored()).definition(uri))

    async def view_put(self, request: index_requests.PutView) -> Reply[ShownView]:
        """Errors: `AlreadyExists`, `BadInput`, `BadFilter`."""
        assert request.new is not None
        uri, views = request.collection(), await self._mirrored()
        definition = ViewDefinition(template_uri=request.new.template_uri, filter=request.new.filter)
        definition.check(uri)
        new = False if request.dry_run else await views.put(uri, definition)
        try:
            shown = _shown(uri, *await views.definition(uri))
        except DocumentNotFound:  # it would be new
            shown = _shown(uri, definition, 0)
        return Reply(shown, 201 if new else 200)

    async def view_delete(self, request: index_requests.DeleteView) -> None:
        """Errors: `DocumentNotFound`."""
        uri, views = request.collection(), await self._mirrored()
        await views.definition(uri)
        if not request.dry_run:
            await views.delete(uri)

    async def _mirrored(self) -> MirroredViews:
        await self.start()
        assert self._views is not None
        return self._views


def _shown(uri: str, view: ViewDefinition, revision: int) -> ShownView:
    return ShownView(path=uri, template_uri=view.template_uri, filter=view.filter, revision=revision)

"""The door to views: collections that mirror documents and items."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.client.backend import Backend
from headwater.documents import index_operations as ask
from headwater.documents import index_requests as requests
from headwater.documents.answers import ShownView
from headwater.documents.index_requests import ViewNew


class CollectionViews:
    """The views: `await hw.documents.views.put("cheap~", "shop/{*}", filter="price < 10")`. Errors: `BadPath`, `Unavailable`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def put(self, path: str, template: str, *, filter: str = "", dry_run: bool = False) -> ShownView:
        """Make a view of what a template names ({*} stands for one segment) and a filter accepts. Errors: `BadFilter`, `Conflict`."""
        request = requests.PutView(path=path, new=ViewNew(template_uri=template, filter=filter), dry_run=dry_run)
        return await self._backend.ask(ask.VIEW_PUT, request)

    async def list(self) -> Sequence[ShownView]:
        """Every view, by path."""
        return await self._backend.ask(ask.VIEW_LIST, requests.ListViews())

    async def get(self, path: str) -> ShownView:
        """A view: what it mirrors. Errors: `DocumentNotFound`."""
        return await self._backend.ask(ask.VIEW_GET, requests.ViewRequest(path=path))

    async def delete(self, path: str, *, dry_run: bool = False) -> None:
        """End a view, and delete its items. Errors: `DocumentNotFound`."""
        await self._backend.ask(ask.VIEW_DELETE, requests.DeleteView(path=path, dry_run=dry_run))

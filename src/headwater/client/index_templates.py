"""The door to templates of indexes."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.client.backend import Backend
from headwater.client.collection_indexes import sort_items
from headwater.documents import template_operations as ask
from headwater.documents import template_requests as requests
from headwater.documents.index_requests import HyperStorageIndexSortItem
from headwater.documents.template_requests import ShownTemplate, TemplateNew


class IndexTemplates:
    """Indexes of every collection whose path fits: `await hw.documents.templates.put("by-price", "shop/*~", sort="price:decimal")`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def put(
        self,
        index: str,
        template: str,
        *,
        sort: str | Sequence[HyperStorageIndexSortItem] = "",
        filter: str | None = None,
        materialize: bool = False,
        dry_run: bool = False,
    ) -> ShownTemplate:
        """Give every collection whose path fits this index, those that are there and those that come. In `template` * stands for any
        characters but a slash. The rest as of `collection.indexes.create`. Errors: `AlreadyExists`, `BadFilter`."""
        new = TemplateNew(template_uri=template, sort_by=sort_items(sort), filter_by=filter, materialize=materialize)
        return await self._backend.ask(ask.TEMPLATE_PUT, requests.PutTemplate(index=index, new=new, dry_run=dry_run))

    async def list(self) -> Sequence[ShownTemplate]:
        """Every template, by id."""
        return await self._backend.ask(ask.TEMPLATE_LIST, requests.ListTemplates())

    async def get(self, index: str) -> ShownTemplate:
        """A template. Errors: `UnknownIndex`."""
        return await self._backend.ask(ask.TEMPLATE_GET, requests.TemplateRequest(index=index))

    async def delete(self, index: str, *, dry_run: bool = False) -> None:
        """Take a template away; the indexes that it made stay. Errors: `UnknownIndex`."""
        await self._backend.ask(ask.TEMPLATE_DELETE, requests.DeleteTemplate(index=index, dry_run=dry_run))

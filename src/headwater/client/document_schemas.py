"""Performs the operations on schemas of collections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from headwater.documents import schema_requests
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.path import ResourcePath
from headwater.documents.schema.settings import new_schema, no_schema, read_schema, schema_in
from headwater.documents.schema_requests import ShownSchema
from headwater.wire.operation import Reply


class DocumentSchemas:
    """The schemas of the documents that `opened` gives."""

    def __init__(self, opened: Callable[[], Awaitable[OpenDocuments]]) -> None:
        self._opened = opened

    async def schema_get(self, request: schema_requests.SchemaRequest) -> ShownSchema:
        """Errors: `DocumentNotFound`."""
        uri = request.collection()
        return ShownSchema(path=uri, schema=msgspec.Raw(schema_in(await self._settings(uri), uri)))

    async def schema_put(self, request: schema_requests.PutSchema) -> Reply[ShownSchema]:
        """Errors: `BadInput`, `TooLarge`, `ViewModification`."""
        uri, schema = request.collection(), read_schema(request.body)
        new = b'"schema"' not in await self._settings(uri)
        if not request.dry_run:
            await (await self._opened()).change(uri, new_schema(uri, schema))
        shown = ShownSchema(path=uri, schema=msgspec.Raw(request.body.strip()))
        return Reply(shown, 201 if new and not request.dry_run else 200)

    async def schema_delete(self, request: schema_requests.DeleteSchema) -> None:
        """Errors: `DocumentNotFound`."""
        uri = request.collection()
        schema_in(await self._settings(uri), uri)
        if not request.dry_run:
            await (await self._opened()).change(uri, no_schema(uri))

    async def _settings(self, uri: str) -> bytes:
        head, _ = await (await self._opened()).read(ResourcePath(uri))
        return b"" if head is None else head.settings

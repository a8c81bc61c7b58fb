"""The door to the schema of a collection."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.client.backend import Backend
from headwater.documents import schema_operations as ask
from headwater.documents import schema_requests as requests
from headwater.wire import json


class CollectionSchema:
    """What the items of a collection must look like: `await shop.schema.put({"required": ["price"]})`. Errors: `BadPath`, `Unavailable`."""

    def __init__(self, backend: Backend, path: str) -> None:
        self._backend, self._path = backend, path

    async def put(self, schema: Any, *, dry_run: bool = False) -> None:
        """Give the collection a JSON Schema: from now on a write of an item that does not fit it is `UnfitBody`, which names the field.
        Items that are there stay. Errors: `BadInput` for what is no schema, or has a keyword that is not known; `ViewModification`."""
        await self._backend.ask(ask.SCHEMA_PUT, requests.PutSchema(path=self._path, body=json.encode(schema), dry_run=dry_run))

    async def get(self) -> Any:
        """The schema. Errors: `DocumentNotFound` where the collection has none."""
        answer = await self._backend.ask(ask.SCHEMA_GET, requests.SchemaRequest(path=self._path))
        return msgspec.json.decode(bytes(answer.schema))

    async def delete(self, *, dry_run: bool = False) -> None:
        """Take the schema away. Errors: `DocumentNotFound` where the collection has none."""
        await self._backend.ask(ask.SCHEMA_DELETE, requests.DeleteSchema(path=self._path, dry_run=dry_run))

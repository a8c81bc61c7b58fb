"""What is asked of the schemas of collections."""

from __future__ import annotations

import msgspec

from headwater.documents.index_requests import CollectionRequest
from headwater.wire.operation import DryRun


class SchemaRequest(CollectionRequest, frozen=True, kw_only=True):
    """A collection."""


class PutSchema(SchemaRequest, frozen=True, kw_only=True):
    """The schema of the body. `body`: JSON as it was sent."""

    dry_run: DryRun = False
    body: bytes = b""


class DeleteSchema(SchemaRequest, frozen=True, kw_only=True):
    """Whose schema."""

    dry_run: DryRun = False


class ShownSchema(msgspec.Struct, frozen=True, kw_only=True):
    """The schema that the items of a collection fit since it was given."""

    path: str
    schema: msgspec.Raw

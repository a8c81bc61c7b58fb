"""Tells the loops of an owner what follows from its writes: what expires, which collections begin, which indexes went with a collection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.documents.write import Draft, WrittenDocument

if TYPE_CHECKING:
    from headwater.documents.open_documents import OpenDocuments


async def tell_of_writes(documents: OpenDocuments, written: Sequence[WrittenDocument], drafts: Sequence[Draft]) -> None:
    """Tell of writes to one document or collection."""
    number, uri = written[0].partition, drafts[0].path.uri
    if lives := [draft.ttl for draft in drafts if draft.ttl is not None]:
        for expires in documents.expiring:
            expires(number, documents.clock.now_ms() + min(lives))
    if (first := next((one for one in written if one.begins), None)) is not None:
        tell_of_beginning(documents, first)
    if documents.dropping and any(draft.verb == "delete" and draft.path.is_collection for draft in drafts):
        for index in await asyncio.to_thread(_deleting, documents, uri):
            for drops in documents.dropping:
                drops(number, uri, index)


def tell_of_beginning(documents: OpenDocuments, written: WrittenDocument) -> None:
    """Tell of a collection that has begun with a write; of others nothing."""
    if written.begins:
        for begins in documents.beginning:
            begins(written.path.uri)


def _deleting(documents: OpenDocuments, uri: str) -> list[int]:
    """The indexes that were deleted with their collection, by number."""
    with documents.view(uri) as view:
        return [index.number for index in view.indexes(uri) if index.state == "deleting"]

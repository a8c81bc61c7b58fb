"""Tells the loops of an owner which collections begin with its writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.documents.write import WrittenDocument

if TYPE_CHECKING:
    from headwater.documents.open_documents import OpenDocuments


def tell_of_beginning(documents: OpenDocuments, *written: WrittenDocument) -> None:
    """Tell of a collection that has begun with one of the writes to it; of others nothing."""
    first = next((document for document in written if document.begins), None)
    if first is not None:
        for begins in documents.beginning:
            begins(first.path.uri)

"""A digest of a partition of documents as readers see it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from headwater.documents.store import ChangePlace, DocumentHead, DocumentRow, DocumentView, IndexRow
from headwater.wire import json

PAGE = 1000


def digest(view: DocumentView) -> str:
    """The digest of all heads, rows, places of changes, definitions, and rows of indexes that are ready.

    It is the same for any split of the records into calls, and before and after rows of an ended life are purged. Rows of an index that is
    being built or removed depend on how far that has gone, and are left out.
    """
    hashed = hashlib.sha256()
    for head in all_heads(view):
        hashed.update(json.encode(head))
        for row in all_rows(view, head.uri):
            hashed.update(json.encode(row))
        for place in all_changes(view, head.uri):
            hashed.update(json.encode(place))
        for definition in view.indexes(head.uri):
            hashed.update(json.encode(definition))
            if definition.state == "ready":
                for index_row in all_index_rows(view, head.uri, definition.number):
                    hashed.update(json.encode(index_row))
    return hashed.hexdigest()


def all_heads(view: DocumentView, prefix: str = "") -> Iterator[DocumentHead]:
    """Every document and collection, by uri."""
    after = ""
    while page := view.heads(prefix=prefix, after=after, limit=PAGE):
        yield from page
        after = page[-1].uri


def all_rows(view: DocumentView, uri: str) -> Iterator[DocumentRow]:
    """A document's row, or the items of a collection, by id."""
    if not uri.endswith("~"):
        row = view.row(uri)
        if row is not None:
            yield row
        return
    low = ""
    while page := view.rows(uri, low=low, limit=PAGE):
        yield from page
        low = page[-1].item + "\0"


def all_changes(view: DocumentView, uri: str) -> Iterator[ChangePlace]:
    """The place of every change, by revision."""
    after = 0
    while page := view.changes(uri, after=after, limit=PAGE):
        yield from page
        after = page[-1].revision


def all_index_rows(view: DocumentView, uri: str, index: int) -> Iterator[IndexRow]:
    """Every row of an index, by key, with its copy of the item where it has one."""
    low = b""
    while page := view.index_rows(uri, index, low=low, limit=PAGE, copies=True):
        yield from page
        low = page[-1].key + b"\0"

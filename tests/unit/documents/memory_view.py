"""A collection in memory that answers as a store's view does, and counts the reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headwater.documents.change import IndexDefinition
from headwater.documents.index.keys import index_keys
from headwater.documents.store import ChangePlace, DocumentHead, DocumentRow, DocumentView, IndexRow
from headwater.wire import json


class MemoryView(DocumentView):
    """One collection, whatever its uri."""

    def __init__(self, bodies: Mapping[str, Mapping[str, Any]], indexes: Sequence[IndexDefinition] = ()) -> None:
        self.items = {item: DocumentRow(item, json.encode(bodies[item]), 1, 1, 1) for item in sorted(bodies, key=str.encode)}
        self._indexes = list(indexes)
        self._rows = {
            index.number: sorted(
                IndexRow(key, item, self.items[item].body if index.materialize else b"")
                for item, body in bodies.items()
                if (key := index_keys(index).key(item, body)) is not None
            )
            for index in indexes
        }
        self.reads = 0

    def add_index_row(self, index: int, key: bytes, item: str, body: bytes) -> None:
        """A row that the item does not say."""
        self._rows[index] = sorted([*self._rows[index], IndexRow(key, item, body)])

    def applied(self) -> int:
        return 1

    def head(self, uri: str) -> DocumentHead | None:
        return DocumentHead(uri=uri, revision=1)

    def row(self, uri: str, item: str = "") -> DocumentRow | None:
        return self.items.get(item)

    def rows(self, uri: str, *, low: str = "", high: str | None = None, limit: int, reverse: bool = False) -> list[DocumentRow]:
        self.reads += 1
        rows = [
            row for item, row in self.items.items() if low.encode() <= item.encode() and (high is None or item.encode() < high.encode())
        ]
        return (rows[::-1] if reverse else rows)[:limit]

    def rows_of(self, uri: str, items: Sequence[str]) -> list[DocumentRow | None]:
        self.reads += 1
        return [self.items.get(item) for item in items]

    def count(self, uri: str, check: Callable[[], None] = lambda: None) -> int:
        return len(self.items)

    def indexes(self, uri: str) -> list[IndexDefinition]:
        return self._indexes

    def index_rows(
        self, uri: str, index: int, *, low: bytes = b"", high: bytes | None = None, limit: int, reverse: bool = False, copies: bool = False
    ) -> list[IndexRow]:
        self.reads += 1
        rows = [
            row if copies else row._replace(body=b"") for row in self._rows[index] if low <= row.key and (high is None or row.key < high)
        ]
        return (rows[::-1] if reverse else rows)[:limit]

    def changes(self, uri: str, *, after: int = 0, limit: int, reverse: bool = False) -> list[ChangePlace]:
        return []

    def heads(self, *, prefix: str = "", after: str = "", limit: int) -> list[DocumentHead]:
        return []

    def expiring(self, before: int, limit: int) -> list[tuple[str, str]]:
        return []

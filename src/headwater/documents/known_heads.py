"""Heads that an owner remembers from commit to commit: nobody else changes them, and asking the store is most of the cost of a decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headwater.documents.change import IndexDefinition
from headwater.documents.store import ChangePlace, DocumentHead, DocumentRow, DocumentView, IndexRow

_MOST = 10_000


class KnownHeads:
    """The heads of documents as of the offset that the store has applied, where that is the end of the log. Belongs to one thread."""

    def __init__(self) -> None:
        self._heads: dict[str, DocumentHead | None] = {}

    def over(self, view: DocumentView) -> DocumentView:
        """The view, which asks the store for no head that is known."""
        return _HeadsView(view, self._heads)

    def take(self, changed: Mapping[str, DocumentHead | None]) -> None:
        """These heads have changed, and the store has applied that."""
        if len(self._heads) > _MOST:
            self._heads.clear()
        self._heads.update(changed)

    def clear(self) -> None:
        """Ask the store again."""
        self._heads.clear()


class _HeadsView(DocumentView):
    def __init__(self, view: DocumentView, heads: dict[str, DocumentHead | None]) -> None:
        self._view, self._heads = view, heads

    def applied(self) -> int:
        return self._view.applied()

    def counted(self, uri: str) -> int:
        return self._view.counted(uri)

    def head(self, uri: str) -> DocumentHead | None:
        if uri not in self._heads:
            self._heads[uri] = self._view.head(uri)
        return self._heads[uri]

    def row(self, uri: str, item: str = "") -> DocumentRow | None:
        head = self.head(uri)
        return None if head is None or head.deleted else self._view.row(uri, item)

    def rows(self, uri: str, *, low: str = "", high: str | None = None, limit: int, reverse: bool = False) -> list[DocumentRow]:
        return self._view.rows(uri, low=low, high=high, limit=limit, reverse=reverse)

    def rows_of(self, uri: str, items: Sequence[str]) -> list[DocumentRow | None]:
        return self._view.rows_of(uri, items)

    def count(self, uri: str, check: Callable[[], None] = lambda: None) -> int:
        return self._view.count(uri, check)

    def indexes(self, uri: str) -> list[IndexDefinition]:
        return self._view.indexes(uri)

    def index_rows(
        self, uri: str, index: int, *, low: bytes = b"", high: bytes | None = None, limit: int, reverse: bool = False, copies: bool = False
    ) -> list[IndexRow]:
        return self._view.index_rows(uri, index, low=low, high=high, limit=limit, reverse=reverse, copies=copies)

    def changes(self, uri: str, *, after: int = 0, limit: int, reverse: bool = False) -> list[ChangePlace]:
        return self._view.changes(uri, after=after, limit=limit, reverse=reverse)

    def heads(self, *, prefix: str = "", after: str = "", limit: int) -> list[DocumentHead]:
        return self._view.heads(prefix=prefix, after=after, limit=limit)

    def expiring(self, before: int, limit: int) -> list[tuple[str, str]]:
        return self._view.expiring(before, limit)

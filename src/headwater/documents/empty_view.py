"""A partition without documents, for readers that come before the topic is created."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.documents.change import IndexDefinition
from headwater.documents.store import ChangePlace, DocumentHead, DocumentRow, DocumentView, IndexRow


class EmptyView(DocumentView):
    """Nothing is there."""

    def applied(self) -> int:
        return 0

    def head(self, uri: str) -> DocumentHead | None:
        return None

    def row(self, uri: str, item: str = "") -> DocumentRow | None:
        return None

    def rows(self, uri: str, *, low: str = "", high: str | None = None, limit: int, reverse: bool = False) -> list[DocumentRow]:
        return []

    def rows_of(self, uri: str, items: Sequence[str]) -> list[DocumentRow | None]:
        return [None] * len(items)

    def count(self, uri: str, check: Callable[[], None] = lambda: None) -> int:
        return 0

    def indexes(self, uri: str) -> list[IndexDefinition]:
        return []

    def index_rows(
        self, uri: str, index: int, *, low: bytes = b"", high: bytes | None = None, limit: int, reverse: bool = False, copies: bool = False
    ) -> list[IndexRow]:
        return []

    def changes(self, uri: str, *, after: int = 0, limit: int, reverse: bool = False) -> list[ChangePlace]:
        return []

    def heads(self, *, prefix: str = "", after: str = "", limit: int) -> list[DocumentHead]:
        return []

    def expiring(self, before: int, limit: int) -> list[tuple[str, str]]:
        return []

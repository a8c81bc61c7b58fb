"""Reads items of collections in pages that are bounded by their bytes, too."""

from __future__ import annotations

from headwater.documents.store import DocumentRow, DocumentView

_FIRST = 8  # items that are read before the size of any is known


class RowPages:
    """Reads one page after another. `most`: items of a page; `size`: bytes of bodies after which it ends, with one item at least.

    Only so many items are read at once as fit by the size of the largest ones before: of items of one kind, hardly more than a page is
    ever in memory.
    """

    def __init__(self, most: int, size: int) -> None:
        self._most, self._size, self._count = most, size, _FIRST

    def page(self, view: DocumentView, uri: str, after: str) -> tuple[list[DocumentRow], bool]:
        """The items behind an id (empty: from the first on), and whether they are the last ones. Errors: those of the store."""
        page: list[DocumentRow] = []
        size = 0
        while len(page) < self._most and size < self._size:
            limit = min(self._count, self._most - len(page))
            rows = view.rows(uri, low=f"{after}\0" if after else "", limit=limit)
            page += rows
            size += sum(len(row.body) for row in rows)
            if len(rows) < limit:
                return page, True
            after, largest = rows[-1].item, max(len(row.body) for row in rows)
            self._count = max(1, min(2 * self._count, self._most, self._size // max(1, largest)))
        return page, False

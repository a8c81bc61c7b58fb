"""Collects the rows of a page: those that come in order one by one, others by groups that are sorted in bounded memory."""

from __future__ import annotations

from typing import NamedTuple

from headwater.documents.store import DocumentRow, IndexRow

_ROOM = 64
PAGE_BYTES = 64 << 20  # of the bodies of a page: it is in memory as a whole, and so is its answer
ItemRow = DocumentRow | IndexRow
"""What has the id and the body of an item: its row, or that of a materialized index."""


class PlacedRow(NamedTuple):
    """A row and its key in the query's order."""

    key: bytes
    row: ItemRow


class PageCollector:
    """Keeps the first rows in the query's order, one more than a page has. `ordered`: rows come in this order already.

    Holds at most about twice as many rows as a page. A page above `PAGE_BYTES` is for its user to refuse.
    """

    def __init__(self, size: int, *, ordered: bool) -> None:
        self._most = size + 1
        self._ordered = ordered
        self._rows: list[PlacedRow] = []
        self._group: list[PlacedRow] = []
        self._begun: bytes | None = None
        self._size = 0  # bytes of the bodies that it holds

    def add(self, placed: PlacedRow, group: bytes) -> None:
        """Take a row. `group`: groups come in the query's order, the rows of one group in any."""
        self._size += len(placed.row.body)
        if self._ordered:
            self._rows.append(placed)
            return
        if group != self._begun:
            self._end_group()
            self._begun = group
        self._group.append(placed)
        if len(self._group) > 2 * self._most + _ROOM or self._size > PAGE_BYTES:
            self._trim()

    @property
    def too_large(self) -> bool:
        """Whether the rows that it must keep have more than `PAGE_BYTES`."""
        return self._size > PAGE_BYTES

    def full(self, size: int) -> bool:
        """Whether so many rows are certain."""
        return len(self._rows) >= size

    def finish(self) -> list[PlacedRow]:
        """The rows, in order; one more than a page has, where there are more."""
        self._end_group()
        return self._rows

    def _end_group(self) -> None:
        self._trim()
        self._rows.extend(self._group)
        self._group = []

    def _trim(self) -> None:
        self._group.sort(key=lambda placed: placed.key)
        kept = max(0, self._most - len(self._rows))
        self._size -= sum(len(placed.row.body) for placed in self._group[kept:])
        del self._group[kept:]

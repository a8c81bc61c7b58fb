"""The rows of a query's source, in its order: read in batches that grow, so that a page takes few reads and a scan not many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from headwater.documents.filter.ranges import AFTER, KeyRange
from headwater.documents.index.keys import index_keys
from headwater.documents.index.order import id_key
from headwater.documents.plan import QueryPlan, id_bounds
from headwater.documents.query_budget import QueryBudget
from headwater.documents.query_page import ItemRow
from headwater.documents.store import DocumentView, IndexRow
from headwater.wire import json

_GROWTH: Final = 4
_UNKNOWN: Final = 128  # rows that are read before the size of any is known
_MOST_BYTES: Final = 16 << 20  # of the bodies of one batch, by the size of those before it
_MOST_ROWS: Final = 20_000
_decode = json.decoder(dict[str, Any])


class ExaminedRow(NamedTuple):
    """A row, of the collection or of an index with its copy; and its body: None where that is no object, which no query returns."""

    row: ItemRow
    body: Mapping[str, Any] | None


class QuerySource:
    """Reads the rows of a plan. `first`: how many at first. `needs_body`: bodies are decoded."""

    def __init__(self, view: DocumentView, plan: QueryPlan, budget: QueryBudget, *, first: int, needs_body: bool = True) -> None:
        self._view, self._plan, self._budget = view, plan, budget
        self._needs_body = needs_body
        self._first = first
        self._limit = min(first, _UNKNOWN)
        self._ranges = list(plan.ranges if plan.fit.reverse else reversed(plan.ranges))
        self._items = plan.items if plan.fit.index is None else []
        self._bytes = self._count = 0
        self._seen = set[str]()
        self.copied = plan.fit.index is not None and plan.fit.index.materialize
        """All bodies so far were copies in the index."""
        self.exhausted = not plan.ranges
        """Nothing is left behind what was read."""
        self.waiting = 0
        """Rows that were read and are not handed out yet."""

    def rows(self) -> Iterator[ExaminedRow]:
        """The rows in the order of the source. Errors: those of `QueryBudget.read`."""
        while not self.exhausted:
            batch = self._batch()
            self.waiting = len(batch)
            for examined in batch:
                self.waiting -= 1
                yield examined
            self._limit = self._next_limit()

    def _next_limit(self) -> int:
        """More than last time; fewer where bodies are large, or where the query may pass over fewer."""
        by_bytes = _MOST_BYTES * max(self._count, 1) // max(self._bytes, 1)
        budget = self._budget
        by_budget = budget.skip_max - budget.skipped + self._first if budget.limited else _MOST_ROWS
        return max(1, min(self._limit * _GROWTH, _MOST_ROWS, by_bytes, by_budget))

    def _batch(self) -> list[ExaminedRow]:
        read = self._named if self._items else self._direct if self._plan.fit.index is None else self._by_index
        rows = read()
        for examined in rows:
            self._bytes += len(examined.row.body)
        self._count += len(rows)
        return rows

    def _named(self) -> list[ExaminedRow]:
        self._budget.read()
        self.exhausted = True
        items = self._items[::-1] if self._plan.fit.reverse else self._items
        return [ExaminedRow(row, decode_body(row)) for row in self._view.rows_of(self._budget.uri, items) if row is not None]

    def _direct(self) -> list[ExaminedRow]:
        self._budget.read()
        bounds, reverse = self._ranges.pop(), self._plan.fit.reverse
        low, high = id_bounds(bounds)
        rows = self._view.rows(self._budget.uri, low=low, high=high, limit=self._limit, reverse=reverse)
        if len(rows) == self._limit:
            last = id_key(rows[-1].item)
            self._ranges.append(KeyRange(bounds.low, last) if reverse else KeyRange(last + AFTER, bounds.high))
        self.exhausted = not self._ranges
        return [ExaminedRow(row, decode_body(row) if self._needs_body else {}) for row in rows]

    def _by_index(self) -> list[ExaminedRow]:
        index, reverse, uri = self._plan.fit.index, self._plan.fit.reverse, self._budget.uri
        assert index is not None
        self._budget.read()
        low, high = self._ranges.pop()
        copies = index.materialize
        places = self._view.index_rows(uri, index.number, low=low, high=high, limit=self._limit, reverse=reverse, copies=copies)
        if len(places) == self._limit:
            last = places[-1].key
            self._ranges.append(KeyRange(low, last) if reverse else KeyRange(last + AFTER, high))
        self.exhausted = not self._ranges
        if not places:
            return []
        if copies and all(place.body for place in places):
            return self._copies(places)
        self.copied = False
        self._budget.read()
        keys = index_keys(index)
        rows: list[ExaminedRow] = []
        for place, row in zip(places, self._view.rows_of(uri, [place.item for place in places]), strict=True):
            # A store whose answers are not of one moment may hold the row of an older body: the item's own row stands elsewhere.
            body = None if row is None else decode_body(row)
            if row is not None and body is not None and keys.key(place.item, body) == place.key:
                rows.append(ExaminedRow(row, body))
        return rows

    def _copies(self, places: list[IndexRow]) -> list[ExaminedRow]:
        """The items of a materialized index. A store whose answers are not of one moment may hold the rows of an older and a newer body:
        the first counts."""
        rows = []
        for place in places:
            if place.item not in self._seen:
                self._seen.add(place.item)
                rows.append(ExaminedRow(place, decode_body(place) if self._needs_body else {}))
        return rows


def decode_body(row: ItemRow) -> Mapping[str, Any] | None:
    """The body of a row; None where it is no object."""
    try:
        return _decode(row.body)
    except json.UNREADABLE:
        return None

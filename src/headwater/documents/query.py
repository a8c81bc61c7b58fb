"""Queries of collections: filter, order, pages and counts, from an index or from the collection itself. The answer is the same from both.

Blocking, for a thread that may read the store; no query takes longer than its limits say.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import msgspec

from headwater.core.clock import Clock
from headwater.core.document_errors import SkippedRowsLimited
from headwater.core.errors import BadInput, TooLarge
from headwater.documents.filter.evaluate import Filter, Verdict, compile_filter
from headwater.documents.index.choose import QueryShape, SourceChoice, SourceFit, choose, query_shape
from headwater.documents.index.definition import IndexAdvice
from headwater.documents.index.order import ID, order_key, parse_order
from headwater.documents.plan import QueryPlan, make_plan, split_key
from headwater.documents.query_advice import advice, helpful_index
from headwater.documents.query_budget import QueryBudget, QueryLimits
from headwater.documents.query_cursor import decode_cursor, encode_cursor
from headwater.documents.query_page import PAGE_BYTES, ItemRow, PageCollector, PlacedRow
from headwater.documents.query_source import ExaminedRow, QuerySource, decode_body
from headwater.documents.store import DocumentView

_AT_FIRST = 500  # rows of the first batch of a sort in memory
_FEW = 1000  # rows of an index that are sorted in memory rather than to test every item of the collection


class CollectionQuery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked of a collection. `size`, `skip_max`: None for the limits' own."""

    size: int | None = None
    filter: str = ""
    sort: str = ""
    skip_max: int | None = None
    cursor: str = ""
    count: bool = False


class QueryExplanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a query was answered."""

    index: str | None
    """None: the collection itself."""
    bodies: Literal["collection", "index"]
    """Where the items were read. An index that is materialized holds copies."""
    filter: str
    order: str
    rows_read: int
    rows_rejected: int
    rows_failed: int
    """Of the rejected ones: those for which the filter has no value."""
    reads: int
    skip_max: int | None
    """None: the rows are not limited, because those that the filter accepts are counted."""
    skip_left: int | None
    others: dict[str, str]
    """Why not the other indexes."""
    helpful_index: IndexAdvice | None
    """The index that would serve the query better."""


class QueryPage(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a collection, as they are stored. `cursor`: of the next page; empty where nothing follows. `total`: of all pages."""

    rows: list[ItemRow]
    cursor: str
    explanation: QueryExplanation
    total: int | None = None


def run_query(view: DocumentView, uri: str, query: CollectionQuery, *, clock: Clock, limits: QueryLimits) -> QueryPage:
    """One page of a collection. A page that is not full is the last one; a full one may be.

    Errors: `BadFilter`, `BadInput` (a size, a cursor), `SkippedRowsLimited`, `QueryCountLimited`, `QueryTimeout`, `TooLarge`.
    """
    return _QueryRun(view, uri, query, clock=clock, limits=limits).page()


class _QueryRun:
    def __init__(self, view: DocumentView, uri: str, query: CollectionQuery, *, clock: Clock, limits: QueryLimits) -> None:
        self._view, self._uri, self._query = view, uri, query
        self._size = _within("size", limits.size if query.size is None else query.size, 1, limits.most_size)
        skip_max = _within("skipMax", limits.skip_max if query.skip_max is None else query.skip_max, 0, None)
        self._filter = _filter(query.filter)
        self._shape = _shape(query.filter, query.sort)
        self._after = decode_cursor(uri, query.filter, query.sort, query.cursor) if query.cursor else b""
        if self._after:
            split_key(self._shape.order, self._after)
        self._budget = QueryBudget(limits, clock, uri=uri, skip_max=skip_max, advice=lambda: advice(self._shape, uri))
        # A count passes over all rows in any case.
        self._lifted = query.count and self._filter is not None and query.skip_max is None
        self._budget.limited = not self._lifted

    def page(self) -> QueryPage:
        choice = choose(self._shape, self._view.indexes(self._uri))
        placed, more, plan = self._attempts(choice)
        budget = self._budget
        examined, rejected, failed, reads = budget.examined, budget.rejected, budget.failed, budget.reads
        left = max(0, budget.skip_max - budget.skipped)
        total = self._total(choice.fits[0]) if self._query.count else None
        page_rows = placed[: self._size]
        more = more or len(placed) > self._size
        cursor = self._cursor(page_rows[-1]) if more and page_rows else ""
        explanation = QueryExplanation(
            index=None if plan.fit.index is None else plan.fit.index.id,
            bodies="index" if self._source.copied else "collection",
            filter=_filter_words(plan.fit, self._filter),
            order=_order_words(plan, self._shape),
            rows_read=examined,
            rows_rejected=rejected,
            rows_failed=failed,
            reads=reads,
            skip_max=None if self._lifted else budget.skip_max,
            skip_left=None if self._lifted else left,
            others=_others(choice, plan.fit),
            helpful_index=None if plan.fit.ordered and not rejected else helpful_index(self._shape),
        )
        return QueryPage(rows=[each.row for each in page_rows], cursor=cursor, explanation=explanation, total=total)

    def _attempts(self, choice: SourceChoice) -> tuple[list[PlacedRow], bool, QueryPlan]:
        """The page by the best source; where this passes over too many rows, by the best that has the order if this one has not, or by
        the best that must be sorted: without counts of values nobody knows which is less."""
        first = self._small(choice) or choice.fits[0]
        plan = make_plan(self._shape, first, self._after)
        try:
            return *self._collect(plan), plan
        except SkippedRowsLimited:
            other_fit = next((fit for fit in choice.fits if fit.ordered != first.ordered and (fit.ordered or fit.narrow)), None)
            if other_fit is None:
                raise
            self._budget.begin()
            plan = make_plan(self._shape, other_fit, self._after)
            return *self._collect(plan), plan

    def _small(self, choice: SourceChoice) -> SourceFit | None:
        """An index with few rows for the filter, where the best source by its order would test every item of the collection."""
        narrow = (fit for fit in choice.fits if fit.index is not None and (fit.pinned or fit.ranged))
        fit = None if choice.fits[0].narrow or self._filter is None else next(narrow, None)
        if fit is None or fit.index is None:
            return None
        left = _FEW + 1
        for low, high in make_plan(self._shape, fit, self._after).ranges:
            self._budget.read()
            left -= len(self._view.index_rows(self._uri, fit.index.number, low=low, high=high, limit=left))
            if left <= 0:
                return None
        return fit

    def _collect(self, plan: QueryPlan) -> tuple[list[PlacedRow], bool]:
        """The rows of the page, one more where it is known; and whether more may follow."""
        budget, ordered = self._budget, plan.fit.ordered
        collector = PageCollector(self._size, ordered=ordered)
        order, group = self._shape.order, plan.group
        keyed = not ordered or bool(self._after)
        by_id = order[0].names == ID and plan.fit.index is None
        needs_body = self._filter is not None or (keyed and not by_id)
        source = self._source = QuerySource(self._view, plan, budget, first=self._first(plan), needs_body=needs_body)
        for examined in source.rows():
            body = self._accepted(examined)
            if body is not None:
                # Rows that come in order need no keys, except the last one for its cursor.
                key = b"" if ordered and not self._after else order_key(order, examined.row.item, body)
                if key > self._after or not self._after:
                    budget.returned = min(budget.returned + 1, self._size)
                    collector.add(PlacedRow(key, examined.row), b"" if ordered else order_key(group, examined.row.item, body))
                    if collector.too_large:
                        raise TooLarge(
                            f"A page of {self._size} items of {self._uri} has more than {PAGE_BYTES >> 20} MiB.",
                            hint="Ask for fewer with a smaller `size`, and then for the next page.",
                        )
            if collector.full(self._size + 1):
                return collector.finish(), True
            if collector.full(self._size) and not source.waiting:
                return collector.finish(), not source.exhausted
            if budget.spent():
                if collector.full(self._size):
                    return collector.finish(), True
                if source.waiting or not source.exhausted:
                    raise budget.refuse()
        return collector.finish(), False

    def _cursor(self, last: PlacedRow) -> str:
        key = last.key or order_key(self._shape.order, last.row.item, decode_body(last.row) or {})
        return encode_cursor(self._uri, self._query.filter, self._query.sort, key)

    def _total(self, fit: SourceFit) -> int:
        """How many items the filter accepts, on all pages: limited by the time alone."""
        budget, page = self._budget, self._source
        if self._filter is None:
            return self._view.count(self._uri, budget.check_time)
        if not self._after and page.exhausted and not page.waiting:
            return budget.examined - budget.rejected
        budget.begin()
        budget.limited = False
        source = QuerySource(self._view, make_plan(self._shape, fit), budget, first=_AT_FIRST)
        return sum(self._accepted(examined) is not None for examined in source.rows())

    def _accepted(self, examined: ExaminedRow) -> Any:
        """The body of a row that the filter accepts, else None. Counts the row."""
        budget = self._budget
        budget.examined += 1
        budget.check_time()
        if examined.body is None:
            verdict = Verdict.FAILED
        elif self._filter is None:
            return examined.body
        else:
            verdict = self._filter.verdict(examined.body)
        if verdict is Verdict.ACCEPTED:
            return examined.body
        budget.rejected += 1
        budget.failed += verdict is not Verdict.REJECTED
        return None

    def _first(self, plan: QueryPlan) -> int:
        """The rows of the first batch: about those of the page, where the source has the order, or the fields at its head."""
        if not plan.fit.ordered and not plan.group:
            return max(_AT_FIRST, self._size + 1)
        rest = self._filter is not None and not plan.fit.narrow
        return (2 * self._size if rest else self._size) + (1 if plan.fit.ordered else 2)


def _filter(text: str) -> Filter | None:
    return compile_filter(text) if text.strip() else None


@lru_cache(maxsize=256)  # pages of one query follow each other
def _shape(filter_text: str, sort: str) -> QueryShape:
    compiled_filter = _filter(filter_text)
    return query_shape(None if compiled_filter is None else compiled_filter.tree, parse_order(sort))


def _within(name: str, number: int, least: int, most: int | None) -> int:
    if number < least or (most is not None and number > most):
        raise BadInput(f"The {name} is {number}.", hint=f"Give {least} {'or more' if most is None else f'to {most}'}.")
    return number


def _filter_words(fit: SourceFit, query: Filter | None) -> str:
    if query is None:
        return "none"
    bounds = f"; {fit.pinned} fields pinned" if fit.pinned else ""
    bounds += "; a range of the next field" if fit.ranged else ""
    words: dict[str, str] = {
        "equal": "the index holds exactly the items that the filter accepts",
        "implied": "the index holds all items that the filter accepts, and others",
        "all": "every row is tested",
    }
    return words[fit.match] + bounds


def _order_words(plan: QueryPlan, shape: QueryShape) -> str:
    direction = ", read backwards" if plan.fit.reverse else ""
    if plan.fit.ordered:
        return f"as the rows are stored{direction}"
    if plan.group:
        return f"groups of equal {', '.join(field.text for field in plan.group)} are sorted in memory{direction}"
    return f"all rows are sorted in memory by {', '.join(field.text for field in shape.order)}"


def _others(choice: SourceChoice, chosen: SourceFit) -> dict[str, str]:
    reasons = dict(choice.unfit)
    for fit in choice.fits:
        if fit.index is not None and fit is not chosen:
            fewer = ", and that has few rows for the filter" if fit.weight > chosen.weight else ""
            reasons[fit.index.id] = f"It fits less well: weight {fit.weight}, the chosen source {chosen.weight}{fewer}."
    return reasons

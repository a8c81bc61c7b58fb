"""What tests of queries stand on."""

from __future__ import annotations

import random
from typing import Any

from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.query import CollectionQuery, QueryPage, run_query
from headwater.documents.query_budget import QueryLimits
from headwater.documents.store import DocumentView
from headwater.testing.clock import ManualClock
from headwater.testing.filter_samples import random_item

LIMITS = QueryLimits(max_reads=1000)


def ask(view: DocumentView, limits: QueryLimits = LIMITS, **query: Any) -> QueryPage:
    return run_query(view, "c~", CollectionQuery(**query), clock=ManualClock(), limits=limits)


def ids(page: QueryPage) -> list[str]:
    return [row.item for row in page.rows]


def index(number: int, *fields: str, filter_by: str = "", name: str = "") -> IndexDefinition:
    sort_by = tuple(SortField(field.lstrip("-"), "desc" if field.startswith("-") else "asc") for field in fields)
    return IndexDefinition(id=name or f"i{number}", number=number, sort_by=sort_by, filter_by=filter_by, state="ready")


def numbered(count: int, **indexes: Any) -> dict[str, dict[str, Any]]:
    return {f"{number:05d}": {"id": f"{number:05d}", "a": number % 100, "b": number} for number in range(count)}


def random_collection(generator: random.Random) -> dict[str, dict[str, Any]]:
    names = [f"{generator.choice('abcz')}{number}" for number in range(generator.randrange(25))]
    return {name: random_item(generator, name) for name in [*names, *("a", "ab", "z")[: generator.randrange(4)]]}


def pages(view: DocumentView, **query: Any) -> list[list[str]]:
    found: list[list[str]] = []
    cursor = ""
    while True:
        page = ask(view, cursor=cursor, **query)
        found.append(ids(page))
        cursor = page.cursor
        if not cursor:
            return found

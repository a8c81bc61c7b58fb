"""The budget of a query: what is counted, and what its errors say."""

from __future__ import annotations

import pytest

from headwater.core.document_errors import QueryCountLimited, QueryTimeout
from headwater.documents.query_budget import QueryBudget, QueryLimits
from headwater.testing.clock import ManualClock


def test_reads_and_time_are_limited_and_rows_are_counted() -> None:
    clock = ManualClock()
    budget = QueryBudget(QueryLimits(max_reads=2, seconds=1.0), clock, uri="a~", skip_max=3, advice=lambda: "Do this.")
    budget.read(2)
    budget.examined, budget.returned = 5, 2
    assert not budget.spent()
    budget.examined = 6
    assert budget.spent()
    assert "passes over more than 3 rows" in budget.refuse().message
    with pytest.raises(QueryCountLimited, match="more than 2 reads") as caught:
        budget.read()
    assert caught.value.hint == "Do this."
    assert "6 rows read in 2 reads, 2 of them fit" in caught.value.message
    clock.advance(1.0)
    with pytest.raises(QueryTimeout, match="longer than 1 s"):
        budget.check_time()
    budget.begin()
    assert (budget.examined, budget.skipped, budget.reads) == (0, 0, 2)

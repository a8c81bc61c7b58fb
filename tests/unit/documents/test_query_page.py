"""Pages: the first rows, from groups in any order, in bounded memory."""

from __future__ import annotations

import random

import pytest

from headwater.documents.query_page import PageCollector, PlacedRow
from headwater.documents.store import DocumentRow


def placed(number: int) -> PlacedRow:
    return PlacedRow(b"%06d" % number, DocumentRow(str(number), b"{}", 1, 1, 1))


def test_rows_that_come_in_order_are_kept() -> None:
    collector = PageCollector(2, ordered=True)
    for number in range(3):
        assert not collector.full(3)
        collector.add(placed(number), b"")
    assert collector.full(3)
    assert [row.key for row in collector.finish()] == [b"000000", b"000001", b"000002"]


@pytest.mark.parametrize("groups", [1, 7, 1000])
def test_rows_of_groups_are_sorted(groups: int) -> None:
    generator = random.Random(groups)
    numbers = list(range(1000))
    generator.shuffle(numbers)
    numbers.sort(key=lambda number: number * groups // 1000)
    collector = PageCollector(20, ordered=False)
    for number in numbers:
        collector.add(placed(number), b"%d" % (number * groups // 1000))
    assert [row.key for row in collector.finish()][:21] == [b"%06d" % number for number in range(21)]

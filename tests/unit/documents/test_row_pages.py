"""Pages of items, bounded by their number and their bytes."""

from __future__ import annotations

from typing import Any

from tests.unit.documents.memory_view import MemoryView

from headwater.documents.row_pages import RowPages
from headwater.documents.store import DocumentRow


class Watched(MemoryView):
    """Notes how many bytes each read takes."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__({f"{number:04}": {"x": "y" * size} for number, size in enumerate(sizes)})
        self.taken: list[int] = []

    def rows(self, *args: Any, **rest: Any) -> list[DocumentRow]:
        rows = super().rows(*args, **rest)
        self.taken.append(sum(len(row.body) for row in rows))
        return rows


def pages(view: Watched, most: int, size: int) -> list[list[str]]:
    reader, found, after, ended = RowPages(most, size), list[list[str]](), "", False
    while not ended:
        rows, ended = reader.page(view, "c~", after)
        found.append([row.item for row in rows])
        after = rows[-1].item if rows else after
    return found


def test_small_items_come_as_many_as_a_page_has() -> None:
    view = Watched([1] * 25)
    assert [len(page) for page in pages(view, 10, 10_000)] == [10, 10, 5]
    assert [item for page in pages(view, 7, 10_000) for item in page] == list(view.items)


def test_large_items_end_a_page() -> None:
    view = Watched([1000] * 30)
    found = pages(view, 20, 3000)
    assert [item for page in found for item in page] == list(view.items)
    assert max(map(len, found)) == 8, "the first ones, before their size is known"
    assert [len(page) for page in found[1:-1]] == [4] * (len(found) - 2), "two reads of those that fit"
    assert max(view.taken[1:]) < 3000


def test_a_page_without_items_is_the_last_one() -> None:
    assert pages(Watched([]), 10, 100) == [[]]
    assert pages(Watched([1] * 10), 10, 100_000) == [[f"{number:04}" for number in range(10)], []]


def test_one_item_that_is_larger_than_a_page_comes_alone() -> None:
    assert [len(page) for page in pages(Watched([5000] * 12), 10, 100)] == [8, 1, 1, 1, 1, 0]

"""Pages of large rows end early, and whoever goes on reading gets all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.client.queue_ground import queues_over

from headwater.queue import listing, scan
from headwater.queue.listing import find_dead, find_rows
from headwater.queue.settings import QueueSettings
from headwater.queue.values import DeadRow, Row
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each page has had."""
    sizes: list[int] = []

    def rows(*given: object, **named: object) -> tuple[list[Row], int]:
        sizes.append(len((found := find_rows(*given, **named))[0]))  # type: ignore[arg-type]
        return found

    def dead(*given: object, **named: object) -> tuple[list[DeadRow], int]:
        sizes.append(len((found := find_dead(*given, **named))[0]))  # type: ignore[arg-type]
        return found

    monkeypatch.setattr(listing, "MOST_SHOWN", 7000)
    monkeypatch.setattr(scan, "MOST_SHOWN", 7000)
    monkeypatch.setattr("headwater.queue.queue.find_rows", rows)
    monkeypatch.setattr("headwater.queue.queue.find_dead", dead)
    return sizes


@pytest.mark.parametrize("kind", ["directory", "http"])
async def test_large_rows_come_in_pages_that_fit_into_memory(tmp_path: Path, kind: str, pages: list[int]) -> None:
    async with queues_over(tmp_path / "data", kind, ManualClock()) as queues:
        queue = await queues("pages", create=QueueSettings())
        for number in range(8):
            await queue.put(f"{number}", f"{number}" * 3000)
        assert [(row.key, row.data) async for row in queue.rows()] == [(f"{number}", f"{number}" * 3000) for number in range(8)]
        assert pages == [3, 3, 2]
        assert [row.key async for row in queue.rows(limit=4)] == ["0", "1", "2", "3"]
        pages.clear()
        for claim in await queue.claim(8, wait="0s"):
            await claim.fail("no", give_up=True)
        assert [(dead.key, dead.data) for dead in await queue.dead()] == [(f"{number}", f"{number}" * 3000) for number in range(8)]
        assert pages == [3, 3, 2]

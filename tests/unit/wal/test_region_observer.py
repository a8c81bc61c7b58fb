from __future__ import annotations

import pytest
from tests.unit.wal.conftest import OpenRegion

from headwater.wal.region_observer import RegionObserver

pytestmark = pytest.mark.anyio


async def test_marks_drops_and_snapshots_are_told_and_no_mark_that_changes_nothing(opened: OpenRegion) -> None:
    told: list[object] = []

    class Told(RegionObserver):
        def marked(self) -> None:
            told.append("marked")

        def dropped(self) -> None:
            told.append("dropped")

        def stored(self, size: int, seconds: float) -> None:
            told.append(size > 0 and seconds > 0)

    region = await opened()
    await region.write(1, [b"a", b"b"])
    region.observer = Told()
    await region.mark_delete_up_to(1, 1)
    await region.mark_delete_up_to(1, 1)
    await region.snapshot()
    await region.drop_table(1)
    assert told == ["marked", True, "dropped"]

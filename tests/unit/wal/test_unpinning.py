from __future__ import annotations

import pytest
from tests.unit.wal.conftest import TOPICS, OpenRegion

from headwater.log.embedded.log import EmbeddedLog
from headwater.wal.region_meta import RegionMeta
from headwater.wal.unpinning import tables_to_move

pytestmark = pytest.mark.anyio


async def test_the_first_tables_that_free_enough_are_moved(log: EmbeddedLog, opened: OpenRegion) -> None:
    region = await opened()

    def chosen(limit: int) -> list[int]:
        return tables_to_move(log, TOPICS, region.look(RegionMeta.copied), limit)

    assert chosen(0) == []
    await region.write(8, [b"a"])
    await region.write(9, [b"b"])
    assert chosen(0) == []  # all that is there are their own payloads
    for turn in range(1, 3):
        for _ in range(10):
            await region.write(1, [b"x" * 100])
        await region.mark_delete_up_to(1, 10 * turn)
        await region.write(turn, [b"y"]) if turn == 2 else None
    assert chosen(1000) == [8, 9]
    assert chosen(10_000) == []

from __future__ import annotations

import asyncio

import pytest

from headwater.wal.region_gates import RegionGates

pytestmark = pytest.mark.anyio


async def test_one_after_the_other_for_a_region_and_nothing_is_kept() -> None:
    gates, order = RegionGates(), list[str]()

    async def enters(region: int, name: str) -> None:
        async with gates.alone(region):
            order.append(f"{name} in")
            await asyncio.sleep(0)
            order.append(f"{name} out")

    waiting = asyncio.create_task(enters(1, "given up"))
    async with gates.alone(1):
        others = asyncio.gather(enters(1, "a"), enters(1, "b"))
        await enters(2, "other")
        waiting.cancel()
        assert len(gates) == 1
    await others
    assert order == ["other in", "other out", "a in", "a out", "b in", "b out"]
    assert len(gates) == 0

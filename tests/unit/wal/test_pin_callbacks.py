from __future__ import annotations

import pytest
from tests.unit.wal.conftest import OpenRegion

from headwater.log.embedded.log import EmbeddedLog
from headwater.wal.answers import PinnedLog
from headwater.wal.pin_callbacks import PinCallbacks

pytestmark = pytest.mark.anyio


async def test_each_is_told_whatever_another_raises(opened: OpenRegion, log: EmbeddedLog) -> None:
    region, told = await opened(), list[tuple[str, int | None]]()
    await region.write(9, [b"x"])

    def fails(found: PinnedLog) -> None:
        told.append(("all", found.table))
        raise ValueError("not mine")

    pins = PinCallbacks(log, fails)
    pins.set(7, lambda found: told.append(("former", found.table)))
    pins.set(7, lambda found: told.append(("newest", found.table)))
    pins.set(8, lambda found: told.append(("other", found.table)))
    await pins.tell(region)
    assert told == [("all", 9), ("newest", 9)]
    pins.forget(7)
    pins.forget(7)
    await pins.tell(region)
    assert told[2:] == [("all", 9)]
    await PinCallbacks(log).tell(region)


async def test_a_pin_that_nothing_moves_is_told_once_and_again_when_it_has_doubled(opened: OpenRegion, log: EmbeddedLog) -> None:
    region, told = await opened(), list[int | None]()
    pins = PinCallbacks(log, lambda found: told.append(found.table))

    async def flushed(times: int) -> None:
        """So many thousand bytes are written and flushed; a segment has 4096."""
        for _ in range(times):
            last = await region.write(1, [b"x" * 1000])
        await region.mark_delete_up_to(1, last)
        await pins.look(region)

    await pins.look(region)
    await region.write(9, [b"old"])
    await region.write(8, [b"old"])
    await flushed(3)
    assert told == []
    await flushed(3)
    await pins.look(region)
    assert told == [9]
    await flushed(3)
    assert told == [9]
    await flushed(5)
    assert told == [9, 9]
    latest = pins.latest(7)
    assert latest is not None
    assert latest.table == 9
    await region.mark_delete_up_to(9, 1)
    await pins.look(region)
    assert told == [9, 9, 8]  # the next one that holds it
    pins.set(7, lambda found: told.append(-1))
    await pins.look(region)
    assert told == [9, 9, 8, 8, -1]
    await region.drop_table(8)
    await pins.look(region)
    await region.write(8, [b"new"])
    await pins.look(region)
    assert told == [9, 9, 8, 8, -1]
    pins.forget(7)
    assert pins.latest(7) is None

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

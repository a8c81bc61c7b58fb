from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headwater.core.errors import Unavailable
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.queue.catalogue_watch import CatalogueWatch

pytestmark = pytest.mark.anyio
TOPIC = "queue_data_0"


class Looks:
    """Counts the looks, and lets a test wait for the next one."""

    def __init__(self) -> None:
        self.count, self.fail = 0, False
        self._came = asyncio.Condition()

    async def __call__(self) -> None:
        async with self._came:
            self.count += 1
            self._came.notify_all()
        if self.fail:
            raise Unavailable("Not now.", hint="Later.")

    async def reach(self, count: int) -> None:
        async with asyncio.timeout(30), self._came:
            await self._came.wait_for(lambda: self.count >= count)


async def test_every_change_is_looked_at_from_the_beginning_to_the_stop(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic(TOPIC)
        looks = Looks()
        watch = CatalogueWatch(log, TOPIC, looks)
        await looks.reach(1)
        log.append(TOPIC, 0, [Record(b"k", b"v")])
        await looks.reach(2)
        looks.fail = True
        log.append(TOPIC, 0, [Record(b"k", b"v")])
        await looks.reach(3)
        looks.fail = False
        log.append(TOPIC, 0, [Record(b"k", b"v")])  # a look that fails does not end the others
        await looks.reach(4)
        await watch.stop()
        await watch.stop()
        before = looks.count
        log.append(TOPIC, 0, [Record(b"k", b"v")])
        await asyncio.sleep(0)
        assert looks.count == before


async def test_it_ends_with_the_catalogue(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic(TOPIC)
        looks = Looks()
        watch = CatalogueWatch(log, TOPIC, looks)
        await looks.reach(1)
        log.delete_topic(TOPIC)
        async with asyncio.timeout(30):
            await asyncio.wait({watch._task})
        await watch.stop()

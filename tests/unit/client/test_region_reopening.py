from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.unit.client.queue_ground import queue_backend
from tests.until import until

from headwater.client.queue import Queues
from headwater.client.region_reopening import RegionReopening
from headwater.cluster.local import LocalOwnership
from headwater.core.errors import HeadwaterError, MetaLost, RegionNotFound, Unavailable
from headwater.log.embedded.log import EmbeddedLog
from headwater.queue.region_hints import CATALOGUE_REGION, NAMESPACE
from headwater.testing.clock import ManualClock
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import PART, RegionTopics

pytestmark = pytest.mark.anyio


class Start:
    """A server that starts on a directory where others own some of the regions 1 to 4, as a group of Kafka's would tell."""

    def __init__(self, log: EmbeddedLog, folder: Path) -> None:
        self.log, self.clock, self.looks = log, ManualClock(), 0
        self.here, self.others = (LocalOwnership(log, folder / "owners") for _ in range(2))
        self.regions = [RegionTopics("wal", number) for number in (1, 2, 3, 4)]
        for topics in self.regions:
            create_region(log, topics)
        self.opened: list[int] = []
        self.failing: dict[int, HeadwaterError] = {}  # by look, and of the opening by the region's number times -1
        reopening = RegionReopening(
            self.regions, unowned=self.unowned, opened=lambda topics: topics.region in self.opened, open=self.open, clock=self.clock
        )
        self.run = reopening.run

    def unowned(self, regions: Sequence[RegionTopics]) -> list[RegionTopics]:
        self.looks += 1
        if self.looks in self.failing:
            raise self.failing[self.looks]
        free = self.here.unowned([(topics.data, 0) for topics in regions])
        return [topics for topics in regions if (topics.data, 0) in free]

    async def open(self, topics: RegionTopics) -> None:
        if (error := self.failing.get(-topics.region)) is not None:
            raise error
        self.here.own(topics.data, 0, part=PART)
        self.opened.append(topics.region)

    def close(self) -> None:
        self.here.close()
        self.others.close()


async def looked(start: Start, number: int) -> None:
    """Let the next pause be over, and wait for that look's end."""
    await until(lambda: start.looks == number - 1 and start.clock._alarms)
    start.clock.advance(15)
    await until(lambda: start.looks == number)


@pytest.fixture
def make(tmp_path: Path) -> Callable[[], Start]:
    return lambda: Start(EmbeddedLog(tmp_path), tmp_path)


async def test_regions_that_nobody_owns_at_two_looks_are_opened_and_those_of_living_owners_never(make: Callable[[], Start]) -> None:
    start = make()
    dying, living = (start.others.own(f"wal_data_{number}", 0, part=PART) for number in (2, 3))
    running = asyncio.create_task(start.run())
    await until(lambda: start.looks == 1)
    seen = start.others.own("wal_data_4", 0, part=PART)  # had no owner for a moment, as while a group changes
    await looked(start, 2)
    await until(lambda: start.opened == [1])
    dying.release()
    await looked(start, 3)
    await looked(start, 4)
    await until(lambda: start.opened == [1, 2])
    for number in range(5, 9):
        await looked(start, number)
    await running
    assert start.opened == [1, 2]
    assert not living.lost
    assert not seen.lost
    start.close()
    start.log.close()


async def test_what_a_call_has_opened_meanwhile_is_left_alone_and_what_fails_stops_no_other(make: Callable[[], Start]) -> None:
    start = make()
    start.failing = {2: Unavailable("No broker answers.", hint=""), -3: MetaLost("It is lost.", hint="")}
    running = asyncio.create_task(start.run())
    await until(lambda: start.looks == 1)
    start.opened.append(1)
    for number in (2, 3, 4):  # the second proves nothing, so that two more are needed
        assert start.opened == [1]
        await looked(start, number)
    await running
    assert sorted(start.opened) == [1, 2, 4]
    start.close()
    start.log.close()


async def test_without_notes_nobody_is_asked() -> None:
    def asked(regions: Sequence[RegionTopics]) -> list[RegionTopics]:
        raise AssertionError

    async def opened(topics: RegionTopics) -> None:
        raise AssertionError

    await RegionReopening([], unowned=asked, opened=lambda topics: False, open=opened, clock=ManualClock()).run()


async def test_a_queue_is_opened_with_its_region(tmp_path: Path) -> None:
    async with queue_backend(tmp_path, "directory", ManualClock()) as backend:
        await Queues(backend)("pages", create=True).open()
        entry = (await backend.performer("queue")._managed()).known("pages").entry
    async with queue_backend(tmp_path, "directory", ManualClock()) as backend:
        performer = backend.performer("queue")
        await performer._open_again(CATALOGUE_REGION)
        assert performer.opened("pages") is None
        with pytest.raises(RegionNotFound):
            await performer._open_again(entry.region + 1)
        await performer._open_again(entry.region)
        assert performer.opened("pages") is not None
        performer.serve()
        assert list(performer._wal._managers.openers) == [NAMESPACE]

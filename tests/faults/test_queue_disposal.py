"""Files of queues: one for each hour, day or month. Drained, they are gone, zeroed or cut to three blocks; no byte of a payload stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.core.disposal import DISPOSALS, Disposal, overwrites, recycles, shortens
from headwater.core.period import CALENDAR, Calendar, period_end
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.disposal import BLOCKS
from headwater.log.embedded.log import EmbeddedLog
from headwater.queue import carry
from headwater.queue.manager import QueueManager
from headwater.queue.queue import Queue
from headwater.queue.row import NewRow
from headwater.queue.values import FailedClaim
from headwater.testing.clock import ManualClock
from headwater.wal.manager import RegionManager
from headwater.wal.metrics import WalMetrics
from headwater.wal.settings import WalSettings

pytestmark = pytest.mark.anyio
SECRET = b"secret-payload-"
MONTH = 32 * 86_400_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Life:
    """One process with the queue `pages`, on a clock that is moved by hand."""

    def __init__(self, path: Path, clock: ManualClock) -> None:
        self.path, self.clock = path, clock
        self.log = EmbeddedLog(path, clock=clock)
        self.owners = LocalOwnership(self.log, path / "owners")
        self.regions = RegionManager(
            self.log, lambda: self.owners, "queue", settings=WalSettings(), clock=clock, random=Random(1), metrics=WalMetrics()
        )
        self.queues = QueueManager(self.log, self.regions, clock=clock)
        self.folder = path / "log" / "queue_data_1" / "0"

    async def queue(self, **settings: Any) -> Queue:
        await self.queues.create("pages", settings)
        return await self.queues.open("pages")

    def files(self, kind: str) -> list[Path]:
        return sorted(self.folder.glob(f"*.{kind}"))

    async def passes(self, period: Calendar | int, periods: int = 1) -> None:
        """Go on to the beginning of the next period, with all that its timers begin."""
        for _ in range(periods):
            end = period_end(period, self.clock.now_ms()) if isinstance(period, str) else self.clock.now_ms() + period
            self.clock.advance((end - self.clock.now_ms()) / 1000)  # a jump: walking over each second of a month takes long
            await self.settled()
            await self.settled()

    async def settled(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)
        for opened in self.regions._open.values():
            if opened.timer is not None:
                await asyncio.gather(opened.timer._rolling)
        for known in self.queues.queues():
            queue: Any = self.queues.opened(known.entry.name)
            while queue is not None and queue._runtime._carrier._task is not None:
                await asyncio.sleep(0.001)
        while (now := manifests.load(self.folder)) is not None and now.drained:  # a thread of the log disposes of them
            await asyncio.sleep(0.001)
            self.clock.advance(0.01)

    async def close(self) -> None:
        await self.queues.aclose()
        await self.regions.aclose()
        self.owners.close()
        self.log.close()


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Callable[[], Life]]:
    """Begins a life on the same directory; whoever lives at the end is closed."""
    lives, clock = list[Life](), ManualClock(1_699_963_260.0)  # a minute behind noon of a day in November 2023

    def begin() -> Life:
        lives.append(Life(tmp_path, clock))
        return lives[-1]

    yield begin
    await lives[-1].close()


def payload(number: int) -> bytes:
    return SECRET + b"%04d." % number + b"x" * 200


async def put(queue: Queue, first: int, count: int, **how: Any) -> None:
    for number in range(first, first + count):
        await queue.put([NewRow(key=b"key-%d" % number, data=payload(number), form=1, **how)])


async def drain(queue: Queue) -> int:
    done = 0
    while claims := (await queue.claim(7)).claims:
        assert await queue.done([claim.token for claim in claims]) == []
        done += len(claims)
    return done


def left(folder: Path) -> set[int]:
    """The numbers of the payloads of which a byte is left in any file below."""
    pieces = [piece for path in folder.rglob("*") if path.is_file() for piece in path.read_bytes().split(SECRET)[1:]]
    return {int(piece[:4]) for piece in pieces}


@pytest.mark.parametrize("disposal", ["delete", "reset", "truncate"])
@pytest.mark.parametrize("period", CALENDAR)
async def test_a_file_for_each_period_goes_when_it_is_drained(live: Callable[[], Life], period: Calendar, disposal: Disposal) -> None:
    life = live()
    queue = await life.queue(period=period, disposal=disposal)
    for number in range(3):
        await put(queue, 10 * number, 5)
        await life.passes(period)
    assert len(life.files("log")) == 4, "three with rows, and that of this period"
    old = {path.stat().st_ino: path.stat().st_size for path in life.files("log")[:3]}
    assert left(life.folder) == {*range(5), *range(10, 15), *range(20, 25)}
    assert await drain(queue) == 15
    await life.passes(period, 2)
    assert len(life.files("log")) == 1
    assert (await queue.count()).waiting == 0
    spares = {path.stat().st_ino: path for path in life.files("spare")}
    if not recycles(disposal):
        assert not spares
        assert left(life.folder) == set()
        return
    assert {*spares} & {*old}, "the files are kept"
    for number, path in spares.items():
        length = path.stat().st_size
        assert path.read_bytes() == bytes(length)
        assert length == BLOCKS if shortens(disposal) else length == old.get(number, length)
    assert BLOCKS == 3 * 4096


async def test_a_row_of_next_month_pins_no_old_file(live: Callable[[], Life]) -> None:
    life = live()
    queue = await life.queue(period="hour")
    await put(queue, 0, 1, delay=MONTH)
    (future,) = await queue.rows()
    for number in range(1, 6):
        await put(queue, number, 1)
        assert await drain(queue) == 1
        await life.passes("hour")
    await life.passes("hour", 2)
    bases = [int(path.stem.partition("-")[0]) for path in life.files("log")]
    assert len(bases) <= 2
    assert bases[0] > 10, "no file of the first hours is left"
    assert left(life.folder) == {0}
    await life.close()
    life = live()
    queue = await life.queues.open("pages")
    assert await queue.rows() == [future]
    life.clock.advance(MONTH / 1000)
    [claim] = (await queue.claim()).claims
    assert claim.row.data == payload(0)


async def test_rows_that_fill_their_file_are_not_written_again_each_period(live: Callable[[], Life]) -> None:
    life = live()
    queue = await life.queue(period="hour")
    await put(queue, 0, 20, delay=MONTH)
    records = queue.statistics().log_records
    await life.passes("hour", 5)
    assert queue.statistics().log_records == records


@pytest.mark.parametrize("disposal", [one for one in DISPOSALS if overwrites(one)])
async def test_no_byte_of_a_payload_stays_after_a_secure_disposal(
    live: Callable[[], Life], disposal: Disposal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through everything that copies rows: merges, follow-ups, deaths, carried rows, results of other lives, torn ends of files."""
    monkeypatch.setattr(carry, "SPARE_RECORDS", 40)
    life = live()
    queue = await life.queue(period="hour", disposal=disposal, segment="20KiB", lease="60s")
    await put(queue, 0, 1, delay=MONTH)
    await put(queue, 1, 60)
    await put(queue, 1, 20)  # merged
    [dead, busy] = (await queue.claim(2)).claims
    await queue.fail([FailedClaim(dead.token, "secret-payload-0099.", give_up=True)])
    await queue.put([NewRow(key=busy.row.key, data=payload(70), form=1)])  # a follow-up
    await drain(queue)
    await life.settled()
    assert {0, 1, 70, 99} <= left(life.path)
    await life.close()
    active = life.files("log")[-1]
    with active.open("r+b") as file:  # a torn end: recovery puts it aside
        file.seek(0, 2)
        file.write(b"\x07" + payload(80))
    life = live()
    queue = await life.queues.open("pages")
    (cut,) = life.folder.glob("*.cut")
    assert payload(80) in cut.read_bytes()
    life.clock.advance(61)  # the lease of the busy row ends: it takes in its follow-up
    assert await drain(queue) == 1
    assert await queue.dead_drop() == 1
    assert [row.key for row in await queue.rows()] == [b"key-0"]
    await life.passes("hour", 4)
    assert left(life.path) == {0}, "only the row that waits is there"
    await queue.cancel(b"key-0")
    await life.passes("hour", 3)
    assert left(life.path) == set()
    await life.close()
    life = live()
    assert (await (await life.queues.open("pages")).count()) == (0, 0, 0, 0, 0)
    assert left(life.path) == set()

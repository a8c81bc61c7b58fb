"""A process whose memory is limited puts more data into a queue than it may hold, and is killed; another one takes them out again.

Arguments: the directory, `put` or `take`, and the number of rows.
"""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import sys
import threading
from collections.abc import Iterable
from hashlib import shake_128
from pathlib import Path

from headwater.cluster.local import LocalOwnership
from headwater.core.clock import SystemClock
from headwater.core.timers import Timers
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import TopicSettings
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.queue import Queue, open_queue
from headwater.queue.row import NewRow
from headwater.wal.region import open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import RegionTopics

TOPICS = RegionTopics("queue", 1)
SIZE, ROOM = 64 << 10, 192 << 20


def limit() -> None:
    """Let the process have `ROOM` more bytes of its own than now. Files that it maps do not count."""
    found = re.search(r"VmData:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    most = int(found[1]) * 1024 + ROOM
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def row(number: int) -> NewRow:
    return NewRow(key=b"%d" % number, data=shake_128(b"%d" % number).digest(SIZE), form=1)


def rows(numbers: Iterable[int]) -> list[NewRow]:
    return [row(number) for number in numbers]


async def put(queue: Queue, count: int) -> None:
    for begin in range(0, count, 100):
        await queue.put(rows(range(begin, begin + 50)))
        await asyncio.gather(*(queue.put([new]) for new in rows(range(begin + 50, begin + 100))))


async def take(queue: Queue, count: int) -> None:
    left = set(range(count))
    assert (await queue.count()).due == count
    while left:
        claims = (await queue.claim(100)).claims
        for claim in claims:
            number = int(claim.row.key)
            assert claim.row.data == row(number).data
            left.remove(number)
        await queue.done([claim.token for claim in claims])


async def main(data: Path, what: str, count: int) -> None:
    settings = EffectiveSettings()
    with EmbeddedLog(data) as log, LocalOwnership(log, data / "owners") as owners:
        if what == "put":
            create_region(log, TOPICS, TopicSettings(segment=int(settings.segment)))
        limit()
        threading.stack_size(1 << 20)
        region, clock = await open_region(log, owners, TOPICS), SystemClock()
        queue = await open_queue("q", region, 1, settings=settings, clock=clock, timers=Timers(clock))
        await (put if what == "put" else take)(queue, count)
        print("done", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))

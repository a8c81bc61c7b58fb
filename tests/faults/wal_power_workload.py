"""A life of a region, told under strace: python wal_power_workload.py DATA NOTES SEED STEPS CALLERS"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from random import Random
from typing import Any

from power_workload import BEFORE, Notes

import headwater.log.embedded.columns  # noqa: F401  # imported before the first step, so that the trace holds steps alone
from headwater.cluster.local import LocalOwnership
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.wal_history import live
from headwater.wal.region import open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import RegionTopics

TOPICS = RegionTopics("wal", 7)


async def main() -> None:
    data, random = Path(sys.argv[1]), Random(int(sys.argv[3]))
    notes = Notes(sys.argv[2])

    def tell(line: dict[str, Any]) -> None:
        for path in data.glob("log/*/0/commit"):  # stores into a map are no system calls
            notes.write(page=str(path), bytes=path.read_bytes()[:512].hex())
        notes.write(**line)

    clock = ManualClock(wakes=False)
    for number in range(2):
        with EmbeddedLog(data, clock=clock, boot=BEFORE) as log, LocalOwnership(log, data / "owners") as owners:
            create_region(log, TOPICS, TopicSettings(segment=random.choice([600, 6000])) if number == 0 else None)
            tell({"made": True})
            region = await open_region(log, owners, TOPICS)
            await live(region, random, tell, steps=int(sys.argv[4]), name=f"{number}", callers=int(sys.argv[5]))
            await region.close_gracefully() if random.random() < 0.5 else await region.close()


if __name__ == "__main__":
    asyncio.run(main())

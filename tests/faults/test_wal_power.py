"""The power goes between any two system calls of a recorded life of a region: what was acknowledged before is there after."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from random import Random

import pytest
from power_replay import AFTER
from strace import Call, Strace, record
from traced_disk import Disk, Fate
from wal_power_workload import TOPICS

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import RegionNotFound
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.clock import ManualClock
from headwater.testing.wal_history import RegionHistory, live
from headwater.wal.recovery import full_scan, recover
from headwater.wal.region import open_region

LIVES = max(1, int(os.environ.get("SOAK_REPLAYS", "1")))
CALLERS, STEPS = (10, 6) if LIVES > 1 else (5, 7)  # so many callers take so many steps each, on ten tables
MOMENTS = 25
WORKLOAD = Path(__file__).with_name("wal_power_workload.py")


@pytest.mark.parametrize("seed", range(LIVES))
def test_what_was_acknowledged_before_the_cut_is_there_after_it(memory_path: Path, strace: Strace, seed: int) -> None:
    root, notes = memory_path / "life", memory_path / "notes"
    root.mkdir()
    words = [sys.executable, str(WORKLOAD), str(root / "data"), str(notes), str(seed), str(STEPS), str(CALLERS)]
    calls, random = record(strace, words, memory_path / "trace"), Random(seed)
    chosen = set(random.sample(range(1, _moments(calls, root, notes)), MOMENTS))
    disk, history, made, moment = Disk(root, notes), RegionHistory(), False, 0
    for call in calls:
        changed = disk.apply(call)
        while disk.said:
            for line in disk.said.pop(0).splitlines():
                told = json.loads(line)
                if "page" in told:
                    disk.mapped(Path(told["page"]), bytes.fromhex(told["bytes"]).ljust(4096, b"\0"))
                elif "made" in told:
                    made = True
                else:
                    history.hear(told)
        moment += changed
        if changed and moment in chosen:
            fates: list[Fate] = ["mixed", "mixed", "mixed", "lost", "kept"]
            fate = random.choice(fates)
            after = memory_path / f"{moment}-{fate}"
            disk.build(after, fate, random)
            asyncio.run(_examine(after / "data", history, made))
    assert history.acknowledged > 20


def _moments(calls: list[Call], root: Path, notes: Path) -> int:
    disk = Disk(root, notes)
    return sum(disk.apply(call) for call in calls)


async def _examine(data: Path, history: RegionHistory, made: bool) -> None:
    """Open what the power has left, compare, write, and open it once more."""
    told = RegionHistory()
    for _ in range(2):
        with (
            EmbeddedLog(data, clock=ManualClock(wakes=False), boot=AFTER) as log,
            LocalOwnership(log, data / "owners") as owners,
        ):
            try:
                region = await open_region(log, owners, TOPICS)
            except RegionNotFound:
                assert not made
                return
            if log.bounds(TOPICS.data, 0).start == 0:
                assert recover(log, TOPICS).meta == full_scan(log, TOPICS).meta
            if not told.calls:
                await history.check(region)
                before = {number: region.sequence_num(number) for number in range(10)}
                for number, last in before.items():
                    assert await region.write(number, [b"next"]) == last + 1
                await region.clean()
                await live(region, Random(1), told.hear, steps=2, name="after", callers=3)
            await region.close()

"""The Nth call of the file system fails beneath rows that wait for others: none is claimed too early, or lost, and none waits for ever."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from pathlib import Path
from random import Random

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import HeadwaterError, NotFound
from headwater.core.timers import Timers
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import TopicSettings
from headwater.queue import carry
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.queue import Queue, open_queue
from headwater.queue.row import NewRow
from headwater.queue.values import ClaimedRow, FailedClaim
from headwater.testing.clock import ManualClock
from headwater.testing.faults import FailingFiles
from headwater.wal.region import Region, open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import RegionTopics

TOPICS = RegionTopics("queue", 1)
EVERY = 1 if os.environ.get("SOAK_INJECTIONS") == "all" else 47
STEPS = 60


class Expected:
    """What has been told of rows, by their keys. A row's data are the ids that it was put after."""

    def __init__(self) -> None:
        self.put: dict[bytes, int] = {}
        self.ended: set[bytes] = set()  # also those of which it is unknown

    async def claimed(self, queue: Queue, claim: ClaimedRow) -> None:
        """Nothing that the row was put after is there any more."""
        dead = {one.row.id for one in await queue.dead_list(limit=1000)}
        for id in json.loads(claim.row.data):
            assert id not in dead, f"{claim.row.key!r} has not waited for the dead row {id}"
            with pytest.raises(NotFound):
                await queue.get(id)


async def work(queue: Queue, region: Region, expected: Expected, random: Random) -> None:
    claims: list[ClaimedRow] = []
    for step in range(STEPS):
        kind = random.choice(["put", "put", "put", "claim", "claim", "end", "end", "retry", "cancel", "clean"])
        key, ids = b"%d" % step, list(expected.put.values())
        try:
            if kind == "put":
                after = tuple(random.sample(ids, min(len(ids), random.randrange(3))))
                cancels = random.random() < 0.3
                data = json.dumps(after).encode()
                [put] = await queue.put([NewRow(key=b"c" + key if cancels else key, data=data, after=after, after_dead="cancel" * cancels)])
                expected.put[b"c" + key if cancels else key] = put.id
            elif kind == "claim":
                claims += (await queue.claim(2)).claims
                if claims:
                    await expected.claimed(queue, claims[-1])
            elif kind == "end" and claims:
                claim = claims.pop(random.randrange(len(claims)))
                if random.random() < 0.7:
                    expected.ended.add(claim.row.key)
                    assert await queue.done([claim.token]) == []
                else:
                    assert await queue.fail([FailedClaim(claim.token, "no", give_up=True)]) == []
            elif kind == "retry":
                await queue.dead_retry()
            elif kind == "cancel" and ids:
                name = random.choice(list(expected.put))
                expected.ended.add(name)
                await queue.cancel(name)
            elif kind == "clean":
                await queue.mark()
                await region.clean()
        except HeadwaterError:
            continue


async def lived(data: Path, files: FailingFiles, expected: Expected, seed: int) -> None:
    """Open the queue, work, and close: whatever fails."""
    clock = ManualClock()
    try:
        log = EmbeddedLog(data, files=files)
    except HeadwaterError:
        return
    with log, LocalOwnership(log, data / "owners", files=files) as owners:
        try:
            region = await open_region(log, owners, TOPICS)
        except HeadwaterError:
            return
        try:
            queue = await open_queue("q", region, 1, settings=EffectiveSettings(), clock=clock, timers=Timers(clock))
            await work(queue, region, expected, Random(seed))
            await queue.aclose()
        except HeadwaterError:
            pass
        try:
            await region.close_gracefully()
        except HeadwaterError:
            await region.close()


async def drained(data: Path, expected: Expected) -> None:
    """A new process does all that is left, retries what is dead, and nothing waits for ever."""
    clock = ManualClock()
    with EmbeddedLog(data) as log, LocalOwnership(log, data / "owners") as owners:
        region = await open_region(log, owners, TOPICS)
        queue = await open_queue("q", region, 1, settings=EffectiveSettings(), clock=clock, timers=Timers(clock))
        clock.advance(3_601)  # whoever had claims is gone
        done = set[bytes]()
        while True:
            claims = (await queue.claim(1)).claims
            if not claims:
                if not await queue.dead_retry():
                    break
                continue
            await expected.claimed(queue, claims[0])
            assert await queue.done([claims[0].token]) == []
            assert claims[0].row.key not in done
            done.add(claims[0].row.key)
        assert sum(await queue.count()) == 0, await queue.rows()
        lost = {key for key in expected.put if not key.startswith(b"c")} - expected.ended - done
        assert not lost
        await queue.aclose()
        await region.close()


def made(data: Path) -> Path:
    with EmbeddedLog(data) as log:
        create_region(log, TOPICS, TopicSettings(segment=4096))
    return data


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("spare", [0, 200_000], ids=["carried", "left"])
def test_one_failing_call_loses_no_row_and_no_order(
    tmp_path: Path, seed: int, number: int, spare: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carry, "SPARE_RECORDS", spare)
    files, expected = FailingFiles(), Expected()
    data = made(tmp_path / "whole")
    asyncio.run(lived(data, files, expected, seed))
    assert len(expected.put) > 10
    asyncio.run(drained(data, expected))
    for at in range(1 + seed % EVERY, files.calls, EVERY):
        data, expected = made(tmp_path / f"{at}"), Expected()
        asyncio.run(lived(data, FailingFiles(at, number=number), expected, seed))
        asyncio.run(drained(data, expected))

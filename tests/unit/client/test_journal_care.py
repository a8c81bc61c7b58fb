"""The care of copies, where its work takes a while: a rebuild waits for the replicator, and tells how far it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.client.journal_ground import journal_backend
from tests.unit.journal.ground import POISON, TOPIC, Ground, appended, held
from tests.until import until

from headwater.client.journals import Journals
from headwater.core.errors import HeadwaterError
from headwater.journal.care_operations import REBUILD
from headwater.journal.care_requests import RebuildCopy
from headwater.journal.leader import LocalReplicatorLock
from headwater.journal.replicator import lock_path, status_file
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio


async def test_a_rebuild_is_a_job_that_ends_with_the_replicator(tmp_path: Path) -> None:
    clock = ManualClock()
    ground = Ground(tmp_path, clock)
    topic = ground.topic(partitions=1)
    ground.append(appended("a", 1), appended("a", 2))
    loop, lock = ground.loop(), LocalReplicatorLock(lock_path(tmp_path))
    loop.catch_up()
    before = held(ground.store, topic)
    async with journal_backend(tmp_path, "directory", clock) as (backend, _):
        found = await Journals(backend)("bank").rebuild(why="test")
        assert (found.records, found.finished) == (2, False), "no replicator runs"
        loop.catch_up()
        assert lock.take()
        job = await backend.start(REBUILD, RebuildCopy(topic="bank"))

        async def told() -> bool:
            await clock.run(1)
            return (await job.status()).total == 2

        await until(told)
        assert (await job.status()).state == "running"
        loop.catch_up()

        async def done() -> bool:
            await clock.run(1)
            return (await job.status()).state == "done"

        await until(done)
        assert (await job.result()).finished
        assert held(ground.store, topic) == before

        job = await backend.start(REBUILD, RebuildCopy(topic="bank"))
        await until(told)
        await job.cancel()
        assert (await job.status()).state == "cancelled"
    lock.release()
    loop.close()
    ground.close()


async def test_what_stops_a_partition_ends_the_waiting(tmp_path: Path) -> None:
    clock = ManualClock()
    ground = Ground(tmp_path, clock)
    ground.topic(partitions=1)
    ground.append(appended("a", 1), POISON)
    loop, lock = ground.loop(), LocalReplicatorLock(lock_path(tmp_path))
    assert lock.take()
    loop.catch_up()
    status_file(tmp_path).write(loop.status())
    async with journal_backend(tmp_path, "directory", clock) as (backend, _):
        job = await backend.start(REBUILD, RebuildCopy(topic=TOPIC))

        async def failed() -> bool:
            await clock.run(1)
            return (await job.status()).state == "failed"

        await until(failed)
        with pytest.raises(HeadwaterError) as stopped:
            await job.result()
        assert stopped.value.code == "unreadable-record"
    lock.release()
    loop.close()
    ground.close()

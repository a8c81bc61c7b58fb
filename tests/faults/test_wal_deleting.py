"""Each call that a deletion of a region makes fails once, or from then on."""

from __future__ import annotations

import contextlib
from itertools import count
from pathlib import Path

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import HeadwaterError
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.faults import FailingFiles
from headwater.wal.region import open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_deletion import delete_region, leftover
from headwater.wal.region_topics import RegionTopics

pytestmark = pytest.mark.anyio


TOPICS = RegionTopics("wal", 7)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def filled(log: EmbeddedLog, owners: LocalOwnership) -> None:
    create_region(log, TOPICS)
    region = await open_region(log, owners, TOPICS)
    await region.write(1, [b"a", b"b"])
    await region.close_gracefully()


@pytest.mark.parametrize("forever", [False, True])
async def test_a_deletion_that_fails_at_any_call_leaves_a_whole_region_or_what_the_next_one_removes(
    memory_path: Path, forever: bool
) -> None:
    for at in count(1):
        data = memory_path / str(at)
        with EmbeddedLog(data) as log:
            await filled(log, LocalOwnership(log, data / "owners"))
        files = FailingFiles()
        with contextlib.suppress(HeadwaterError), EmbeddedLog(data, files=files) as log:
            files.calls, files.fail_at, files.forever = 0, at, forever
            delete_region(log, LocalOwnership(log, data / "owners", files=files), TOPICS)
        with EmbeddedLog(data) as log:
            owners = LocalOwnership(log, data / "owners")
            if TOPICS.data in [topic.name for topic in log.topics()]:
                region = await open_region(log, owners, TOPICS)
                assert region.sequence_num(1) == 2
                await region.close()
                delete_region(log, owners, TOPICS)
            elif leftover(log, TOPICS):
                delete_region(log, owners, TOPICS)
            assert create_region(log, TOPICS)
        if not files.failed:
            assert at > 5
            return

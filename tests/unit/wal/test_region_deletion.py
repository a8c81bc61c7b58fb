from __future__ import annotations

import contextlib
from itertools import count
from pathlib import Path

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import Conflict, HeadwaterError, NotOwner, RegionNotFound
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.faults import FailingFiles
from headwater.wal.region import open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_deletion import check_deletable, delete_region, leftover
from headwater.wal.region_topics import RegionTopics

pytestmark = pytest.mark.anyio
TOPICS = RegionTopics("wal", 7)


async def filled(log: EmbeddedLog, owners: LocalOwnership) -> None:
    create_region(log, TOPICS)
    region = await open_region(log, owners, TOPICS)
    await region.write(1, [b"a", b"b"])
    await region.close_gracefully()


async def test_a_deleted_region_is_gone_and_a_new_one_begins_at_1(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        owners = LocalOwnership(log, tmp_path / "owners")
        await filled(log, owners)
        assert check_deletable(log, TOPICS) == 1
        assert delete_region(log, owners, TOPICS) == 1
        assert log.topics() == []
        with pytest.raises(RegionNotFound):
            delete_region(log, owners, TOPICS)
        await filled(log, owners)
        region = await open_region(log, owners, TOPICS)
        assert region.sequence_num(1) == 2
        await region.close()


async def test_the_region_of_a_living_owner_is_refused(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        owners, others = LocalOwnership(log, tmp_path / "owners"), LocalOwnership(log, tmp_path / "owners")
        create_region(log, TOPICS)
        region = await open_region(log, owners, TOPICS)
        with pytest.raises(NotOwner):
            delete_region(log, others, TOPICS)
        assert await region.write(1, [b"a"]) == 1
        await region.close()


async def test_an_interrupted_deletion_is_told_and_finished(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        owners = LocalOwnership(log, tmp_path / "owners")
        await filled(log, owners)
        log.delete_topic(TOPICS.data, part="wal")
        assert leftover(log, TOPICS)
        with pytest.raises(Conflict, match="wal delete wal/7"):
            create_region(log, TOPICS)
        assert delete_region(log, owners, TOPICS) == 0
        assert create_region(log, TOPICS)


@pytest.mark.parametrize("forever", [False, True])
async def test_a_deletion_that_fails_at_any_call_leaves_a_whole_region_or_what_the_next_one_removes(tmp_path: Path, forever: bool) -> None:
    for at in count(1):
        data = tmp_path / str(at)
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

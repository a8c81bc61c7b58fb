from __future__ import annotations

from pathlib import Path

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import Conflict, NotOwner, RegionNotFound
from headwater.log.embedded.log import EmbeddedLog
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

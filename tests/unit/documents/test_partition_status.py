from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.documents.ground import documents_in, put

from headwater.documents.partition_status import status_of
from headwater.documents.settings import DocumentSettings

pytestmark = pytest.mark.anyio


async def test_a_partition_tells_what_it_does(tmp_path: Path) -> None:
    async with documents_in(tmp_path, settings=DocumentSettings(partitions=2)) as documents:
        await put(documents, "a", 1)
        number = documents.partition_of("a")
        active, passive = documents.status()[number], documents.status()[1 - number]
        assert (active.state, active.end, active.applied, active.accepted, active.commits) == ("Active", 1, 1, 1, 1)
        assert (passive.state, passive.end, passive.applied) == ("Passive", 0, 0)
        assert status_of("Activating", documents.reads(number), None, 3).stashed == 3
        await documents.release(number)
        assert documents.status()[number].state == "Passive"
        assert not await documents.release(number)

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


async def test_a_damaged_store_of_one_partition_does_not_hide_the_others(tmp_path: Path) -> None:
    async with documents_in(tmp_path, settings=DocumentSettings(partitions=2)) as documents:
        await put(documents, "a", 1)
        await put(documents, "c~/1", {})
        assert documents.partition_of("a") != documents.partition_of("c~")
    (tmp_path / "documents" / "0.db").write_bytes(b"no file of SQLite" * 1000)
    for left in ("0.db-wal", "0.db-shm"):
        (tmp_path / "documents" / left).unlink(missing_ok=True)
    async with documents_in(tmp_path) as documents:
        damaged, whole = documents.status()
        assert (damaged.partition, damaged.state, damaged.end, damaged.applied) == (0, "Passive", 1, 0)
        assert "0.db is damaged" in damaged.error
        assert (whole.end, whole.applied, whole.error) == (1, 1, "")

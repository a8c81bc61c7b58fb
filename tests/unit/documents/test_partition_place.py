from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.documents.ground import documents_in, put

pytestmark = pytest.mark.anyio


async def test_a_place_is_passive_until_it_is_taken_and_is_taken_once(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as documents:
        await documents.create()
        assert [one.state for one in documents.status()] == ["Passive", "Passive"]
        number = documents.partition_of("a")
        writes = [asyncio.ensure_future(put(documents, "a", count)) for count in range(20)]
        await asyncio.sleep(0)
        assert documents.status()[number].stashed == 20
        assert [written.revision for written in await asyncio.gather(*writes)] == list(range(1, 21))
        standing = documents.status()[number]
        assert (standing.state, standing.stashed) == ("Active", 0)
        assert documents.status()[1 - number].state == "Passive"

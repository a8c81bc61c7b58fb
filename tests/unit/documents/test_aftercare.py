from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.documents.ground import documents_in, draft, put
from tests.until import until

from headwater.core.errors import OutcomeUnknown
from headwater.documents.calls import new_index
from headwater.documents.change import IndexDefinition
from headwater.documents.settings import DocumentSettings

pytestmark = pytest.mark.anyio


async def test_writes_are_done_in_the_order_in_which_they_are_asked_for(tmp_path: Path) -> None:
    async with documents_in(tmp_path, settings=DocumentSettings(partitions=1)) as documents:
        await documents.activate(0)
        asked = [draft("put", "c~/1", {}, ttl=60_000), draft("put", "c~/1", {}), draft("delete", "c~"), draft("put", "c~/2", {}, ttl=1000)]
        asked.append(draft("put", "c~/2", {}))
        written = await asyncio.gather(*map(documents.write, asked))
        assert [one.revision for one in written] == [1, 2, 3, 4, 5]


async def test_they_are_told_of_what_was_refused_too(tmp_path: Path) -> None:
    """An outcome that is not known may be a record that is there."""
    outcomes: list[object] = []
    async with documents_in(tmp_path, settings=DocumentSettings(partitions=1), outcomes=outcomes) as documents:
        await put(documents, "c~/1", {})
        await documents.change("c~", new_index("c~", IndexDefinition(id="n", number=0)))
        dates: list[int] = []
        dropped: list[str] = []
        documents.expiring.append(lambda number, date: dates.append(date))
        documents.dropping.append(lambda number, uri, index: dropped.append(uri))
        outcomes.append(OutcomeUnknown("perhaps"))
        await asyncio.gather(put(documents, "a", 1, ttl=1000), return_exceptions=True)
        assert dates == [documents.clock.now_ms() + 1000]
        await put(documents, "b", 1)
        assert len(dates) == 1
        await documents.write(draft("delete", "c~"))
        await until(lambda: dropped == ["c~"])

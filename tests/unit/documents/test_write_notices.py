from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.documents.ground import documents_in, draft, put

from headwater.documents.write_notices import tell_of_beginning

pytestmark = pytest.mark.anyio


async def test_a_collection_begins_with_its_first_write_and_again_after_it_was_deleted(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as documents:
        begun: list[str] = []
        documents.beginning.append(begun.append)
        first = await put(documents, "c~/1", {})
        second = await put(documents, "c~/2", {})
        await put(documents, "doc", {})
        assert begun == ["c~"]
        await documents.write(draft("delete", "c~"))
        await put(documents, "c~/1", {})
        assert begun == ["c~", "c~"]
        for written in (first, second):  # as a worker does that writes for another
            tell_of_beginning(documents, written)
        assert begun == ["c~", "c~", "c~"]

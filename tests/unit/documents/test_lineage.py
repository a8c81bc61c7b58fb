from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.unit.documents.ground import body_of, documents_in, draft, put

from headwater.core.errors import Differs
from headwater.documents.calls import IndexCall
from headwater.documents.change import IndexDefinition
from headwater.documents.lineage import check_lineage
from headwater.documents.settings import DocumentSettings

pytestmark = pytest.mark.anyio
ONE = DocumentSettings(partitions=1)


def bring_back(part: str, *, of: Path, to: Path) -> None:
    """Put a folder of one directory into another."""
    shutil.rmtree(to / part)
    shutil.copytree(of / part, to / part)


async def two_that_parted(folder: Path) -> tuple[Path, Path]:
    """Two copies of a directory that both went on: the second one for longer."""
    first, second = folder / "first", folder / "second"
    async with documents_in(first, settings=ONE) as documents:
        await put(documents, "a", "both")
    shutil.copytree(first, second)
    for here, writes in ((first, 3), (second, 6)):
        async with documents_in(here, settings=ONE) as documents:
            for number in range(writes):
                await put(documents, f"{here.name}/{number}", here.name)
    return first, second


async def test_the_store_of_a_copy_that_went_on_otherwise_is_neither_read_nor_written_to(tmp_path: Path) -> None:
    first, second = await two_that_parted(tmp_path)
    bring_back("documents", of=first, to=second)
    async with documents_in(second, settings=ONE) as documents:
        with pytest.raises(Differs, match="went on otherwise"):
            await body_of(documents, "second/0")
        with pytest.raises(Differs, match="went on otherwise"):
            await put(documents, "second/0", "new")
        assert "went on otherwise" in documents.status()[0].error
        await documents.rebuild(0)
        assert documents.status()[0].error == ""
        assert [await body_of(documents, f"second/{number}") for number in range(6)] == ["second"] * 6
        assert await body_of(documents, "first/0") is None
        assert (await put(documents, "second/0", "new")).revision == 2


async def test_a_store_ahead_of_its_log_is_folded_anew_on_request(tmp_path: Path) -> None:
    first, second = await two_that_parted(tmp_path)
    bring_back("log", of=first, to=second)  # its log has 4 records, the store 7
    async with documents_in(second, settings=ONE) as documents:
        with pytest.raises(Differs, match="the log ends at 4"):
            await put(documents, "a", "new")
        assert "the log ends at 4" in documents.status()[0].error
        await documents.rebuild(0)
        assert await body_of(documents, "first/2") == "first"
        assert await body_of(documents, "second/2") is None


async def test_records_without_changes_are_passed_over(tmp_path: Path) -> None:
    async with documents_in(tmp_path, settings=ONE) as documents:
        await put(documents, "c~/1", {})
        await documents.write(draft("delete", "c~"))
        for _ in range(3):
            await documents.change("c~", IndexCall("c~", lambda there, number: IndexDefinition(id=f"i{number}", number=number)))
        assert documents.topic is not None
        with documents.reads(0).store.view() as view:
            assert view.applied() == documents.end(0)
            check_lineage(documents.log, view, documents.topic, 0)

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.documents.ground import documents_in, draft, put

from headwater.core.timers import Timers
from headwater.core.units import Duration
from headwater.documents.calls import RedriveCall, deleted_index, new_index
from headwater.documents.change import ChangeRecord, IndexDefinition, SortField
from headwater.documents.chores import DocumentChores
from headwater.documents.open_documents import TOPIC, OpenDocuments
from headwater.documents.settings import DocumentSettings
from headwater.documents.write import BatchDraft
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio
ONE = DocumentSettings(partitions=1)


async def indexed(documents: OpenDocuments) -> int:
    for number in range(5):
        await put(documents, f"c~/{number}", {"n": number})
    made = await documents.change("c~", new_index("c~", IndexDefinition(id="n", number=0, sort_by=(SortField("n"),))))
    assert isinstance(made, ChangeRecord)
    assert made.index is not None
    await put(documents, "c~/9", {"n": 9})
    return made.index.number


async def test_deleted_collections_and_indexes_leave_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    async with documents_in(tmp_path, settings=ONE, clock=clock) as documents:
        chores = DocumentChores(documents, settings=ONE, clock=clock, timers=Timers(clock))
        chores.start()
        number = await indexed(documents)
        store = documents.reads(0).store
        await documents.change("c~", deleted_index("c~", "n"))
        await chores.look(0)
        with documents.view("c~") as view:
            assert view.indexes("c~") == []
            assert view.index_rows("c~", number, limit=9) == []
        await documents.write(draft("delete", "c~"))
        await chores.look(0)
        assert store.purge(100) == 0
        await chores.stop()
        await chores.stop()


async def test_indexes_that_go_with_their_collection_leave_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    async with documents_in(tmp_path, settings=ONE, clock=clock) as documents:
        chores = DocumentChores(documents, settings=ONE, clock=clock, timers=Timers(clock))
        chores.start()
        for again in range(2):  # the second time by a batch, which writes the collection anew at once
            await indexed(documents)
            await chores.look(0)
            if again:
                await documents.write_batch(BatchDraft(uri="c~", drafts=(draft("delete", "c~"), draft("put", "c~/1", {}))))
            else:
                await documents.write(draft("delete", "c~"))
            with documents.view("c~") as view:
                assert [index.state for index in view.indexes("c~")] == ["deleting"]
            await chores.look(0)
            with documents.view("c~") as view:
                assert view.indexes("c~") == []
        await chores.stop()


async def test_a_new_owner_goes_on_with_what_was_being_deleted(tmp_path: Path) -> None:
    clock = ManualClock()
    async with documents_in(tmp_path, settings=ONE, clock=clock) as documents:
        await indexed(documents)
        await documents.change("c~", deleted_index("c~", "n"))
    async with documents_in(tmp_path, settings=ONE, clock=clock) as documents:
        chores = DocumentChores(documents, settings=ONE, clock=clock, timers=Timers(clock))
        await documents.activate(0)
        await chores.look(0)
        with documents.view("c~") as view:
            assert view.indexes("c~") == []


async def test_the_log_keeps_what_it_is_told_to(tmp_path: Path) -> None:
    clock, settings = ManualClock(), DocumentSettings(partitions=1, keep=Duration(2 * 86_400_000))
    async with documents_in(tmp_path, settings=settings, clock=clock) as documents:
        chores = DocumentChores(documents, settings=settings, clock=clock, timers=Timers(clock), least=1)
        for number in range(3):
            await put(documents, "a", number)
        clock.advance(3 * 86_400)
        for number in range(3, 6):
            await put(documents, "a", number)
        few = DocumentChores(documents, settings=settings, clock=clock, timers=Timers(clock))
        assert few.shorten(0) == 0
        await chores.look(0)
        assert documents.log.bounds(TOPIC, 0).start == 3
        clock.advance(30 * 86_400)
        await chores.look(0)
        assert documents.log.bounds(TOPIC, 0).start == 5  # the newest one stays
        assert (await put(documents, "a", 9)).revision == 7
        digest = documents.reads(0).store.digest()
        assert await documents.call_partition(0, RedriveCall(rebuild=True)) == 7  # of the base copy
        assert documents.reads(0).store.digest() == digest
        documents.bases = None
        assert chores.shorten(0) == 5

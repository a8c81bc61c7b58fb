from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.documents.ground import body_of, documents_in, draft, put
from tests.until import until

from headwater.cluster import Ownership
from headwater.core.document_errors import CollectionPut, DocumentNotFound, NotMatched
from headwater.core.errors import BadMethod, Busy, Closed, Differs, KeyReused, NotOwner
from headwater.documents.change import decode_record
from headwater.documents.open_documents import TOPIC, OpenDocuments
from headwater.documents.path import parse_path
from headwater.documents.settings import DocumentSettings
from headwater.log.record import Record

pytestmark = pytest.mark.anyio


async def test_every_verb_on_documents_and_items(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as documents:
        first = await put(documents, "abc/123", {"a": 1, "b": None})
        assert (first.revision, first.created, first.applied) == (1, True, True)
        second = await put(documents, "abc/123", {"a": 2})
        assert (second.revision, second.created) == (2, False)
        assert (await documents.write(draft("patch", "abc/123", {"c": {"d": 1}}))).revision == 3
        assert await body_of(documents, "abc/123") == {"a": 2, "c": {"d": 1}}
        assert (await documents.write(draft("delete", "abc/123"))).revision == 4
        assert await body_of(documents, "abc/123") is None
        with pytest.raises(DocumentNotFound):
            await documents.write(draft("delete", "abc/123"))
        again = await put(documents, "abc/123", 7)
        assert (again.revision, again.created) == (5, True)

        item = await documents.write(draft("post", "shop~", {"price": 1}))
        assert (item.revision, item.created) == (1, True)
        assert await body_of(documents, item.path.text) == {"id": item.path.item, "price": 1}
        later = await documents.write(draft("post", "shop~", {}))
        assert later.path.item > item.path.item
        with pytest.raises(CollectionPut):
            await put(documents, "shop~", {})
        with pytest.raises(BadMethod):
            await documents.write(draft("post", "abc/123", {}))


async def test_a_deleted_collection_never_returns(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as documents:
        for number in range(5):
            await put(documents, f"shop~/{number}", {"n": number})
        assert (await documents.write(draft("delete", "shop~"))).revision == 6
        head, _ = await documents.read(parse_path("shop~"))
        assert head is not None
        assert head.deleted
        assert (await put(documents, "shop~/9", {})).revision == 7
        with documents.view("shop~") as view:
            assert [row.item for row in view.rows("shop~", limit=10)] == ["9"]


async def test_reading_creates_nothing(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as documents:
        assert await documents.read(parse_path("a")) == (None, None)
        assert documents.topic is None
        assert documents.status() == []
        with documents.view("a~") as view:
            assert view.rows("a~", limit=5) == []
        assert not (tmp_path / "documents").exists()


async def test_parallel_puts_take_the_revisions_one_after_the_other(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as documents:
        written = await asyncio.gather(*(put(documents, "a", number) for number in range(50)))
        assert [one.revision for one in written] == list(range(1, 51))
        assert sum(one.created for one in written) == 1
        with documents.view("a") as view:
            places = view.changes("a", limit=100)
        assert [place.revision for place in places] == list(range(1, 51))


async def test_everything_is_there_after_reopening(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as documents:
        await put(documents, "a", 1)
    async with documents_in(tmp_path) as documents:
        assert await body_of(documents, "a") == 1
        assert documents.owned() == []
        assert (await put(documents, "a", 2)).revision == 2
    with pytest.raises(Closed):
        await put(documents, "a", 3)


async def test_a_condition_that_does_not_hold_changes_nothing(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as documents:
        await put(documents, "a", 1, none_match=())
        with pytest.raises(NotMatched):
            await put(documents, "a", 2, none_match=())
        with pytest.raises(NotMatched):
            await put(documents, "a", 2, match=(7,))
        assert (await put(documents, "a", 2, match=(7, 1))).revision == 2


async def test_a_request_is_answered_again_under_its_key(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as documents:
        first, second = await asyncio.gather(*(documents.write(draft("post", "shop~", {"n": 1}, key="k")) for _ in range(2)))
        assert (first.replayed, second.replayed) == (False, True)
        assert (first.path, first.revision, first.offset) == (second.path, second.revision, second.offset)
    async with documents_in(tmp_path) as documents:
        third = await documents.write(draft("post", "shop~", {"n": 1}, key="k"))
        assert (third.path, third.replayed, third.created) == (first.path, True, True)
        with pytest.raises(KeyReused):
            await documents.write(draft("post", "shop~", {"n": 2}, key="k"))


async def test_a_store_without_the_last_records_is_brought_up_to_date(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as documents:
        await put(documents, "a", 1)
        number = documents.partition_of("a")
    (tmp_path / "documents" / f"{number}.db").unlink()
    async with documents_in(tmp_path) as documents:
        assert await body_of(documents, "a") == 1  # of the log's tail
        assert documents.applied(number) == 0
        assert (await put(documents, "a", 2)).revision == 2
        assert documents.applied(number) == documents.end(number) == 2
        records = documents.log.read(TOPIC, number, 0)
        assert [decode_record(record.value, "").changes[0].revision for record in records] == [1, 2]


async def test_a_store_without_its_log_is_told(tmp_path: Path) -> None:
    """Such as where only a part of a backup came back: nobody must take the documents for deleted, or begin them anew."""
    async with documents_in(tmp_path) as documents:
        await put(documents, "a", 1)
    (tmp_path / "log" / TOPIC).rename(tmp_path / "away")
    async with documents_in(tmp_path) as documents:
        for asked in (body_of(documents, "a"), put(documents, "a", 2)):
            with pytest.raises(Differs, match="no topic hyper-storage in the log"):
                await asked
        with pytest.raises(Differs):
            documents.status()
    assert not (tmp_path / "log" / TOPIC).exists()
    (tmp_path / "away").rename(tmp_path / "log" / TOPIC)
    async with documents_in(tmp_path) as documents:
        assert await body_of(documents, "a") == 1


async def test_two_processes_have_one_owner(tmp_path: Path) -> None:
    async with documents_in(tmp_path, address="http://one") as one, documents_in(tmp_path) as two:
        await put(one, "a", 1)
        assert await body_of(two, "a") == 1
        with pytest.raises(NotOwner) as refused:
            await put(two, "a", 2)
        assert refused.value.address == "http://one"
        await one.release(one.partition_of("a"))
        assert (await put(two, "a", 2)).revision == 2
        assert await body_of(one, "a") == 2


async def test_writes_are_stashed_while_a_partition_is_taken(tmp_path: Path) -> None:
    taking, go_on = threading.Event(), threading.Event()
    settings = DocumentSettings(partitions=1, max_stash=3)
    async with documents_in(tmp_path, settings=settings) as documents:
        owners = documents._owners

        def slow() -> Ownership:
            taking.set()
            go_on.wait(60)
            return owners()

        documents._owners = slow
        writes = [asyncio.ensure_future(put(documents, "a", number)) for number in range(4)]
        await asyncio.to_thread(taking.wait, 60)
        assert [(one.state, one.stashed) for one in documents.status()] == [("Activating", 3)]
        with pytest.raises(Busy):
            await writes[3]
        writes[1].cancel()  # a caller that gives up
        go_on.set()
        assert (await writes[0]).revision == 1
        assert (await writes[2]).revision == 2
        assert documents.status()[0].state == "Active"
        assert documents.metrics.stashed.value == 3


async def test_a_partition_that_is_given_away_finishes_the_writes_that_were_begun(tmp_path: Path) -> None:
    appending, go_on = threading.Event(), threading.Event()
    async with documents_in(tmp_path, settings=DocumentSettings(partitions=1)) as documents:
        await put(documents, "a", 1)
        partition = documents.opened(0)
        assert partition is not None
        append = partition._owned.writer.append

        def slow(records: Sequence[Record]) -> Sequence[int]:
            appending.set()
            go_on.wait(60)
            return append(records)

        partition._owned.writer.append = slow  # type: ignore[method-assign,assignment]
        begun = asyncio.ensure_future(put(documents, "a", 2))
        await asyncio.to_thread(appending.wait, 60)
        released = asyncio.ensure_future(documents.release(0))
        await until(lambda: documents.status()[0].state != "Active")
        assert documents.status()[0].state == "Deactivating"
        assert documents.opened(0) is None
        assert not begun.done()
        go_on.set()
        assert await released
        assert (await begun).revision == 2
        assert documents.status()[0].state == "Passive"
        assert (await put(documents, "a", 3)).revision == 3, "the next write takes it"


async def test_a_partition_is_written_by_one_part_of_a_process(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as documents:
        await put(documents, "a", 1)
        other = OpenDocuments(
            documents.log, documents.stores, documents._owners, settings=documents.settings, clock=documents.clock, quick=True
        )
        with pytest.raises(NotOwner, match="already"):
            await put(other, "a", 2)
        assert await body_of(other, "a") == 1
        assert (await put(documents, "a", 2)).revision == 2
        await other.aclose()

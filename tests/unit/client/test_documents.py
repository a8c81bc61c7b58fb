"""The door's documents, over a directory and over HTTP: the same calls, the same answers, the same errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.until import until

import headwater
from headwater.client.backend import Backend
from headwater.client.document_resource import Resource, followed
from headwater.client.document_value import Document
from headwater.client.documents import Documents
from headwater.client.documents_performer import DocumentsPerformer, closes, opens
from headwater.client.forwarding import ForwardingBackend
from headwater.client.local import LocalLog, local_log
from headwater.client.local_backend import LocalBackend
from headwater.client.remote import remote_log
from headwater.core.clock import SystemClock
from headwater.core.document_errors import (
    BadFilter,
    BadPath,
    CollectionPut,
    DocumentNotFound,
    NotMatched,
    SkippedRowsLimited,
    UnknownIndex,
    ViewModification,
)
from headwater.core.errors import AlreadyExists, BadInput, HeadwaterError, KeyReused, Timeout, UnknownTopic
from headwater.core.settings import Settings
from headwater.documents.answers import ShownDocumentChange
from headwater.documents.follow_requests import PollContent
from headwater.documents.requests import BatchLine, ExportContent
from headwater.testing.app import app_over
from headwater.testing.scripted import served
from headwater.wire.times import show_time

pytestmark = pytest.mark.anyio


class Hat(msgspec.Struct):
    """An item of the shop."""

    id: str
    price: int = 0


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[LocalLog]:
    opened = local_log(Settings(), tmp_path / "data", SystemClock())
    await opened.open()
    yield opened
    await opened.aclose()


@pytest.fixture
async def performer(log: LocalLog) -> AsyncIterator[DocumentsPerformer]:
    """Where the operations are performed: in this process, or behind HTTP."""
    made = DocumentsPerformer(log=log)
    await opens(made, log)
    yield made
    await closes(made, log)


@pytest.fixture(params=["directory", "http"])
async def backend(request: pytest.FixtureRequest, log: LocalLog, performer: DocumentsPerformer) -> AsyncIterator[Backend]:
    if request.param == "directory":
        yield LocalBackend(log, performers={"documents": performer})
        return
    async with served(app_over(log, performers={"documents": performer})) as url:
        remote = remote_log(url, token=None, clock=SystemClock())
        yield ForwardingBackend(remote.backend, connect=lambda address: remote.backend)
        await remote.aclose()


@pytest.fixture
def documents(backend: Backend) -> Documents:
    return Documents(backend)


@pytest.fixture
def shop(documents: Documents) -> Resource:
    return documents["shop/catalogue~"]


async def all_of(items: Any) -> list[Any]:
    return [item async for item in items]


async def some(items: AsyncIterator[Any], count: int) -> list[Any]:
    found = []
    async for item in items:
        found.append(item)
        if len(found) == count:
            break
    await items.aclose()  # type: ignore[attr-defined]
    return found


# -- one path -----------------------------------------------------------------------------------------------------


async def test_an_item_is_written_and_read(shop: Resource) -> None:
    written = await shop.put("hat", {"price": 12, "none": None})
    assert (written.revision, written.created, written.path, written.etag) == (1, True, "shop/catalogue~/hat", '"1"')
    assert await shop.get("hat") == Document(path="shop/catalogue~/hat", body={"id": "hat", "price": 12}, revision=1, etag='"1"')
    assert (await shop.get("hat", type=Hat)).body == Hat("hat", 12)
    assert (await shop["hat"].get(type=msgspec.Raw)).body == msgspec.Raw(b'{"id":"hat","price":12}')
    assert (await shop.patch("hat", {"price": None})).revision == 2
    assert (await shop.patch("hat", [{"op": "add", "path": "/n", "value": 1}], kind="operations")).revision == 3
    assert (await shop["hat"].patch({"n": 2}, kind="increment")).revision == 4
    assert (await shop.get("hat")).body == {"id": "hat", "n": 3}
    posted = await shop.post({"price": 3})
    assert posted.created
    assert (await shop[posted.path.rpartition("/")[2]].get(type=Hat)).body.price == 3
    assert (await shop.delete("hat")).revision == 6
    with pytest.raises(DocumentNotFound, match="There is no item shop/catalogue~/hat"):
        await shop.get("hat")


async def test_a_document_is_written_and_read(documents: Documents) -> None:
    settings = documents["shop/settings"]
    assert (await settings.put({"open": True})).revision == 1
    assert (await settings.put("text", if_match=1)).revision == 2
    assert (await settings.get(type=str)).body == "text"
    with pytest.raises(NotMatched, match="has revision 2"):
        await settings.put(None, if_match='"1"')
    with pytest.raises(NotMatched):
        await settings.put(1, if_none_match="*")
    with pytest.raises(NotMatched):
        await settings.delete(if_match=1)
    assert (await settings.put(1.10, ttl="1h", idempotency_key="k")).revision == 3
    assert (await settings.put(1.10, ttl="1h", idempotency_key="k")).revision == 3
    with pytest.raises(KeyReused):
        await settings.put(2, idempotency_key="k")
    with pytest.raises(BadInput, match="is no Hat"):
        await settings.get(type=Hat)


async def test_mistakes_are_told_before_anything_is_asked(documents: Documents, shop: Resource) -> None:
    for path in ("a b", "a~/b~/c", "a//b", ""):
        with pytest.raises(BadPath):
            documents[path]
    with pytest.raises(BadInput):
        documents[7]  # type: ignore[index]
    with pytest.raises(BadInput, match="no collection"):
        await documents["a"].put("id", {})
    with pytest.raises(BadInput, match="no id of an item"):
        await shop.get("a/b")
    with pytest.raises(BadInput, match="no number of items"):
        await all_of(shop.query(size=0))
    with pytest.raises(CollectionPut):
        await shop.put({})
    with pytest.raises(BadInput, match="no prefix"):
        await all_of(documents.feed("shop"))


# -- queries and indexes ------------------------------------------------------------------------------------------


@pytest.fixture
async def filled(shop: Resource) -> Resource:
    for number in range(1, 8):
        await shop.put(f"i{number}", {"price": number})
    return shop


async def test_numbers_that_json_has_not_are_refused(shop: Resource) -> None:
    for call in (
        lambda: shop.put("a", {"x": float("nan")}),
        lambda: shop.patch("a", {"x": float("inf")}),
        lambda: shop.post({"x": [float("nan")], "y": None}),
        lambda: shop.put("a", {"x": Decimal("NaN")}),
    ):
        with pytest.raises(BadInput, match="holds a number that JSON has not"):
            await call()
    with pytest.raises(DocumentNotFound):
        await shop.get("a")


async def test_queries(filled: Resource) -> None:
    found = [item.price async for item in filled.query("price > 2", sort="price:desc", type=Hat)]
    assert found == [7, 6, 5, 4, 3]
    assert [item["id"] async for item in filled.query(sort="-price", size=2)] == ["i7", "i6"]
    assert len(await all_of(filled.query())) == 7
    assert await filled.count("price < 4") == 3
    assert (await filled.explain("price > 2"))["index"] is None
    with pytest.raises(BadFilter, match="at character 9"):
        await all_of(filled.query("price > "))
    with pytest.raises(SkippedRowsLimited):
        await all_of(filled.query("price > 6", skip_max=1))


async def test_indexes_are_built_and_used(filled: Resource) -> None:
    made = await filled.indexes.create("by-price", sort="-price:decimal", filter="price > 1")
    assert (made.index, made.path) == ("by-price", "shop/catalogue~")

    async def ready() -> bool:
        return (await filled.indexes.status("by-price")).status == "ready"

    await until(ready)
    assert (await filled.explain("price > 2", sort="-price"))["index"] == "by-price"
    assert [item["price"] async for item in filled.query("price > 5", sort="price:desc")] == [7, 6]
    assert [one.index_id for one in await filled.indexes.list()] == ["by-price"]
    with pytest.raises(AlreadyExists):
        await filled.indexes.create("by-price")
    assert (await filled.indexes.put("by-price", sort="-price:decimal", filter="price > 1")).index == "by-price"
    with pytest.raises(AlreadyExists):
        await filled.indexes.put("by-price", sort="price:decimal")
    with pytest.raises(BadFilter):
        await filled.indexes.create(filter="price >")
    with pytest.raises(BadInput, match="no field of an order"):
        await filled.indexes.create(sort="price:number")
    await filled.indexes.drop("by-price", dry_run=True)
    await filled.indexes.drop("by-price")
    with pytest.raises(UnknownIndex):
        await filled.indexes.drop("by-price")


async def test_a_view_shows_what_others_hold(documents: Documents, shop: Resource) -> None:
    await shop.put("hat", {"price": 12})
    await shop.put("sock", {"price": 3})
    made = await documents.views.put("cheap~", "shop/catalogue~/{*}", filter="price < 10")
    assert (made.path, made.template_uri, made.filter) == ("cheap~", "shop/catalogue~/{*}", "price < 10")

    async def shows(wanted: list[str]) -> bool:
        try:
            return [item["id"] async for item in documents["cheap~"].query()] == wanted
        except DocumentNotFound:
            return False

    await until(lambda: shows(["sock"]))
    await shop.put("hat", {"price": 2})
    await until(lambda: shows(["hat", "sock"]))
    with pytest.raises(ViewModification):
        await documents["cheap~"].put("x", {})
    assert [one.path for one in await documents.views.list()] == ["cheap~"]
    assert (await documents.views.get("cheap~")).filter == "price < 10"
    await documents.views.delete("cheap~", dry_run=True)
    await documents.views.delete("cheap~")
    for call in (documents.views.get, documents.views.delete):
        with pytest.raises(DocumentNotFound):
            await call("cheap~")


# -- changes ------------------------------------------------------------------------------------------------------


async def test_a_feed_goes_on_behind_a_revision(shop: Resource) -> None:
    await shop.put("hat", {"n": 1})
    await shop.patch("hat", {"n": None})
    changes = shop.feed(after=0)
    first, second = await some(changes, 2)
    assert (first.kind, first.method, first.path, first.body, first.revision) == (
        "feed",
        "put",
        "shop/catalogue~/hat",
        {"id": "hat", "n": 1},
        1,
    )
    assert (second.method, second.body, second.position) == ("patch", {"n": None}, "2")
    (again,) = await some(shop.feed(after=first.position), 1)
    assert again == second


async def test_a_snapshot_comes_first(shop: Resource) -> None:
    await shop.put("a", {})
    await shop.put("b", {})
    found = await some(shop.feed(snapshot=True), 3)
    assert [(one.kind, one.method, one.path, one.revision) for one in found] == [
        ("snapshot", "put", "shop/catalogue~/a", 1),
        ("snapshot", "put", "shop/catalogue~/b", 2),
        ("snapshot:end", None, "shop/catalogue~", 2),
    ]


@pytest.mark.parametrize("body", [{"a": float("nan")}, [float("inf")], {"a": [{"b": Decimal("NaN")}]}])
async def test_what_json_cannot_hold_is_refused(shop: Resource, body: Any) -> None:
    for write in (shop.put("hat", body), shop.patch("hat", body), shop.post(body)):
        with pytest.raises(BadInput):
            await write
    with pytest.raises(BadInput):
        await shop.batch([("put", "shop/catalogue~/hat", body)])
    await shop.put("hat", {"a": None, "b": "null", "c": Decimal("1.10"), "d": msgspec.Raw(b"null")})


async def test_a_state_that_no_transaction_has_is_refused(documents: Documents) -> None:
    with pytest.raises(BadInput, match="zz"):
        await documents.transactions(state="zz")  # type: ignore[arg-type]


async def test_whoever_dies_within_a_snapshot_begins_it_anew(documents: Documents, shop: Resource) -> None:
    """With the revision of one item as the position, the items with lower revisions that had not come yet would never come."""
    await shop.put("b", {})
    await shop.put("a", {})
    for begun in (shop.feed(snapshot=True), shop.feed(after=99)):
        seen = await some(begun, 2)
        assert {one.kind for one in seen} <= {"snapshot", "reset"}
        for change in seen:
            again = await some(shop.feed(after=change.position), 3)
            assert [one.path for one in again] == ["shop/catalogue~/a", "shop/catalogue~/b", "shop/catalogue~"]
            assert again[-1].position == "2"
    (part,) = await some(documents.feed("shop/", snapshot=True), 1)
    again = await some(documents.feed("shop/", after=part.position), 3)
    assert [one.kind for one in again] == ["snapshot", "snapshot", "snapshot:end"]
    (part,) = await some(shop.feed(filter="n = null"), 1)
    assert [one.kind for one in await some(shop.feed(after=part.position, filter="n = null"), 3)] == [
        "snapshot",
        "snapshot",
        "snapshot:end",
    ]


@pytest.mark.parametrize("method", ["reset", "snapshot:put"])
async def test_a_stream_that_breaks_within_a_snapshot_begins_it_anew(method: str) -> None:
    """Wherever the feed began: one that only wanted what comes lacks what the snapshot would have told."""
    asked: list[PollContent] = []

    class Breaking:
        async def stream(self, operation: object, request: PollContent, resume: Callable[[ShownDocumentChange], PollContent]) -> Any:
            shown = ShownDocumentChange(method=method, path="a", revision=7)  # type: ignore[arg-type]
            yield shown
            asked.append(resume(shown))
            yield ShownDocumentChange(method="feed:put", path="a", revision=8, position="8")
            asked.append(resume(ShownDocumentChange(method="feed:put", path="a", revision=8, position="8")))

    async for _ in followed(Breaking(), PollContent(path="a")):  # type: ignore[arg-type]
        pass
    assert [(one.after, one.snapped) for one in asked] == [(None, True), ("8", False)]


async def test_a_live_query_tells_who_enters_and_leaves(shop: Resource) -> None:
    await shop.put("a", {"n": 1})
    changes = shop.feed(filter="n > 1")
    assert (await anext(changes)).kind == "snapshot:end"
    await shop.put("a", {"n": 2})
    entered = await anext(changes)
    assert (entered.kind, entered.body) == ("enter", {"id": "a", "n": 2})
    await shop.put("a", {"n": 0})
    assert (await anext(changes)).kind == "leave"
    await changes.aclose()  # type: ignore[attr-defined]


async def test_a_feed_of_everything_below_a_path(documents: Documents) -> None:
    await documents["shop/a"].put(1)
    changes = documents.feed("shop/", snapshot=True)
    assert [one.kind for one in (await anext(changes), await anext(changes))] == ["snapshot", "snapshot:end"]
    await documents["other"].put(1)
    await documents["shop/b~"].post({})
    change = await anext(changes)
    assert (change.kind, change.revision, change.path.startswith("shop/b~/")) == ("feed", 1, True)
    await changes.aclose()  # type: ignore[attr-defined]
    await documents["shop/a"].put(2)
    (again,) = await some(documents.feed("shop/", after=change.position), 1)
    assert (again.path, again.body) == ("shop/a", 2)


async def test_history_and_what_was(documents: Documents) -> None:
    doc = documents["a"]
    for number in range(1, 4):
        await doc.put({"n": number})
    assert [one.revision async for one in doc.history()] == [1, 2, 3]
    assert [one.body["n"] async for one in doc.history(reverse=True, after=3)] == [2, 1]
    assert (await doc.get(revision=2)).body == {"n": 2}
    assert (await doc.restore(1, dry_run=True)).revision == 3
    assert (await doc.restore(1)).revision == 4
    assert (await doc.get()).body == {"n": 1}
    since = await doc.since(2)
    assert ([one.body for one in since.items], since.revision, since.reset) == ([{"n": 1}], 4, False)
    with pytest.raises(BadInput):
        await doc.restore("x")


async def test_batches(documents: Documents, shop: Resource) -> None:
    outcomes = await documents.batch([("put", "a", 1), ("patch", "none", {}), BatchLine(method="put", path="a", body=msgspec.Raw(b"2"))])
    assert [one.code if isinstance(one, HeadwaterError) else one.revision for one in outcomes] == [1, "not_found", 2]
    assert isinstance(outcomes[1], DocumentNotFound)
    done = await shop.batch([("put", "shop/catalogue~/1", {}), ("put", "shop/catalogue~/2", {})], idempotency_key="k")
    assert [one.revision for one in done] == [1, 2]
    with pytest.raises(DocumentNotFound, match="Write 2 of the batch"):
        await shop.batch([("delete", "shop/catalogue~/1"), ("delete", "shop/catalogue~/3")])
    assert await shop.count() == 2
    with pytest.raises(BadInput, match="is no write"):
        await documents.batch([("get", "a")])  # type: ignore[list-item]


async def test_transactions_and_the_whole(documents: Documents) -> None:
    written = await documents["a"].put(1)
    assert (await documents.transaction(written.transaction, wait=5)).state == "published"
    assert [one.path for one in await documents.transactions("a")] == ["a"]
    assert [one.path for one in await all_of(documents.list())] == ["a"]
    assert [one.path for one in await all_of(documents.list("", "a"))] == []
    with pytest.raises(Timeout, match="not done within 0 s"):
        await documents.batch([("delete", "none")], timeout=0)
    assert (await documents.status()).created
    assert (await documents.trail("a")).revision == 1
    assert (await documents.verify()).records == 1
    assert (await documents.rebuild(dry_run=True)).records == 1
    assert (await documents.rebuild(why="a test")).records == 1
    assert (await documents["a"].get()).body == 1


# -- around it ----------------------------------------------------------------------------------------------------


async def test_the_topic_belongs_to_documents(log: LocalLog, performer: DocumentsPerformer) -> None:
    documents = Documents(LocalBackend(log, performers={"documents": performer}))
    assert [one async for one in documents.list()] == []
    with pytest.raises(UnknownTopic):
        await log.topic("hyper-storage")  # reading has made nothing
    await documents["a"].put(1)
    assert (await log.topic("hyper-storage")).settings.owner == "documents"
    with pytest.raises(HeadwaterError, match="documents"):
        await log.append("hyper-storage", 0, [headwater.Record(key=b"a", value=b"1")])


async def test_a_log_that_forgets_is_verified_and_rebuilt_from_its_base_copy(
    tmp_path: Path, documents: Documents, performer: DocumentsPerformer
) -> None:
    for number in range(5):
        await documents["a"].put(number)
    opened = await performer.opened()
    number, topic, partition = opened.partition_of("a"), opened.topic, opened.opened(opened.partition_of("a"))
    assert opened.bases is not None
    assert topic is not None
    assert partition is not None
    opened.bases.write_to(opened.log, opened.reads(number).store, topic, number, 3)
    assert partition.delete_before(3) == 3
    assert (tmp_path / "data" / "base" / "documents" / f"{number}.json").exists()
    assert (await documents.verify()).records == 5
    assert (await documents.rebuild()).records == 5
    assert (await documents["a"].get()).body == 4
    assert [change.kind for change in await some(documents["a"].feed(after=0), 3)] == ["reset", "snapshot", "snapshot:end"]
    assert (await documents["a"].since(0)).reset


async def test_times_are_told_as_text_and_the_door_gives_milliseconds(documents: Documents, performer: DocumentsPerformer) -> None:
    before = performer.clock.now_ms()
    await documents["a"].put(1)
    (change,) = await all_of(documents["a"].history())
    assert before <= change.time <= performer.clock.now_ms()
    (listed,) = await all_of(documents.list())
    (written,) = await documents.transactions()
    (changed,) = (await documents["a"].since(0)).items
    assert listed.modified == written.time == changed.time == show_time(change.time)


async def test_what_expires_is_deleted_by_itself(documents: Documents) -> None:
    await documents["a"].put(1, ttl="5ms")
    changes = await some(documents["a"].feed(after=1), 1)
    assert (changes[0].method, changes[0].revision) == ("delete", 2)


def test_the_door_without_asyncio(tmp_path: Path) -> None:
    with headwater.open_blocking(tmp_path / "data", create=True) as hw:
        shop = hw.documents["shop/catalogue~"]
        shop.put("hat", {"price": 12})
        assert shop.get("hat", type=Hat).body.price == 12
        assert [item["id"] for item in shop.query("price > 1")] == ["hat"]
        assert shop.indexes.list() == []
        assert [one.path for one in hw.documents.list()] == ["shop/catalogue~"]
    with headwater.open_blocking(tmp_path / "data") as hw:
        assert hw.documents["shop/catalogue~/hat"].get().revision == 1


async def test_an_export_has_everything_once_whatever_its_pages(documents: Documents, performer: DocumentsPerformer) -> None:
    paths = ["a", "b/c", *(f"c~/{number:03}" for number in range(120)), "d~/1"]
    await documents.batch([("put", path, {"n": 1}) for path in paths])
    await documents["d~/2"].put({"n": 2}, ttl="10h")
    await documents.views.put("v~", "d~/{*}")
    found = [one async for one in documents.export()]
    assert [one.path for one in found] == [*paths, "d~/2"]
    assert [one.path for one in found if one.expires is not None] == ["d~/2"]
    assert msgspec.json.decode(found[2].body) == {"id": "000", "n": 1}
    for limit in (1, 7, 50):
        got, after = list[str](), ""
        while after is not None:
            page = await performer.content_export(ExportContent(prefix="", after=after, limit=limit))
            assert len(page.items) <= limit
            got += [one.path for one in page.items]
            after = page.next
        assert got == [*paths, "d~/2"]
    assert [one.path async for one in documents.export("b", after="b/c")] == []
    assert [one.path async for one in documents.export("c~", after="c~/117")] == ["c~/118", "c~/119"]


async def test_an_export_goes_on_below_its_prefix_alone(documents: Documents) -> None:
    await documents.batch([("put", path, {}) for path in ("a~/1", "a~/2", "b/c", "b/d~/1", "b/d~/2")])
    await documents.views.put("v~", "a~/{*}")
    assert [one.path async for one in documents.export("b/", after="b/d~/1")] == ["b/d~/2"]
    for after in ("a~/1", "c~/1", "c", "v~/1"):
        with pytest.raises(BadInput, match="b/"):
            _ = [one async for one in documents.export("b/", after=after)]
    assert [one.path async for one in documents.export(after="v~/1")] == []
    assert [one.path async for one in documents.export(after="none~/1")] == []

"""Documents over HTTP: every verb, path and failure, with its status, headers and body as they travel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headwater.client.documents_performer import DocumentsPerformer
from headwater.client.local import LocalLog, local_log
from headwater.core.clock import SystemClock
from headwater.core.settings import Settings
from headwater.documents.follow_requests import PollContent
from headwater.server.auth import Tokens
from headwater.testing.app import app_over

pytestmark = pytest.mark.anyio
CONTENT = "/hyper-storage/content"
LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[LocalLog]:
    opened = local_log(Settings(), tmp_path / "data", SystemClock())
    await opened.open()
    yield opened
    await opened.aclose()


@pytest.fixture
async def http(log: LocalLog) -> AsyncIterator[httpx2.AsyncClient]:
    performers = {"documents": DocumentsPerformer(log=log)}
    transport = httpx2.ASGITransport(app=app_over(log, performers=performers))
    async with httpx2.AsyncClient(base_url="http://server", transport=transport) as client:
        yield client
    await performers["documents"].aclose()


async def test_a_view_shows_nothing_that_its_maker_may_not_read(log: LocalLog, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    views, content = "prefix=/hyper-storage/views", "prefix=/hyper-storage/content/shop"
    file.write_text(f"operator token-of-everything\noperator token-of-the-shop {views} {content}\n")
    file.chmod(0o600)
    performers = {"documents": DocumentsPerformer(log=log)}
    transport = httpx2.ASGITransport(app=app_over(log, performers=performers, tokens=Tokens.load(file)))
    async with httpx2.AsyncClient(base_url="http://server", transport=transport) as client:

        async def make(template: str, token: str) -> int:
            headers = {"authorization": f"Bearer {token}"}
            answer = await client.put("/hyper-storage/views/v~?dry_run=true", json={"templateUri": template}, headers=headers)
            return int(answer.status_code)

        for template in ("secret/{*}", "{*}/hats", "shop-old/{*}", "SHOP/{*}", "shop/../secret/{*}", "shop/%2e%2e/secret/{*}", "shop~/{*}"):
            assert await make(template, "token-of-the-shop") == 403
        assert await make("shop/{*}", "token-of-the-shop") == 200
        assert await make("secret/{*}", "token-of-everything") == 200
    await performers["documents"].aclose()


def problem(answer: Any) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == answer.status_code
    return answer.status_code, answer.json()["code"]


def told(answer: Any) -> tuple[int, int]:
    """The status and the revision of a write."""
    assert answer.json()["revision"] == int(answer.headers["hyperbus-revision"])
    return answer.status_code, answer.json()["revision"]


async def put(http: httpx2.AsyncClient, path: str, body: Any = 1, **headers: str) -> Any:
    return await http.put(f"{CONTENT}/{path}", json=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


async def get(http: httpx2.AsyncClient, path: str, **headers: str) -> Any:
    return await http.get(f"{CONTENT}/{path}", headers={name.replace("_", "-"): value for name, value in headers.items()})


# -- verbs --------------------------------------------------------------------------------------------------------


async def test_a_document_from_its_creation_to_its_return(http: httpx2.AsyncClient) -> None:
    created = await put(http, "abc/123", {"a": 10, "x": "hello", "none": None, "deep": {"none": None, "list": [None]}})
    assert told(created) == (201, 1)
    assert (created.headers["location"], created.headers["etag"]) == (f"{CONTENT}/abc/123", '"1"')
    found = await get(http, "abc/123")
    assert found.json() == {"a": 10, "x": "hello", "deep": {"list": [None]}}
    assert (found.headers["hyperbus-revision"], found.headers["etag"], found.headers["content-type"]) == ("1", '"1"', "application/json")
    replaced = await put(http, "abc/123", {"a": 11})
    assert told(replaced) == (200, 2)
    assert "location" not in replaced.headers
    assert told(await http.patch(f"{CONTENT}/abc/123", json={"a": None, "b": {"c": 1}})) == (200, 3)
    assert (await get(http, "abc/123")).json() == {"b": {"c": 1}}
    deleted = await http.delete(f"{CONTENT}/abc/123")
    assert told(deleted) == (200, 4)
    assert "etag" not in deleted.headers
    assert problem(await get(http, "abc/123")) == (404, "not_found")
    assert problem(await http.delete(f"{CONTENT}/abc/123")) == (404, "not_found")
    assert problem(await http.patch(f"{CONTENT}/abc/123", json={})) == (404, "not_found")
    assert told(await put(http, "abc/123", "again")) == (201, 5)  # what was refused took no revision


async def test_a_collection_and_its_items(http: httpx2.AsyncClient) -> None:
    assert problem(await get(http, "c~")) == (404, "not_found")
    assert told(await put(http, "c~/1", {"id": "other", "n": 1})) == (201, 1)
    assert (await get(http, "c~/1")).json() == {"id": "1", "n": 1}
    posted = await http.post(f"{CONTENT}/c~", json={"n": 2})
    assert told(posted) == (201, 2)
    path = posted.json()["path"]
    assert posted.headers["location"] == f"{CONTENT}/{path}"
    assert (await get(http, path)).json() == {"id": path.removeprefix("c~/"), "n": 2}
    assert told(await http.patch(f"{CONTENT}/c~/1", json={"id": "x", "m": 3})) == (200, 3)
    one = await get(http, "c~/1")
    assert one.json() == {"id": "1", "n": 1, "m": 3}
    two = await get(http, path)
    assert (two.headers["hyperbus-revision"], two.headers["etag"]) == ("3", '"2"')  # the collection's, and its own
    assert told(await http.delete(f"{CONTENT}/c~/1")) == (200, 4)
    assert problem(await http.delete(f"{CONTENT}/c~/1")) == (404, "not_found")
    assert told(await http.delete(f"{CONTENT}/{path}")) == (200, 5)
    empty = await get(http, "c~")
    assert (empty.status_code, empty.headers["hyperbus-revision"], empty.json()["_embedded"]) == (200, "5", {"els": []})
    assert told(await http.delete(f"{CONTENT}/c~")) == (200, 6)
    assert problem(await get(http, "c~")) == (404, "not_found")
    assert problem(await http.delete(f"{CONTENT}/c~")) == (404, "not_found")
    assert told(await put(http, "c~/2", {})) == (201, 7)
    assert (await get(http, "c~")).json()["_embedded"] == {"els": [{"id": "2"}]}  # items of the life before do not return


async def test_what_a_path_does_not_take(http: httpx2.AsyncClient) -> None:
    await put(http, "c~/1", {})
    assert problem(await put(http, "c~", {})) == (409, "collection-put-not-implemented")
    patched = await http.patch(f"{CONTENT}/c~", json={})
    assert (problem(patched), patched.headers["allow"]) == ((405, "bad-method"), "DELETE, GET, HEAD, OPTIONS, POST")
    for path in ("a", "c~/1"):
        posted = await http.post(f"{CONTENT}/{path}", json={})
        assert (problem(posted), posted.headers["allow"]) == ((405, "bad-method"), "DELETE, GET, HEAD, OPTIONS, PATCH, PUT")
    for body in (1, "text", [1]):
        assert problem(await put(http, "c~/2", body))[0] == 422
        assert problem(await http.post(f"{CONTENT}/c~", json=body))[0] == 422


@pytest.mark.parametrize("path", ["a", "a/~b", "a~/1/2", "a.b:c/[x]/(y)", "a~b"])
async def test_documents_by_their_paths(path: str, http: httpx2.AsyncClient) -> None:
    created = await put(http, path, "text")
    assert told(created) == (201, 1)
    assert (await http.get(created.headers["location"])).json() == "text"


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("a~/b~/c", "below a collection"),
        ("a//b", "empty segment"),
        ("a/", "empty segment"),
        ("", "empty segment"),
        ("a%20b", "' ' at character 2"),
        ("a%25b", "'%' at character 2"),
        ("a%2Fb", "'%' at character 2"),
        ("a%3Fb", "'?' at character 2"),
        ("%C3%A4", "'ä' at character 1"),
        ("%FF", "at character 1"),
        ("a%00", "at character 2"),
        ("x" * 2049, "2049 characters"),
    ],
)
async def test_a_bad_path_is_refused_at_once_and_the_character_is_named(path: str, says: str, http: httpx2.AsyncClient) -> None:
    for answer in (await get(http, path), await put(http, path), await http.delete(f"{CONTENT}/{path}")):
        assert problem(answer) == (400, "bad-path")
        assert says in answer.json()["detail"]


# -- conditions ---------------------------------------------------------------------------------------------------


async def test_if_match_and_if_none_match_of_writes(http: httpx2.AsyncClient) -> None:
    assert problem(await put(http, "a", 1, If_Match="*")) == (412, "not-matched")
    assert told(await put(http, "a", 1, If_None_Match="*")) == (201, 1)
    assert problem(await put(http, "a", 2, If_None_Match="*")) == (412, "not-matched")
    assert problem(await put(http, "a", 2, If_Match='"7"')) == (412, "not-matched")
    assert problem(await put(http, "a", 2, If_Match='W/"1"')) == (412, "not-matched")
    assert problem(await put(http, "a", 2, If_Match="1")) == (400, "bad-input")
    assert told(await put(http, "a", 2, If_Match='"7", "1"')) == (200, 2)
    assert problem(await http.request("DELETE", f"{CONTENT}/a", headers={"If-Match": '"1"'})) == (412, "not-matched")
    assert told(await http.request("DELETE", f"{CONTENT}/a", headers={"If-Match": '"2"'})) == (200, 3)


async def test_conditions_of_reads(http: httpx2.AsyncClient) -> None:
    await put(http, "a", 1)
    unchanged = await get(http, "a", If_None_Match='"1"')
    assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", '"1"')
    assert (await get(http, "a", If_None_Match='W/"1"')).status_code == 304
    assert (await get(http, "a", If_None_Match="*")).status_code == 304
    assert (await get(http, "a", If_None_Match='"7"')).status_code == 200
    assert (await get(http, "a", If_Match='"1"')).status_code == 200
    assert problem(await get(http, "a", If_Match='"7"')) == (412, "not-matched")
    await put(http, "c~/1", {})
    assert (await get(http, "c~", If_None_Match='"1"')).status_code == 304


# -- bodies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "media", ["application/json", "application/vnd.x+json", "application/json; charset=utf-8", "APPLICATION/JSON", None]
)
async def test_every_json_is_a_body(media: str | None, http: httpx2.AsyncClient) -> None:
    headers = {} if media is None else {"Content-Type": media}
    assert told(await http.put(f"{CONTENT}/a", content=b' {"n": 1.10} ', headers=headers)) == (201, 1)
    assert (await get(http, "a")).content == b'{"n":1.10}'


@pytest.mark.parametrize(
    "media", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "application/x-ndjson"]
)
async def test_other_types_are_refused_with_the_header_to_add(media: str, http: httpx2.AsyncClient) -> None:
    refused = await http.put(f"{CONTENT}/a", content=b"{}", headers={"Content-Type": media})
    assert problem(refused) == (415, "bad-type")
    assert "Content-Type: application/json" in refused.json()["hint"]


@pytest.mark.parametrize("body", [b"", b"{", b"nul", b'{"a":1}{}', b'"\xff"', b"[" * 5000, b"NaN"])
async def test_what_is_no_json_is_refused(body: bytes, http: httpx2.AsyncClient) -> None:
    answer = await http.put(f"{CONTENT}/a", content=body)
    assert problem(answer)[0] in (400, 422)
    assert problem(await get(http, "a")) == (404, "not_found")


async def test_a_body_that_is_too_large_is_refused(http: httpx2.AsyncClient) -> None:
    assert problem(await put(http, "a", "x" * (4 << 20))) == (413, "too-large")


async def test_kinds_of_patches(http: httpx2.AsyncClient) -> None:
    await put(http, "a", {"n": 1, "deep": {"x": 1, "y": 2}})

    async def patch(media: str, body: Any) -> Any:
        return await http.request("PATCH", f"{CONTENT}/a", json=body, headers={"Content-Type": media})

    assert told(await patch("application/merge-patch+json", {"deep": {"x": None}})) == (200, 2)
    assert told(await patch("application/json-patch+json", [{"op": "replace", "path": "/deep", "value": 3}])) == (200, 3)
    assert told(await patch("application/vnd.hyper-storage-increment+json", {"n": 2, "deep": -1})) == (200, 4)
    assert (await get(http, "a")).json() == {"n": 3, "deep": 2}
    assert problem(await patch("application/json-patch+json", [{"op": "test", "path": "/n", "value": 4}])) == (412, "not-matched")
    assert problem(await patch("application/json-patch+json", {"op": "test"}))[0] == 400
    assert problem(await patch("application/vnd.hyper-storage-increment+json", {"n": "x"}))[0] == 422


# -- idempotency, time to live ------------------------------------------------------------------------------------


async def test_a_write_that_is_sent_twice_is_done_once(http: httpx2.AsyncClient) -> None:
    first = await http.post(f"{CONTENT}/c~", json={"n": 1}, headers={"Idempotency-Key": "k"})
    again = await http.post(f"{CONTENT}/c~", json={"n": 1}, headers={"Idempotency-Key": "k"})
    assert (first.status_code, again.status_code, again.headers["idempotency-replayed"]) == (201, 201, "true")
    assert again.json() == first.json()
    assert "idempotency-replayed" not in first.headers
    assert problem(await http.post(f"{CONTENT}/c~", json={"n": 2}, headers={"Idempotency-Key": "k"})) == (422, "key-reused")
    assert len((await get(http, "c~")).json()["_embedded"]["els"]) == 1


async def test_a_time_to_live_is_a_duration(http: httpx2.AsyncClient) -> None:
    assert told(await put(http, "a", 1, Hyper_Storage_TTL="10m")) == (201, 1)
    assert problem(await put(http, "a", 1, Hyper_Storage_TTL="10")) == (400, "bad-input")


# -- queries ------------------------------------------------------------------------------------------------------


@pytest.fixture
async def shop(http: httpx2.AsyncClient) -> httpx2.AsyncClient:
    for number in range(1, 6):
        await put(http, f"shop/c~/i{number}", {"price": number, "kind": "odd" if number % 2 else "even"})
    return http


def items(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["_embedded"]["els"]]


async def test_pages_are_linked(shop: httpx2.AsyncClient) -> None:
    seen = []
    address = f"{CONTENT}/shop/c~?size=2"
    while address:
        page = await shop.get(address)
        seen.append(items(page))
        address = page.links["next"]["url"] if "next" in page.links else ""
        assert page.json()["_links"].get("next", {}).get("href", "") == address
    assert seen == [["i1", "i2"], ["i3", "i4"], ["i5"]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ('size=50&id>"i3"', ["i4", "i5"]),
        ("size=50&filter=id > 'i3'", ["i4", "i5"]),
        ("filter=price%3E2&sort=-price", ["i5", "i4", "i3"]),
        ('filter=kind = "odd"&sort=+kind,-price', ["i5", "i3", "i1"]),
        ("size=1&sort=-price", ["i5"]),
    ],
)
async def test_queries_as_they_are_written(query: str, found: list[str], shop: httpx2.AsyncClient) -> None:
    assert items(await shop.get(f"{CONTENT}/shop/c~?{query}")) == found


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("size=0", 400, "bad-input"),
        ("size=x", 400, "bad-input"),
        ("filter=price >", 400, "bad-filter"),
        ("sort=-", 400, "bad-filter"),
        ("cursor=x", 400, "bad-input"),
        ("nope=1", 400, "bad-input"),
        ("explain=x", 400, "bad-input"),
        ("filter=price > 4&skipMax=1", 504, "query-skipped-rows-limited"),
        ("revision=1&since=1", 400, "bad-input"),
    ],
)
async def test_queries_that_are_refused(query: str, status: int, code: str, shop: httpx2.AsyncClient) -> None:
    assert problem(await shop.get(f"{CONTENT}/shop/c~?{query}")) == (status, code)


async def test_a_document_takes_no_query(shop: httpx2.AsyncClient) -> None:
    assert problem(await shop.get(f"{CONTENT}/shop/c~/i1?filter=price > 1")) == (400, "bad-input")


async def test_a_query_is_counted_and_explained(shop: httpx2.AsyncClient) -> None:
    answer = (await shop.get(f"{CONTENT}/shop/c~?filter=price > 2&size=1&count=1&explain")).json()
    assert (answer["count"], answer["explain"]["index"], len(answer["_embedded"]["els"])) == (3, None, 1)


# -- indexes ------------------------------------------------------------------------------------------------------


async def test_indexes_by_the_older_and_the_newer_addresses(shop: httpx2.AsyncClient) -> None:
    new = {"indexId": "index1", "sortBy": [{"fieldName": "price", "order": "asc", "fieldType": "decimal"}], "filterBy": "price > 1"}
    made = await shop.post(
        "/hyper-storage/indexes/shop%2Fc", json=new, headers={"Content-Type": "application/vnd.hyper-storage-index-new+json"}
    )
    assert (made.status_code, made.json()["indexId"], made.json()["path"]) == (201, "index1", "shop/c~")
    for address in (made.headers["location"], "/hyper-storage/indexes/shop/c~/index1", "/hyper-storage/indexes/shop%2Fc/index1"):
        shown = (await shop.get(address)).json()
        assert (shown["indexId"], shown["filterBy"], shown["sortBy"]) == ("index1", "price > 1", new["sortBy"])
    assert problem(await shop.post("/hyper-storage/indexes/shop/c~", json=new)) == (409, "already-exists")
    assert (await shop.put("/hyper-storage/indexes/shop/c~/index1", json={**new})).status_code == 200
    assert problem(await shop.put("/hyper-storage/indexes/shop/c~/index1", json={"filterBy": "price > 2"})) == (409, "already-exists")
    assert (await shop.put("/hyper-storage/indexes/shop/c~/index2", json={})).status_code == 201
    listed = (await shop.get("/hyper-storage/indexes/shop/c~")).json()["items"]
    assert [one["indexId"] for one in listed] == ["index1", "index2"]
    page = (await shop.get("/hyper-storage/indexes/shop/c~?limit=1")).json()
    assert page["next"] == "index1"
    assert [one["indexId"] for one in (await shop.get("/hyper-storage/indexes/shop/c~?cursor=index1")).json()["items"]] == ["index2"]
    assert (await shop.delete("/hyper-storage/indexes/shop/c~/index1?dry_run=true")).status_code == 204
    assert (await shop.delete("/hyper-storage/indexes/shop/c~/index1")).status_code == 204
    assert problem(await shop.delete("/hyper-storage/indexes/shop/c~/index1")) == (404, "index-not-found")
    assert problem(await shop.get("/hyper-storage/indexes/shop/c~/index7")) == (404, "index-not-found")


@pytest.mark.parametrize(
    ("new", "code"),
    [
        ({"filterBy": "price >"}, "bad-filter"),
        ({"sortBy": [{"fieldName": "a b"}]}, "bad-filter"),
        ({"sortBy": [{"fieldName": "a", "order": "up"}]}, "bad-input"),
        ({"indexId": "a/b"}, "bad-input"),
        ({"filterby": "price > 1"}, "bad-input"),
    ],
)
async def test_an_index_that_cannot_be_made_is_refused(new: dict[str, Any], code: str, shop: httpx2.AsyncClient) -> None:
    assert problem(await shop.post("/hyper-storage/indexes/shop/c~", json=new)) == (400, code)
    assert (await shop.get("/hyper-storage/indexes/shop/c~")).json()["items"] == []


async def test_an_item_has_no_indexes(http: httpx2.AsyncClient) -> None:
    assert problem(await http.get("/hyper-storage/indexes/a~%2Fb")) == (400, "bad-input")
    assert problem(await http.get("/hyper-storage/indexes/a%20b~")) == (400, "bad-path")


# -- changes ------------------------------------------------------------------------------------------------------


async def lines(http: httpx2.AsyncClient, address: str, **headers: str) -> list[dict[str, Any]]:
    answer = await http.get(address, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson"), answer.text
    return [httpx2.Response(200, content=line).json() for line in answer.content.splitlines()]


async def test_the_feed_tells_what_was_applied(http: httpx2.AsyncClient) -> None:
    await put(http, "c~/1", {"n": 1, "none": None})
    await http.patch(f"{CONTENT}/c~/1", json={"n": None})
    await http.delete(f"{CONTENT}/c~/1")
    told_of = [
        (one["revision"], one["method"], one["path"], one.get("body")) for one in await lines(http, "/hyper-storage/feed/c~?after=0")
    ]
    assert told_of == [
        (1, "feed:put", "c~/1", {"id": "1", "n": 1}),
        (2, "feed:patch", "c~/1", {"n": None}),
        (3, "feed:delete", "c~/1", None),
    ]
    assert [one["revision"] for one in await lines(http, "/hyper-storage/feed/c~?after=2")] == [3]
    assert await lines(http, "/hyper-storage/feed/c~?after=3") == []
    assert problem(await http.get("/hyper-storage/feed/c~")) == (400, "bad-input")
    assert problem(await http.get("/hyper-storage/feed/c~?after=x")) == (400, "bad-input")


@pytest.mark.parametrize(("path", "feed"), [("a/b", "a/b"), ("c~/x", "c~"), ("c~/x", "c~/x"), ("p/q", "p/")])
async def test_what_is_written_once_a_stream_is_told_of_is_in_it(log: LocalLog, path: str, feed: str) -> None:
    """The stream is asked for its first event only after its client knows of it, and may have written."""
    performer = DocumentsPerformer(log=log)
    transport = httpx2.ASGITransport(app=app_over(log, performers={"documents": performer}))
    async with httpx2.AsyncClient(base_url="http://server", transport=transport) as http:
        await put(http, path, {"n": 1})
        frames = await performer.follow.frames(PollContent(path=feed))
        await put(http, path, {"n": 2})
        async with asyncio.timeout(20):
            assert b'"n":2' in await anext(frames)
        await frames.aclose()
    await performer.aclose()


async def test_a_poll_waits_for_a_change(http: httpx2.AsyncClient) -> None:
    await put(http, "a", 1)
    polled = asyncio.create_task(lines(http, "/hyper-storage/feed/a?after=1", Prefer="wait=20"))
    await asyncio.sleep(0)
    await put(http, "a", 2)
    assert [one["revision"] for one in await polled] == [2]


async def test_history_and_what_was(http: httpx2.AsyncClient) -> None:
    for number in range(1, 5):
        await put(http, "a", {"n": number})
    page = await http.get("/hyper-storage/history/a?limit=3&reverse=true")
    assert [one["revision"] for one in page.json()["items"]] == [4, 3, 2]
    assert [one["revision"] for one in (await http.get(page.links["next"]["url"])).json()["items"]] == [1]
    was = await http.get(f"{CONTENT}/a?revision=2")
    assert (was.json(), was.headers["etag"]) == ({"n": 2}, '"2"')
    assert problem(await http.get(f"{CONTENT}/a?revision=7")) == (404, "not_found")
    assert problem(await http.get(f"{CONTENT}/a?at=2001-01-01T00:00:00Z")) == (404, "not_found")
    assert (await http.get(f"{CONTENT}/a?at=2999-01-01T00:00:00Z")).json() == {"n": 4}
    assert (await http.post("/hyper-storage/history/a?dry_run=true", json={"revision": 2})).status_code == 200
    assert told(await http.post("/hyper-storage/history/a", json={"revision": 2})) == (200, 5)
    assert (await get(http, "a")).json() == {"n": 2}
    assert problem(await http.get("/hyper-storage/history/nothing")) == (404, "not_found")


async def test_what_has_changed_since(http: httpx2.AsyncClient) -> None:
    for item in ("1", "2", "3"):
        await put(http, f"c~/{item}", {})
    await http.delete(f"{CONTENT}/c~/1")
    found = (await http.get(f"{CONTENT}/c~?since=2")).json()
    assert [(one["path"], one.get("deleted", False)) for one in found["items"]] == [("c~/3", False), ("c~/1", True)]
    assert (found["revision"], found["more"], found["reset"]) == (4, False, False)


async def test_a_document_may_be_named_history(http: httpx2.AsyncClient) -> None:
    assert told(await put(http, "a/history", 1)) == (201, 1)
    assert (await get(http, "a/history")).json() == 1


async def test_transactions(http: httpx2.AsyncClient) -> None:
    written = (await put(http, "a", 1)).json()
    shown = (await http.get(written["_links"]["self"]["href"], headers={"Prefer": "wait"})).json()
    assert (shown["transactionId"], shown["path"], shown["revision"], shown["state"]) == (written["transactionId"], "a", 1, "published")
    assert [one["revision"] for one in (await http.get("/hyper-storage/transactions?path=a")).json()["items"]] == [1]
    assert (await http.get("/hyper-storage/transactions?state=accepted")).json()["items"] == []
    assert problem(await http.get("/hyper-storage/transactions/0-ffff-1")) == (404, "not_found")
    assert problem(await http.get("/hyper-storage/transactions/nonsense")) == (400, "bad-input")


# -- batches ------------------------------------------------------------------------------------------------------


async def test_each_line_of_a_batch_is_answered(http: httpx2.AsyncClient) -> None:
    sent = b'{"method":"put","path":"a","body":1}\n{"method":"patch","path":"b","body":{}}\n{"method":"put","path":"a","body":2}\n'
    sent += b'{"method":"put","path":"a b","body":2}\n{"method":"post","path":"c~","body":{}}\n{"method":"delete","path":"a"}\n'
    answer = await http.post("/hyper-storage/batch", content=sent, headers=LINES)
    outcomes = [httpx2.Response(200, content=line).json() for line in answer.content.splitlines()]
    assert [one.get("revision") or one["code"] for one in outcomes] == [1, "not_found", 2, "bad-path", 1, 3]
    refused = await http.post("/hyper-storage/batch", content=b'{"method":"put","path":"z","body":1}\n{', headers=LINES)
    assert (problem(refused), "Line 2" in refused.json()["detail"]) == ((400, "bad-input"), True)
    assert problem(await get(http, "z")) == (404, "not_found")
    assert problem(await http.post("/hyper-storage/batch", json=[])) == (415, "bad-type")


async def test_an_atomic_batch_counts_or_does_not(http: httpx2.AsyncClient) -> None:
    good = b'{"method":"put","path":"c~/1","body":{}}\n{"method":"put","path":"c~/2","body":{}}\n'
    answer = await http.post("/hyper-storage/batch?atomic=true", content=good, headers={**LINES, "Idempotency-Key": "k"})
    assert [httpx2.Response(200, content=line).json()["revision"] for line in answer.content.splitlines()] == [1, 2]
    bad = b'{"method":"delete","path":"c~/1"}\n{"method":"delete","path":"c~/3"}\n'
    assert problem(await http.post("/hyper-storage/batch?atomic=true", content=bad, headers=LINES)) == (404, "not_found")
    assert items(await get(http, "c~")) == ["1", "2"]
    apart = b'{"method":"delete","path":"c~/1"}\n{"method":"put","path":"d","body":1}\n'
    assert problem(await http.post("/hyper-storage/batch?atomic=true", content=apart, headers=LINES)) == (400, "bad-path")
    assert problem(await http.post("/hyper-storage/batch?atomic=true", content=b"", headers=LINES)) == (400, "bad-input")


# -- the whole ----------------------------------------------------------------------------------------------------


async def test_what_there_is(http: httpx2.AsyncClient) -> None:
    assert (await http.get(CONTENT)).json() == {"items": [], "next": None}
    for path in ("a/1", "a/2", "b", "c~/1"):
        await put(http, path, {})
    await http.delete(f"{CONTENT}/a/2")
    listed = (await http.get(f"{CONTENT}?limit=2")).json()
    assert ([one["path"] for one in listed["items"]], listed["next"]) == (["a/1", "b"], "b")
    assert [one["path"] for one in (await http.get(f"{CONTENT}?after=b")).json()["items"]] == ["c~"]
    assert [one["path"] for one in (await http.get(f"{CONTENT}?prefix=a/")).json()["items"]] == ["a/1"]


async def test_status_trail_verify_and_rebuild(http: httpx2.AsyncClient) -> None:
    assert (await http.get("/hyper-storage/status")).json()["created"] is False
    await put(http, "abc/123", 1)
    status = (await http.get("/hyper-storage/status")).json()
    assert (status["topic"], [one["lag"] for one in status["partitions"]]) == ("hyper-storage", [0, 0])
    trail = (await http.get("/hyper-storage/trail/abc/123")).json()
    assert (trail["logical_partition"], trail["partition"], trail["revision"]) == (587, 1, 1)
    assert [one["state"] for one in trail["transactions"]] == ["published"]
    for address in ("verify", "rebuild"):
        job = await http.post(f"/hyper-storage/{address}", json={} if address == "rebuild" else None)
        assert job.status_code == 202
        ended = (await http.get(f"{job.headers['location']}?wait=30")).json()
        assert (ended["state"], ended["answer"]["records"]) == ("done", 1)
    assert (await get(http, "abc/123")).json() == 1

"""Documents through the real program: commands and HTTP on one directory."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx2
import pytest
from forked_program import ForkedProgram
from free_port import free_port
from program import Program
from tests.until import until

import headwater
from headwater.client.document_value import DocumentChange
from headwater.server.spawned import SpawnedServer

THROUGH = pytest.mark.parametrize("through", ["directory", "server"])
CONTENT = "/hyper-storage/content"


@pytest.fixture
def home(tmp_path: Path, forked_program: ForkedProgram) -> Program:
    (tmp_path / "data").mkdir()
    return Program(tmp_path, forked_program)


@pytest.fixture
def http(home: Program) -> Iterator[httpx2.Client]:
    with SpawnedServer(home.data) as server, httpx2.Client(base_url=server.url) as client:
        yield client


def done(home: Program, *words: str, stdin: str = "") -> Any:
    ran = home("doc", *words, "--json", stdin=stdin)
    assert ran.code == 0, ran.err
    return ran


def served(home: Program, through: str) -> Any:
    return SpawnedServer(home.data) if through == "server" else nullcontext()


# -- commands -----------------------------------------------------------------------------------------------------


@THROUGH
def test_documents_by_commands_alone(home: Program, through: str) -> None:
    with served(home, through):
        assert done(home, "put", "shop/c~/hat", '{"price": 12.50}').json["revision"] == 1
        assert done(home, "put", "shop/c~/sock", stdin='{"price": 3}').json["created"]
        assert home("doc", "get", "shop/c~/hat").json == {"id": "hat", "price": 12.5}
        assert done(home, "get", "shop/c~/hat").json["etag"] == '"1"'
        assert done(home, "patch", "shop/c~/hat", '{"price": 1}', "--kind", "increment").json["revision"] == 3
        assert done(home, "put", "shop/c~/hat", "{}", "--dry-run").json["revision"] == 3
        refused = home("doc", "put", "shop/c~/hat", "{}", "--if-match", "1", "--json")
        assert (refused.code, refused.problem["code"]) == (4, "not-matched")
        assert home("doc", "put", "shop/c~/hat", "{}", "--if-absent").code == 4
        posted = done(home, "post", "shop/c~", '{"price": 7}').json["path"]
        found = done(home, "query", "shop/c~", "--filter", "price > 4", "--sort", "price:desc").lines
        assert [item["price"] for item in found] == [13.5, 7]
        assert done(home, "explain", "shop/c~", "--filter", "price > 4").json["rowsRead"] == 3
        assert [one["path"] for one in done(home, "list", "shop/").lines] == ["shop/c~"]
        assert home("doc", "list", "none/", "--fail-empty").code == 10
        assert [one["revision"] for one in done(home, "history", "shop/c~", "--reverse").lines] == [4, 3, 2, 1]
        assert [one["method"] for one in done(home, "feed", "shop/c~/hat", "--after", "0", "--count", "2").lines] == ["put", "patch"]
        assert done(home, "restore", "shop/c~/hat", "1").json["revision"] == 5
        assert done(home, "delete", posted).json["revision"] == 6
        assert home("doc", "delete", "shop/c~").code == 5  # nobody can be asked
        assert [one["state"] for one in done(home, "transactions", "--path", "shop/c~", "--limit", "2").json] == ["published"] * 2
        way = done(home, "trail", "shop/c~", "--limit", "2").json
        assert [made["state"] for made in way["transactions"]] == ["published"] * 2
        assert way["applied"] == way["end"]
        assert done(home, "status").json["created"]
        assert home("doc", "verify").out.startswith("verify: equal. 6 records make 2 documents")
        assert done(home, "rebuild", "--yes").json["records"] == 6
        assert done(home, "delete", "shop/c~", "--yes").json["revision"] == 7
        missing = home("doc", "get", "shop/c~/hat")
        assert (missing.code, "`headwater doc put shop/c~/hat " in missing.err) == (3, True)
        bad = home("doc", "get", "a b")
        assert (bad.code, "' ' at character 2" in bad.err) == (5, True)


@THROUGH
def test_indexes_and_views_by_commands(home: Program, through: str) -> None:
    done(home, "put", "c~/1", '{"n": 1}')
    done(home, "put", "c~/2", '{"n": 2}')
    with served(home, through):
        assert done(home, "index", "create", "c~", "by-n", "--sort=-n:decimal", "--dry-run").json["indexId"] == "by-n"
        assert done(home, "index", "list", "c~").json == []
        assert done(home, "index", "create", "c~", "by-n", "--sort=-n:decimal").json["indexId"] == "by-n"
        asyncio.run(until(lambda: done(home, "index", "show", "c~", "by-n").json["status"] == "ready"))
        assert done(home, "explain", "c~", "--filter", "n > 0", "--sort=-n").json["index"] == "by-n"
        assert home("doc", "index", "create", "c~", "by-n").code == 4
        done(home, "index", "drop", "c~", "by-n")
        assert home("doc", "index", "drop", "c~", "by-n").code == 3
        assert home("doc", "index", "show", "c~").code == 2
        assert done(home, "view", "put", "v~", "c~/{*}", "--filter", "n > 1").json["path"] == "v~"
        assert [one["path"] for one in done(home, "view", "list").json] == ["v~"]
        if through == "server":
            asyncio.run(until(lambda: home("doc", "query", "v~", "--json").lines == [{"id": "2", "n": 2}]))
        done(home, "view", "delete", "v~")
        assert home("doc", "view", "show", "v~").code == 3


def test_what_is_exported_is_imported(home: Program, tmp_path: Path) -> None:
    for path, body in (("a", '"text"'), ("b/c", "[1.10, null]"), ("c~/1", '{"n": 1}'), ("c~/2", "{}")):
        done(home, "put", path, body)
    ran = home("doc", "export", "--to", str(tmp_path / "all.ndjson"))
    assert (ran.code, ran.err) == (0, "4 documents.\n")
    other = Program(tmp_path / "other")
    other.home.mkdir()
    assert json.loads(other("doc", "import", str(tmp_path / "all.ndjson"), "--json").out) == {
        "done": 4,
        "refused": 0,
        "expired": 0,
        "dry_run": False,
    }
    assert other("doc", "get", "b/c").json == [1.10, None]
    assert other("doc", "query", "c~", "--json").lines == [{"id": "1", "n": 1}, {"id": "2"}]
    refused = other("doc", "import", "--json", stdin='{"method": "put", "path": "a b", "body": 1}\n{"method": "delete", "path": "a"}\n')
    assert (refused.code, json.loads(refused.out), "Line 1" in refused.err) == (
        5,
        {"done": 1, "refused": 1, "expired": 0, "dry_run": False},
        True,
    )


@THROUGH
def test_an_import_makes_what_the_export_had(home: Program, tmp_path: Path, forked_program: ForkedProgram, through: str) -> None:
    """Times at which items expire, indexes, schemas, views and templates; and the items of a view by the view."""
    with served(home, through):
        done(home, "put", "shop/c~/hat", '{"price": 12}')
        done(home, "put", "shop/c~/sock", '{"price": 3}', "--ttl", "10h")
        done(home, "put", "old", "1", "--ttl", "10h")
        done(home, "index", "create", "shop/c~", "by-price", "--sort=-price:decimal,name", "--filter", "price > 1", "--materialize")
        done(home, "schema", "put", "shop/c~", '{"required": ["price"]}')
        done(home, "template", "put", "newest", "users/*/orders~", "--sort=-date")
        done(home, "view", "put", "cheap~", "shop/c~/{*}", "--filter", "price < 10")
        exported = home("doc", "export").out
    lines = [json.loads(line) for line in exported.splitlines()]
    assert {line["path"]: "expires" in line for line in lines if "method" in line} == {
        "old": True,
        "shop/c~/hat": False,
        "shop/c~/sock": True,
    }
    assert [sorted(line) for line in lines if "method" not in line] == [
        ["template"],
        ["path", "view"],
        ["index", "path"],
        ["path", "schema"],
    ]
    expired = '{"method":"put","path":"gone","body":1,"expires":"2020-01-01T00:00:00.000Z"}'
    wrong = '{"path":"shop/c~","index":{"indexId":"by-price","sortBy":[{"fieldName":"name"}]}}'
    (tmp_path / "other").mkdir()
    other = Program(tmp_path / "other", forked_program)
    (tmp_path / "other" / "data").mkdir()
    with served(other, through):
        dry = other("doc", "import", "--dry-run", "--json", stdin=exported)
        assert (dry.code, json.loads(dry.out)) == (0, {"done": 7, "refused": 0, "expired": 0, "dry_run": True}), dry.err
        ran = other("doc", "import", "--json", stdin=f"{exported}{expired}\n{wrong}\n")
        assert (ran.code, json.loads(ran.out)) == (5, {"done": 7, "refused": 1, "expired": 1, "dry_run": False}), ran.err
        assert "Line 9" in ran.err
        asyncio.run(until(lambda: other("doc", "query", "cheap~", "--json").lines == [{"id": "sock", "price": 3}]))
        asyncio.run(until(lambda: other("doc", "index", "show", "shop/c~", "by-price", "--json").json["status"] == "ready"))
        again = [json.loads(line) for line in other("doc", "export").out.splitlines()]
        assert [{**line, "expires": ""} for line in again] == [{**line, "expires": ""} for line in lines]
        assert ["expires" in line for line in again] == ["expires" in line for line in lines]
        assert other("doc", "get", "gone").code == 3
        refused = other("doc", "put", "shop/c~/coat", "{}")
        assert refused.code == 5


# -- HTTP ---------------------------------------------------------------------------------------------------------


def test_the_examples_of_the_older_system(http: httpx2.Client) -> None:
    assert http.put(f"{CONTENT}/abc/123", json={"a": 10, "x": "hello"}).status_code == 201
    assert http.get(f"{CONTENT}/abc/123").json() == {"a": 10, "x": "hello"}
    for number in range(60):
        http.put(f"{CONTENT}/collection-1~/{number:02}", json={"b": number})
    page = http.get(f"{CONTENT}/collection-1~?size=50&sort=id&filter=b%3E10").json()["_embedded"]["els"]
    assert [one["b"] for one in page] == list(range(11, 60))[:50]
    rest = http.get(f'{CONTENT}/collection-1~?size=50&id>"49"').json()["_embedded"]["els"]
    assert [one["id"] for one in rest] == [str(number) for number in range(50, 60)]
    index = {"indexId": "index1", "sortBy": [{"fieldName": "b", "order": "asc", "fieldType": "decimal"}], "filterBy": "b > 10"}
    vendor = {"Content-Type": "application/vnd.hyper-storage-index-new+json"}
    assert http.post("/hyper-storage/indexes/collection-1~", content=json.dumps(index), headers=vendor).status_code == 201
    assert http.post("/hyper-storage/indexes/abc%2Fxyz", content=json.dumps(index), headers=vendor).json()["path"] == "abc/xyz~"


def test_fifty_writers_make_fifty_revisions(http: httpx2.Client) -> None:
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda number: http.put(f"{CONTENT}/a", json=number).json()["revision"], range(50)))
    assert sorted(answers) == list(range(1, 51))
    lines = http.get("/hyper-storage/feed/a?after=0").text.splitlines()
    assert [json.loads(line)["revision"] for line in lines] == list(range(1, 51))


def test_a_poll_refuses_what_it_would_not_heed(http: httpx2.Client) -> None:
    http.put(f"{CONTENT}/c~/hat", json={"price": 12})
    for asked in ("after=0&filter=price>50", "after=0&snapshot=1", "filter=price>50"):
        answer = http.get(f"/hyper-storage/feed/c~?{asked}")
        assert (answer.status_code, "text/event-stream" in answer.json()["hint"]) == (400, True)
    assert "POSITION" in http.get("/hyper-storage/feed/c/").json()["hint"]


def test_the_list_of_indexes_has_pages(http: httpx2.Client) -> None:
    for name in ("a", "b", "c"):
        assert http.post("/hyper-storage/indexes/c~", json={"indexId": name, "sortBy": [{"fieldName": name}]}).status_code == 201
    first = http.get("/hyper-storage/indexes/c~?limit=2")
    rest = http.get(first.links["next"]["url"])
    assert [one["indexId"] for one in first.json()["items"] + rest.json()["items"]] == ["a", "b", "c"]


def test_a_restarted_server_goes_on_with_what_nobody_writes_to(home: Program) -> None:
    """What expires goes, and a view mirrors on, although no write comes to their partitions."""
    with SpawnedServer(home.data) as server, httpx2.Client(base_url=server.url) as http:
        for number in range(8):
            http.put(f"{CONTENT}/short/{number}", json=1, headers={"Hyper-Storage-TTL": "1s"})
            assert http.put(f"/hyper-storage/views/view{number}~", json={"templateUri": f"source{number}~/{{*}}"}).status_code == 201
        http.put(f"{CONTENT}/later", json=1, headers={"Hyper-Storage-TTL": "1s"})
        server.kill()
    with SpawnedServer(home.data) as server, httpx2.Client(base_url=server.url) as http:
        short = [f"{CONTENT}/later", *(f"{CONTENT}/short/{number}" for number in range(8))]
        asyncio.run(until(lambda: all(http.get(path).status_code == 404 for path in short)))
        for number in range(8):
            http.put(f"{CONTENT}/source{number}~/hat", json={"price": 1})
        views = [f"{CONTENT}/view{number}~/hat" for number in range(8)]
        asyncio.run(until(lambda: all(http.get(path).status_code == 200 for path in views)))


def test_the_feed_has_no_gap_over_a_kill(home: Program) -> None:
    """What was acknowledged is in the feed once, in order, and the door goes on by itself."""
    seen: list[DocumentChange] = []
    acknowledged: list[int] = []

    def follow() -> None:
        with headwater.open_blocking(home.data) as hw:
            for change in hw.documents["a"].feed(after=0):
                seen.append(change)
                if change.body == "last":
                    return

    port = ("--port", str(free_port()))
    server = SpawnedServer(home.data, options=port)
    server.start()
    with httpx2.Client(base_url=server.url) as client:
        acknowledged.append(client.put(f"{CONTENT}/a", json=0).json()["revision"])
    follower = threading.Thread(target=follow)
    follower.start()
    with httpx2.Client(base_url=server.url) as client:
        acknowledged += [client.put(f"{CONTENT}/a", json=number).json()["revision"] for number in range(1, 50)]
    server.kill()
    again = SpawnedServer(home.data, options=port)
    again.start()
    with httpx2.Client(base_url=again.url) as client:
        acknowledged.append(client.put(f"{CONTENT}/a", json="last").json()["revision"])
    follower.join(240)
    again.stop()
    assert [change.revision for change in seen] == acknowledged == list(range(1, 52))


def test_events_of_the_server_carry_the_revision(http: httpx2.Client) -> None:
    http.put(f"{CONTENT}/a", json=1)
    http.put(f"{CONTENT}/a", json=2)
    with http.stream("GET", "/hyper-storage/feed/a", headers={"Accept": "text/event-stream", "Last-Event-ID": "1"}) as stream:
        lines = stream.iter_lines()
        found = [next(lines) for _ in range(6)]
    assert found[2:5] == ["id: 2", "event: feed:put", found[4]]
    assert json.loads(found[4].removeprefix("data: "))["body"] == 2


def test_the_metrics_count_writes(http: httpx2.Client) -> None:
    http.put(f"{CONTENT}/a", json=1)
    http.put(f"{CONTENT}/c~", json=1)
    text = http.get("/metrics").text
    assert 'headwater_documents_writes_total{outcome="accepted"} 1.0' in text
    assert 'headwater_documents_active{partition="0"}' in text

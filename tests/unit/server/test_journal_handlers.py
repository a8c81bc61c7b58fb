"""Journals over HTTP: addresses, statuses, headers and bodies as they travel."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headwater.client.journal_performer import JournalPerformer
from headwater.client.local import LocalLog, local_log
from headwater.core.clock import SystemClock
from headwater.core.settings import Settings
from headwater.testing.app import app_over

pytestmark = pytest.mark.anyio
ONE = {"events": [{"payload": {"type": "opened"}}]}
LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[LocalLog]:
    opened = local_log(Settings(), tmp_path / "data", SystemClock())
    await opened.open()
    yield opened
    await opened.aclose()


@pytest.fixture
async def http(log: LocalLog) -> AsyncIterator[httpx2.AsyncClient]:
    performers = {"journal": JournalPerformer(log=log)}
    transport = httpx2.ASGITransport(app=app_over(log, performers=performers))
    async with httpx2.AsyncClient(base_url="http://server", transport=transport) as client:
        assert (await client.put("/journals/bank")).status_code == 201
        yield client
    await performers["journal"].aclose()


async def problem(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


async def test_topics(http: httpx2.AsyncClient) -> None:
    assert (await http.put("/journals/bank")).status_code == 200
    assert [topic["topic"] for topic in (await http.get("/journals")).json()["items"]] == ["journal-bank"]
    assert await problem(await http.get("/journals/none")) == (404, "unknown-journal")
    assert await problem(await http.put("/journals/bank", json={"partitions": 3})) == (409, "already-exists")
    status = (await http.get("/journals/bank?view=status")).json()["status"]
    assert (status["topic"], status["lag"]) == ("journal-bank", 0)
    assert len((await http.get("/journals/bank?view=pointers")).json()["pointers"]) == 2


async def test_the_head_is_an_etag_that_an_append_expects(http: httpx2.AsyncClient) -> None:
    assert await problem(await http.get("/journals/bank/alice")) == (404, "not-found")
    appended = await http.post("/journals/bank/alice/events", json=ONE, headers={"If-Match": '"0"'})
    assert (appended.status_code, appended.json()["last"]) == (201, 1)
    head = await http.get("/journals/bank/alice")
    assert (head.status_code, head.headers["etag"], head.json()["seq_nr"]) == (200, '"1"', 1)
    assert (await http.post("/journals/bank/alice/events", json=ONE, headers={"If-Match": head.headers["etag"]})).status_code == 201
    failed = await http.post("/journals/bank/alice/events", json=ONE, headers={"If-Match": head.headers["etag"]})
    assert await problem(failed) == (412, "wrong-expected")
    assert "ends with event 2" in failed.json()["detail"]


async def test_a_repeated_append_says_so(http: httpx2.AsyncClient) -> None:
    key = {"Idempotency-Key": "k"}
    first = await http.post("/journals/bank/alice/events", json=ONE, headers=key)
    again = await http.post("/journals/bank/alice/events", json=ONE, headers=key)
    assert "idempotency-replayed" not in first.headers
    assert (again.headers["idempotency-replayed"], again.json()["offset"]) == ("true", first.json()["offset"])
    other = await http.post("/journals/bank/alice/events", json={"events": [{"payload": 2}]}, headers=key)
    assert await problem(other) == (422, "key-reused")


async def test_events_in_pages_lines_and_events(http: httpx2.AsyncClient) -> None:
    address = "/journals/bank/alice/events"
    await http.post(address, json={"events": [{"payload": n} for n in range(5)]})
    page = (await http.get(address, params={"from": 2, "limit": 2})).json()
    assert ([event["seq_nr"] for event in page["items"]], page["next"]) == ([2, 3], "4")
    linked = await http.get(address, params={"from": 2, "limit": 2})
    assert "from=4" in linked.headers["link"]
    last = (await http.get(address, params={"from": 4, "to": 9})).json()
    assert ([event["payload"] for event in last["items"]], last["next"]) == ([3, 4], None)
    lines = await http.get(address, headers={"Accept": "application/x-ndjson"})
    assert len(lines.text.splitlines()) == 5
    events = await http.get(address, headers={"Accept": "text/event-stream"})
    assert events.text.count("data: ") == 5
    assert (await http.get("/journals/bank/nobody/events")).json() == {"items": [], "next": None}
    for query in ("from=0", "from=3&to=2", "limit=-1", "from=x"):
        assert (await http.get(f"{address}?{query}")).status_code in (400, 422)


async def test_stored_json_goes_out_as_it_came(http: httpx2.AsyncClient) -> None:
    payload = b'{"b": 1.10, "a": 123456789012345678901234567890}'
    await http.post("/journals/bank/alice/events", content=b'{"events": [{"payload": %b}]}' % payload)
    assert payload in (await http.get("/journals/bank/alice/events")).content


async def test_deletes_purges_and_marks(http: httpx2.AsyncClient) -> None:
    address = "/journals/bank/alice/events"
    assert (await http.delete(address + "?to=3")).json()["done"] is False
    await http.post(address, json={"events": [{"payload": n} for n in range(3)]})
    assert (await http.delete(address)).status_code == 400
    assert (await http.delete(address + "?to=2")).json()["to"] == 2
    marked = await http.post("/journals/bank/alice/marks", json={"mark": "m"})
    assert (marked.status_code, marked.json()["done"]) == (201, True)
    trail = (await http.get("/journals/bank/alice/trail")).json()
    assert [record["action"] for record in trail["records"]] == ["append", "delete", "mark"]
    assert (await http.delete("/journals/bank/alice")).json()["done"] is True
    assert (await http.get("/journals/bank/alice")).status_code == 404


async def test_many_appends_have_a_line_each(http: httpx2.AsyncClient) -> None:
    one = b'"events": [{"payload": 1}]'
    body = b'{"id": "a", %b}\n{"id": "a", %b, "expected": 7}\n\n{"id": "", %b}\n' % (one, one, one)
    answer = await http.post("/journals/bank", content=body, headers=LINES)
    first, second, third = (httpx2.Response(200, content=line).json() for line in answer.content.splitlines())
    assert (answer.status_code, first["first"], second["code"], third["code"]) == (200, 1, "wrong-expected", "bad-input")
    mixed = await http.post("/journals/bank", content=b'{"id": "b", %b}\n{\n{"id": "b", %b}\n' % (one, one), headers=LINES)
    first, second, third = (httpx2.Response(200, content=line).json() for line in mixed.content.splitlines())
    assert (mixed.status_code, first["first"], second["code"], third["first"]) == (200, 1, "bad-input", 2)
    assert "Line 2" in second["detail"]
    assert (await http.post("/journals/bank", content=body)).status_code == 415
    assert await problem(await http.post("/journals/none", content=body, headers=LINES)) == (404, "unknown-journal")
    ids = await http.get("/journals/bank", headers={"Accept": "application/x-ndjson"})
    assert ids.text == '"a"\n"b"\n'
    assert (await http.get("/journals/bank")).json()["items"] == ["a", "b"]


async def test_ids_are_encoded_once(http: httpx2.AsyncClient) -> None:
    for path, id in (("a%2Fb", "a/b"), ("%2541", "%41"), ("events", "events"), ("%C3%A4", "ä")):
        assert (await http.post(f"/journals/bank/{path}/events", json=ONE)).status_code == 201
        assert (await http.get(f"/journals/bank/{path}")).json()["id"] == id
    assert (await http.get("/journals/bank")).json()["items"] == sorted(["a/b", "%41", "events", "ä"], key=str.encode)


async def test_streams_of_unknown_topics_are_errors(http: httpx2.AsyncClient) -> None:
    for accept in ("text/event-stream", "application/x-ndjson"):
        for path in ("/journals/none", "/journals/none/a/events"):
            assert await problem(await http.get(path, headers={"Accept": accept})) == (404, "unknown-journal")
    assert (await http.get("/journals/bank?after=x", headers={"Accept": "text/event-stream"})).status_code == 400


async def test_snapshots(http: httpx2.AsyncClient) -> None:
    await http.post("/journals/bank/alice/events", json={"events": [{"payload": 1}, {"payload": 2}]})
    path = "/journals/bank/alice/snapshots"
    saved = await http.put(path, json={"payload": {"eur": 5}})
    assert (saved.status_code, saved.json()["seq_nr"]) == (201, 2)
    assert (await http.put(path, content=b'{"payload": {"$binary": "/w=="}, "seq_nr": 1}')).status_code == 201
    listed = (await http.get(path)).json()["items"]
    assert [(one["seq_nr"], one["payload_type"], one["payload"]) for one in listed] == [(2, "json", None), (1, "binary", None)]
    newest = (await http.get(f"{path}?newest=true&max_seq_nr=1")).json()["items"]
    assert [one["payload"] for one in newest] == [{"$binary": "/w=="}]
    since = listed[0]["timestamp"]
    assert len((await http.get(path, params={"min_timestamp": since})).json()["items"]) == 2
    assert (await http.delete(f"{path}?seq_nr=1&dry_run=true")).json() == {"deleted": 1, "dry_run": True}
    assert (await http.delete(f"{path}?seq_nr=1")).json()["deleted"] == 1
    assert (await http.get(f"{path}?newest=true&max_seq_nr=1")).json()["items"] == []
    for answer, expected in (
        (await http.delete(path), (400, "bad-input")),
        (await http.delete(f"{path}?seq_nr=0"), (400, "bad-input")),
        (await http.get(f"{path}?min_seq_nr=2&max_seq_nr=1"), (422, "bad-bounds")),
        (await http.put(path, json={}), (400, "bad-input")),
        (await http.put(path, json={"payload": 1, "seq_nr": 0}), (400, "bad-input")),
        (await http.put(path, json={"payload": 1, "seq_nr": 3}), (422, "bad-bounds")),
        (await http.put(path, json={"payload": 1, "more": 3}), (400, "bad-input")),
        (await http.put("/journals/bank/bob/snapshots", json={"payload": 1}), (404, "not-found")),
        (await http.put("/journals/none/bob/snapshots", json={"payload": 1}), (404, "unknown-journal")),
    ):
        assert await problem(answer) == expected
    trail = (await http.get("/journals/bank/alice/trail")).json()
    assert [one["seq_nr"] for one in trail["snapshots"]] == [2]

"""The addresses of pipelines: who may, what a body may say, how pages go on."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from test_server_log import conforms

from headwater.client.local import LocalLog, local_log
from headwater.core.clock import SystemClock
from headwater.core.settings import Settings
from headwater.log import Log
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.offsets.state import Dead, RunInfo
from headwater.pipeline.operations import PIPELINES
from headwater.server.auth import Tokens
from headwater.server.openapi import document
from headwater.testing.app import app_over

pytestmark = pytest.mark.anyio
SHOP = "/pipelines/shop"
ROLES = {"reader": "r" * 20, "writer": "w" * 20, "operator": "o" * 20}


@pytest.fixture
async def log(stopped_shop: Path) -> AsyncIterator[LocalLog]:
    opened = local_log(Settings(), stopped_shop, SystemClock())
    try:
        yield opened
    finally:
        await opened.aclose()


def client(log: LocalLog, tokens: Tokens | None = None, role: str = "") -> httpx2.AsyncClient:
    app = app_over(log, tokens=tokens)
    headers = {"Authorization": f"Bearer {ROLES[role]}"} if role else {}
    return httpx2.AsyncClient(base_url="http://server", transport=httpx2.ASGITransport(app=app), headers=headers)


@pytest.fixture
async def http(log: LocalLog) -> AsyncIterator[httpx2.AsyncClient]:
    async with client(log) as opened:
        yield opened


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    file = tmp_path / "tokens"
    file.write_text("".join(f"{role} {token}\n" for role, token in ROLES.items()))
    file.chmod(0o600)
    return Tokens.load(file)


def without_archive(opened: Log) -> None:
    """A run that no longer has the sink `archive`."""
    run = RunInfo(epoch=1, id="r", began=1, state="stopped", sinks=("report",))
    Control(opened, "shop", SystemClock()).change(lambda state: [("run", run)])


async def test_looking_needs_a_reader_and_changing_an_operator(log: LocalLog, tokens: Tokens) -> None:
    reason = {"position": 3, "why": "test"}
    for role, looks, changes in [("reader", 200, 403), ("writer", 200, 403), ("operator", 200, 200)]:
        async with client(log, tokens, role) as http:
            assert (await http.get(f"{SHOP}/log")).status_code == looks
            assert (await http.put(f"{SHOP}/offsets/report?dry_run=true", json=reason)).status_code == changes
            assert (await http.post(f"{SHOP}/sinks/report/ack", json={})).status_code == (400 if role == "operator" else 403)
    async with client(log, tokens) as http:
        assert (await http.get("/pipelines")).status_code == 401


async def test_the_audit_says_who_by_the_token(log: LocalLog, tokens: Tokens, http: httpx2.AsyncClient) -> None:
    async with client(log, tokens, "operator") as other:
        assert (await other.put(f"{SHOP}/offsets/report", json={"position": 3, "why": "one"})).status_code == 200
    refused = await http.delete(f"{SHOP}/offsets/archive?why=two%20words")
    assert (refused.status_code, "PUT /pipelines/shop/offsets/archive" in refused.json()["hint"]) == (409, True)
    await log.work(without_archive)
    assert (await http.delete(f"{SHOP}/offsets/archive?why=two%20words")).json() == {"sink": "archive", "deleted": True, "dry_run": False}
    entries = (await http.get(f"{SHOP}/audit")).json()["items"]
    assert [(entry["who"], entry["why"]) for entry in entries] == [
        ("http operator from 127.0.0.1", "one"),
        ("http from 127.0.0.1", "two words"),
    ]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry["at"]) for entry in entries)


async def test_pages_lead_to_the_next_one(http: httpx2.AsyncClient) -> None:
    seen: list[int] = []
    address: str | None = f"{SHOP}/log?limit=3&namespace=%5Eorders%24&to=12"
    while address is not None:
        page = await http.get(address)
        body = page.json()
        assert (body["oldest"], body["current"]) == (0, 15)
        seen += [item["offset"] for item in body["items"]]
        link = page.headers.get("link")
        assert (link is None) == (body["next"] is None)
        address = link[1 : link.index(">")] if link else None
    assert seen == [1, 3, 5, 7, 9, 11]


async def test_the_put_aside_and_the_audit_come_in_pages(log: LocalLog, http: httpx2.AsyncClient) -> None:
    def bury(opened: Log) -> None:
        more = [(f"dead/{sink}/{at}", Dead(sink=sink, offset=at, error="E", message="m")) for sink in ("report", "a-9") for at in (9, 10)]
        Control(opened, "shop", SystemClock()).change(lambda state: more)

    await log.work(bury)
    seen: list[Any] = []
    address: str | None = f"{SHOP}/dead?limit=2"
    while address is not None:
        page = await http.get(address)
        items = [(item["sink"], item["offset"]) for item in page.json()["items"]]
        seen += items
        if items[-1] == ("a-9", 10):  # what is taken out meanwhile moves nothing
            assert (await http.delete(f"{SHOP}/dead/9?sink=a-9&why=w")).status_code == 200
        link = page.headers.get("link")
        address = link[1 : link.index(">")] if link else None
    assert seen == [("a-9", 9), ("a-9", 10), ("archive", 5), ("report", 9), ("report", 10)]
    for number in range(4):
        assert (await http.put(f"{SHOP}/offsets/report", json={"position": number, "why": str(number)})).status_code == 200
    first = (await http.get(f"{SHOP}/audit?limit=3")).json()
    last = (await http.get(f"{SHOP}/audit?limit=3&cursor={first['next']}")).json()
    assert [entry["why"] for entry in first["items"] + last["items"]] == ["w", "0", "1", "2", "3"]
    assert last["next"] is None


async def test_decimals_keep_their_digits(http: httpx2.AsyncClient) -> None:
    assert '"price":13.10' in (await http.get(f"{SHOP}/log?from=13&to=13")).text
    edited = await http.put(f"{SHOP}/edits/14", content=b'{"set": {"price": 14.10, "n": 12345678901234567890}, "why": "typo"}')
    assert '"data":{"_id":14,"price":14.10,"n":12345678901234567890}' in edited.text


BAD: list[tuple[str, str, Any, str, str]] = [
    ("PUT", "/offsets/report", b'{"positon": 3}', "bad-input", "'position'"),
    ("PUT", "/offsets/report", b'{"position": 3, "why": "\\u001d"}', "bad-input", "why"),
    ("PUT", "/offsets/report", '{"position": 3, "why": "\ufeff"}'.encode(), "bad-input", "why"),
    ("DELETE", "/offsets/archive?why=%1D", b"", "bad-input", "reason"),
    ("DELETE", "/offsets/archive?why=%EF%BB%BF", b"", "bad-input", "reason"),
    ("PUT", "/offsets/report", b'{"position": -2, "why": "w"}', "bad-input", "openapi"),
    ("PUT", "/offsets/report", b'{"position": 1.5, "why": "w"}', "bad-input", "openapi"),
    ("PUT", "/offsets/report", b"", "bad-input", "openapi"),
    ("PUT", "/offsets/report", b"[]", "bad-input", "openapi"),
    ("PUT", "/offsets/report", b'{"position": 3}', "bad-input", "`why`"),
    ("PUT", "/offsets/report?dry_run=yes", b'{"position": 3, "why": "w"}', "bad-input", "true, false"),
    ("PUT", "/offsets/report?dryrun=true", b'{"position": 3, "why": "w"}', "bad-input", "'dry_run'"),
    ("DELETE", "/offsets/report", None, "bad-input", "`why`"),
    ("POST", "/sinks/report/step", b'{"count": 0}', "bad-input", "openapi"),
    ("POST", "/sinks/report/step", b'{"count": 10001}', "bad-input", "openapi"),
    ("POST", "/sinks/report/step", b'{"file": "/tmp/evil.py"}', "bad-input", "Known are count, why."),
    ("POST", "/sinks/report/replay", b'{"first": 0, "last": 1, "file": "x.py"}', "bad-input", "Known are first, last, why."),
    ("GET", "/verify/report?file=x.py", None, "bad-input", "It takes none."),
    ("PUT", "/edits/14", b'{"data": 7, "why": "w"}', "bad-input", "openapi"),
    ("PUT", "/edits/14", b'{"data": {"a": 1}, "set": {"a": 1}, "why": "w"}', "bad-input", "not both"),
    ("PUT", "/edits/14", b"\xff", "bad-input", "openapi"),
    ("PUT", "/edits/14", b'{"data": {"a": 1e999999999999999999999}, "why": "w"}', "bad-input", "openapi"),
    ("PUT", "/edits/minus", b"{}", "bad-input", "counts from 0"),
    ("DELETE", f"/edits/{'9' * 5000}?why=w", None, "bad-input", "counts from 0"),  # more digits than Python reads
    ("POST", "/sinks/report/replay", b'{"first": 0, "last": %s}' % (b"9" * 5000), "bad-input", "openapi"),
    ("POST", "/dead/5/retry", b'{"force": "yes"}', "bad-input", "openapi"),
    ("GET", "/log?from=-1", None, "bad-input", "goes from 0"),
    ("GET", "/log?from=x", None, "bad-input", "from=0"),
    ("GET", "/log?namespace=(", None, "bad-config", "regular expressions"),
    ("GET", "/dead?cursor=x", None, "bad-input", "`next`"),
    ("GET", "/dead?cursor=5", None, "bad-input", "`next`"),
    ("GET", "/audit?cursor=a/5", None, "bad-input", "`next`"),
    ("PATCH", "", None, "bad-method", "GET"),
]


@pytest.mark.parametrize(("method", "path", "body", "code", "hint"), BAD, ids=lambda value: str(value)[:40])
async def test_bad_requests_say_what_to_do_and_change_nothing(
    http: httpx2.AsyncClient, method: str, path: str, body: bytes | None, code: str, hint: str
) -> None:
    answer = await http.request(method, f"{SHOP}{path}", content=body)
    assert answer.json()["code"] == code, answer.text
    assert hint in answer.json()["hint"]
    assert (await http.get(f"{SHOP}/audit")).json()["items"] == []


async def test_a_form_is_refused_with_the_header_to_add(http: httpx2.AsyncClient) -> None:
    answer = await http.post(f"{SHOP}/stop", content=b"a=b", headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert (answer.status_code, answer.json()["code"]) == (415, "bad-type")
    assert "application/json" in answer.json()["hint"]


async def test_nobody_appends_to_the_positions(http: httpx2.AsyncClient) -> None:
    """They name the file that stepping and replaying run: what is appended there would choose a program to run on this machine."""
    record = b'{"key": "run", "value": {"file": "/tmp/evil.py"}}'
    for topic in ("pipeline-shop-offsets", "pipeline-new-offsets"):
        made = await http.put(f"/log/{topic}")
        assert (made.status_code, made.json()["code"]) == (409, "owned-topic")
    answer = await http.post("/log/pipeline-shop-offsets/0/records", content=record)
    assert (answer.status_code, answer.json()["code"]) == (409, "owned-topic")
    assert "PUT /pipelines/shop/edits/OFFSET" in answer.json()["hint"]
    assert (await http.post("/log/pipeline-new-offsets/0/records", content=record)).json()["code"] == "unknown-topic"


async def test_the_answers_have_the_shapes_that_are_described(log: LocalLog, http: httpx2.AsyncClient) -> None:
    await log.work(without_archive)
    described = document(PIPELINES.operations, "1")
    asked = {
        "pipeline_list": await http.get("/pipelines"),
        "pipeline_status": await http.get(SHOP),
        "pipeline_messages": await http.get(f"{SHOP}/log"),
        "pipeline_offsets": await http.get(f"{SHOP}/offsets"),
        "pipeline_offset": await http.get(f"{SHOP}/offsets/report"),
        "pipeline_dead": await http.get(f"{SHOP}/dead"),
        "pipeline_dead_one": await http.get(f"{SHOP}/dead/5"),
        "pipeline_mark": await http.put(f"{SHOP}/offsets/report", json={"position": 3, "why": "w"}),
        "pipeline_ack": await http.post(f"{SHOP}/sinks/report/ack", json={"offset": 4, "why": "w"}),
        "pipeline_edit": await http.put(f"{SHOP}/edits/14", json={"data": {"a": {"b": [1]}}, "why": "w"}),
        "pipeline_undo": await http.delete(f"{SHOP}/edits/14?why=w"),
        "pipeline_drop": await http.delete(f"{SHOP}/dead/5?why=w"),
        "pipeline_compact": await http.post(f"{SHOP}/compact?dry_run=true"),
        "pipeline_delete": await http.delete(f"{SHOP}/offsets/archive?why=w"),
        "pipeline_audit": await http.get(f"{SHOP}/audit"),
        "pipeline_remove": await http.delete(f"{SHOP}?dry_run=true"),
    }
    sending = {"pipeline_step", "pipeline_replay", "pipeline_retry", "pipeline_verify", "pipeline_stop"}  # they need a pipeline that runs
    assert set(asked) | sending == {operation.id for operation in PIPELINES.operations}
    for operation in PIPELINES.operations:
        if operation.id in asked:
            answer = asked[operation.id]
            assert answer.status_code == 200, answer.text
            responses = described["paths"][operation.path][operation.method.lower()]["responses"]
            conforms(answer.json(), responses["200"]["content"]["application/json"]["schema"], described)


def test_the_description_holds_every_shape_that_it_names() -> None:
    described = document(PIPELINES.operations, "1")
    components = described["components"]["schemas"]
    named = set(re.findall(r"#/components/schemas/(\w+)", str(described)))
    assert {"Status", "Seen", "EditMessage", "Verified"} <= named <= set(components)
    assert components["EditMessage"]["additionalProperties"] is False
    assert described["paths"]["/pipelines/{name}/edits/{offset}"]["put"]["requestBody"]

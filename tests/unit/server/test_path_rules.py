"""What tokens with rules may do with documents, and that no other way leads around them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from headwater.client.local import local_log
from headwater.client.local_backend import LocalBackend
from headwater.core.clock import SystemClock
from headwater.core.errors import BadConfig
from headwater.core.settings import Settings
from headwater.server.auth import Tokens
from headwater.server.caller import Caller
from headwater.server.hot import HotMatch, KnownClient
from headwater.server.path_rules import PathRules
from headwater.server.route import Router
from headwater.testing.app import app_over
from headwater.wire.operation import Role

pytestmark = pytest.mark.anyio
PAGE, TILL, ALL, ONE = "p" * 32, "t" * 32, "a" * 32, "o" * 32
CONTENT, FEED = "/hyper-storage/content", "/hyper-storage/feed"
LINES = {"Content-Type": "application/x-ndjson"}


def by(token: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **more}


def tokens(folder: Path) -> Path:
    file = folder / "tokens"
    file.write_text(
        f"operator {ALL}\n"
        f"reader {PAGE} name=page read=shop/catalogue~ follow=shop/catalogue~\n"
        f"reader {ONE} name=one read=shop/catalogue~/hat\n"
        f"operator {TILL} name=till read=shop/ write=shop/orders~ write=shop/settings\n"
    )
    file.chmod(0o600)
    return file


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    log = local_log(Settings(), tmp_path / "data", SystemClock())
    await log.open()
    backend = LocalBackend(log, clock=SystemClock())
    app = app_over(log, tokens=Tokens.load(tokens(tmp_path)), backend=backend)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://server") as client:
        for path in ("shop/catalogue~/hat", "shop/orders~/1", "shop/settings", "shopping/list", "bank/alice", "shop/catalogue~x"):
            assert (await client.put(f"{CONTENT}/{path}", json={"of": path}, headers=by(ALL))).status_code == 201
        yield client
    await backend.aclose()
    await log.aclose()


@pytest.mark.parametrize(
    ("method", "address", "page", "till"),
    [
        ("GET", f"{CONTENT}/shop/catalogue~", 200, 200),
        ("GET", f"{CONTENT}/shop/catalogue~/hat", 200, 200),
        ("GET", f"{CONTENT}/shop/catalogue%7E/hat", 200, 200),
        ("GET", f"{CONTENT}/shop/catalogue~/hat?revision=1", 200, 200),
        ("GET", f"{CONTENT}/shop/catalogue~?since=0", 200, 200),
        ("GET", f"{CONTENT}/shop/catalogue~x", 403, 200),
        ("GET", f"{CONTENT}/shop/orders~/1", 403, 200),
        ("GET", f"{CONTENT}/shopping/list", 403, 403),
        ("GET", f"{CONTENT}/bank/alice", 403, 403),
        ("GET", f"{CONTENT}/shop/catalogue~/../../bank/alice", 403, 403),
        ("GET", f"{CONTENT}/shop%2Fcatalogue~/hat", 403, 403),
        ("GET", CONTENT, 403, 403),
        ("GET", f"{CONTENT}?prefix=shop", 403, 403),
        ("GET", f"{CONTENT}?prefix=shop/", 403, 200),
        ("GET", f"{CONTENT}?prefix=shop/ca", 403, 200),
        ("GET", f"{CONTENT}?prefix=shop/catalogue~", 403, 200),
        ("GET", "/hyper-storage/history/shop/catalogue~/hat", 200, 200),
        ("GET", "/hyper-storage/history/bank/alice", 403, 403),
        ("GET", "/hyper-storage/trail/shop/orders~/1", 403, 200),
        ("GET", f"{FEED}/shop/catalogue~?after=0", 200, 403),
        ("GET", f"{FEED}/shop/catalogue~/hat?after=0", 200, 403),
        ("GET", f"{FEED}/shop/?after=0", 403, 403),
        ("GET", f"{FEED}//?after=0", 403, 403),
        ("GET", "/hyper-storage/indexes/shop%2Fcatalogue", 200, 200),
        ("GET", "/hyper-storage/indexes/bank", 403, 403),
        ("GET", "/hyper-storage/schemas/shop%2Forders", 403, 404),
        ("PUT", f"{CONTENT}/shop/orders~/2", 403, 201),
        ("PUT", f"{CONTENT}/shop/settings", 403, 200),
        ("PUT", f"{CONTENT}/shop/settings/x", 403, 201),
        ("PUT", f"{CONTENT}/shop/settings~/x", 403, 403),
        ("PUT", f"{CONTENT}/shop/catalogue~/hat", 403, 403),
        ("PUT", "/hyper-storage/views/mine~", 403, 403),
        ("GET", "/hyper-storage/views", 403, 403),
        ("GET", "/hyper-storage/transactions", 403, 403),
        ("GET", "/hyper-storage/transactions?path=shop/catalogue~", 200, 200),
        ("GET", "/hyper-storage/transactions?path=shop/catalogue~/hat", 200, 200),
        ("GET", "/hyper-storage/transactions?path=bank/alice", 403, 403),
        ("GET", "/hyper-storage/transactions?path=shop/..", 403, 400),
        ("GET", "/hyper-storage/transactions/0-0-9", 404, 404),
        ("GET", "/hyper-storage/export", 403, 403),
        ("GET", "/hyper-storage/export?prefix=shop/", 403, 200),
        ("GET", "/hyper-storage/export?prefix=shop/&after=shop/catalogue~/a", 403, 200),
        ("GET", "/hyper-storage/export?prefix=shop/&after=bank~/a", 403, 400),
        ("GET", "/hyper-storage/export?prefix=shop/&after=shopping~/a", 403, 400),
        ("GET", "/hyper-storage/status", 403, 403),
        ("POST", "/hyper-storage/verify", 403, 403),
        ("GET", "/log", 403, 403),
        ("GET", "/log/hyper-storage/0/records", 403, 403),
        ("GET", "/metrics", 403, 403),
    ],
)
async def test_only_what_a_rule_names(http: httpx2.AsyncClient, method: str, address: str, page: int, till: int) -> None:
    body = {"json": {}} if method in ("PUT", "POST") else {}
    for token, code in ((PAGE, page), (TILL, till)):
        found = await http.request(method, address, headers=by(token), **body)  # type: ignore[arg-type]
        assert found.status_code == code, (token, found.text)


async def test_a_batch_needs_every_path_that_it_writes(http: httpx2.AsyncClient) -> None:
    order, hat = b'{"method":"put","path":"shop/orders~/3","body":{}}\n', b'{"method":"put","path":"shop/catalogue~/hat","body":{}}\n'
    assert (await http.post("/hyper-storage/batch", content=order, headers=by(TILL, **LINES))).status_code == 200
    assert (await http.post("/hyper-storage/batch", content=order + hat, headers=by(TILL, **LINES))).status_code == 403
    assert (await http.post("/hyper-storage/batch", content=order, headers=by(PAGE, **LINES))).status_code == 403
    assert (await http.get(f"{CONTENT}/shop/catalogue~/hat", headers=by(ALL))).json()["of"] == "shop/catalogue~/hat"


async def test_the_transactions_of_what_may_be_read(http: httpx2.AsyncClient, tmp_path: Path) -> None:
    """A write's answer names its transaction, which whoever may read the path may follow."""
    written = await http.put(f"{CONTENT}/shop/orders~/9", json={}, headers=by(TILL))
    link = written.json()["_links"]["self"]["href"]
    assert (await http.get(link, headers=by(TILL))).json()["path"] == "shop/orders~/9"
    refused = await http.get(link, headers=by(PAGE))
    assert (refused.status_code, "orders" in refused.text) == (403, False)
    await http.put(f"{CONTENT}/shop/catalogue~/sock", json={}, headers=by(ALL))
    for token, path, seen in (
        (PAGE, "shop/catalogue~", ["shop/catalogue~/sock", "shop/catalogue~/hat"]),
        (ONE, "shop/catalogue~/hat", ["shop/catalogue~/hat"]),
    ):
        found = await http.get("/hyper-storage/transactions", params={"path": path}, headers=by(token))
        assert [one["path"] for one in found.json()["items"]] == seen


async def test_a_ticket_keeps_to_the_rules(http: httpx2.AsyncClient) -> None:
    for path, code in ((f"{FEED}/shop/catalogue~", 400), (f"{FEED}/bank/alice", 403)):
        made = await http.post("/tickets", json={"path": path}, headers=by(PAGE))
        opened = await http.get(f"{path}?ticket={made.json()['ticket']}&after=x", headers={"Accept": "text/event-stream"})
        assert opened.status_code == code


def test_the_hot_path_leaves_rules_to_the_application(tmp_path: Path) -> None:
    app = app_over(local_log(Settings(), tmp_path / "data", SystemClock()))
    address = f"{CONTENT}/bank/alice".encode()
    found = Router(app.hot.routes).find(address)
    assert found is not None
    match = HotMatch(found.address.routes("GET")[0], found.variables, address)
    for rules, permitted in ((None, True), (PathRules(read=("shop",)), False)):
        known = KnownClient(b"server", b"", 0, Caller(Role.OPERATOR, rules=rules))
        assert (app.hot.admit(match, [(b"host", b"server")], known) is not None) is permitted


@pytest.mark.parametrize("word", ["read=", "read=/shop", "write=a b", "follow=a//b", "reads=shop", "read"])
def test_a_bad_rule_is_told(tmp_path: Path, word: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"reader {PAGE} {word}\n")
    file.chmod(0o600)
    with pytest.raises(BadConfig, match=":1"):
        Tokens.load(file)

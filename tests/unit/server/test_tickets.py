"""Tickets: what they open, for whom, and for how long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from headwater.client.local import local_log
from headwater.core.clock import SystemClock
from headwater.core.settings import Settings
from headwater.server.app import App
from headwater.server.auth import Tokens
from headwater.server.tickets import is_sealed, seal, take_ticket
from headwater.testing.app import app_over
from headwater.testing.app_events import AppEvents
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio
READER, SHOP, OPERATOR = "r" * 32, "s" * 32, "o" * 32
FEED, OTHER = "/hyper-storage/feed/shop/catalogue~", "/hyper-storage/feed/bank/accounts~"
EVENTS = {"Accept": "text/event-stream"}


def by(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def tokens(tmp_path: Path, clock: ManualClock) -> Path:
    file = tmp_path / "tokens"
    file.write_text(f"operator {OPERATOR}\nreader {READER}\nwriter {SHOP} name=shop prefix=/hyper-storage/feed/shop\n")
    file.chmod(0o600)
    return file


@pytest.fixture
async def app(tmp_path: Path, tokens: Path, clock: ManualClock) -> AsyncIterator[App]:
    log = local_log(Settings(), tmp_path / "data", SystemClock())
    await log.open()
    made = app_over(log, tokens=Tokens.load(tokens, clock=clock))
    yield made
    await log.aclose()


@pytest.fixture
async def http(app: App) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://server") as client:
        yield client


async def ticket(http: httpx2.AsyncClient, token: str, path: str = FEED, **more: int) -> str:
    made = await http.post("/tickets", json={"path": path, **more}, headers=by(token))
    assert made.status_code == 201, made.text
    found: str = made.json()["ticket"]
    return found


async def test_a_ticket_opens_the_stream_of_its_address(app: App, http: httpx2.AsyncClient) -> None:
    for token in (READER, SHOP, OPERATOR):
        given = await ticket(http, token)
        for query in (f"snapshot=1&ticket={given}", f"ticket={given}&snapshot=1"):
            events = await AppEvents(app, f"{FEED}?{query}", "snapshot:end", {}).run()
            assert events[-1]["path"] == "shop/catalogue~"


async def test_it_opens_nothing_else(http: httpx2.AsyncClient) -> None:
    given = await ticket(http, OPERATOR)
    content = "/hyper-storage/content/shop/catalogue~"
    for address, code in ((FEED, 403), (OTHER, 401), (content, 401), ("/tickets", 401), ("/jobs/00", 401)):
        assert (await http.get(f"{address}?ticket={given}&after=0", headers={"Accept": "*/*"})).status_code == code, address
    assert (await http.post(f"/tickets?ticket={given}", json={"path": FEED})).status_code == 401
    assert (await http.get(f"{OTHER}?ticket={given}", headers=EVENTS)).status_code == 401
    lines = await ticket(http, OPERATOR, content)
    assert (await http.get(f"{content}?ticket={lines}")).status_code == 403  # an address that is no stream's
    for wrong in ("", "none", given + "x", given[:-1], f"9{given}", f"{given}&ticket={given}"):
        assert (await http.get(f"{FEED}?ticket={wrong}", headers=EVENTS)).status_code == 401, wrong


async def test_it_ends_by_itself(http: httpx2.AsyncClient, clock: ManualClock) -> None:
    given = await ticket(http, READER, seconds=30)
    assert (await http.get(f"{FEED}?ticket={given}&after=x", headers=EVENTS)).status_code == 400  # it was looked at
    clock.advance(30)
    refused = await http.get(f"{FEED}?ticket={given}&after=x", headers=EVENTS)
    assert (refused.status_code, refused.json()["code"]) == (401, "denied")
    assert "POST /tickets" in refused.json()["hint"]


async def test_it_ends_with_its_token(tokens: Path, clock: ManualClock) -> None:
    known = Tokens.load(tokens, clock=clock)
    given, _ = known.ticket(f"Bearer {READER}", FEED.encode(), seconds=60)
    assert known.holder(given, FEED.encode()).role.name == "READER"
    assert Tokens.load(tokens, clock=clock).holder(given, FEED.encode())  # as another worker does
    tokens.write_text(f"operator {OPERATOR}\n")
    known.renew()
    with pytest.raises(Exception, match="not for this address"):
        known.holder(given, FEED.encode())


async def test_nobody_gets_one_beyond_the_prefixes_of_the_token(http: httpx2.AsyncClient) -> None:
    assert (await http.post("/tickets", json={"path": OTHER}, headers=by(SHOP))).status_code == 403
    assert (await http.post("/tickets", json={"path": FEED})).status_code == 401
    for path in ("shop", "", f"{FEED}?after=0", "/ä"):
        assert (await http.post("/tickets", json={"path": path}, headers=by(READER))).status_code == 400, path
    for seconds in (0, 3601, "60"):
        assert (await http.post("/tickets", json={"path": FEED, "seconds": seconds}, headers=by(READER))).status_code == 400, seconds


async def test_a_server_without_tokens_serves_pages_that_bring_one(tmp_path: Path) -> None:
    log = local_log(Settings(), tmp_path / "open", SystemClock())
    await log.open()
    app = app_over(log)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://server") as client:
        given = await ticket(client, "")
    assert (await AppEvents(app, f"{FEED}?snapshot=1&ticket={given}", "snapshot:end", {}).run())[-1]["path"] == "shop/catalogue~"
    await log.aclose()


def test_the_seal_is_of_the_address_however_it_is_written() -> None:
    digest, until = b"d" * 32, 2000
    given = seal(digest, b"/feed/a%7E", until)
    assert is_sealed(given, digest, b"/feed/a~", 1999)
    assert not is_sealed(given, digest, b"/feed/a~", 2000)
    assert not is_sealed(given, b"e" * 32, b"/feed/a~", 0)
    assert not is_sealed(given, digest, b"/feed/a~/b", 0)
    assert not is_sealed("3000" + given[4:], digest, b"/feed/a~", 0)


def test_the_ticket_is_taken_out_of_the_query() -> None:
    assert take_ticket(b"a=1&ticket=t&b=2") == (b"a=1&b=2", "t")
    assert take_ticket(b"ticket=t") == (b"", "t")
    assert take_ticket(b"a=1") == (b"a=1", None)
    assert take_ticket(b"myticket=1&tickets=2") == (b"myticket=1&tickets=2", None)
    assert take_ticket(b"ticket=t&ticket=u") == (b"ticket=t&ticket=u", None)

"""Pages of other sites: which may ask, and what their browsers are told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from headwater.client.local import local_log
from headwater.core.clock import SystemClock
from headwater.core.errors import BadConfig
from headwater.core.settings import Settings
from headwater.server.origins import AllowedOrigins
from headwater.testing.app import app_over

pytestmark = pytest.mark.anyio
SHOP = "https://shop.example"
DOCUMENT = "/hyper-storage/content/a"


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    log = local_log(Settings(), tmp_path / "data", SystemClock())
    transport = httpx2.ASGITransport(app=app_over(log, origins=[SHOP]))
    async with httpx2.AsyncClient(base_url="http://server", transport=transport) as client:
        yield client
    await log.aclose()


async def test_a_named_page_may_write_and_read(http: httpx2.AsyncClient) -> None:
    headers = {"Origin": SHOP, "Sec-Fetch-Site": "cross-site"}
    asked = {**headers, "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "if-match"}
    before = await http.options(DOCUMENT, headers=asked)
    assert (before.status_code, before.headers["access-control-allow-origin"]) == (204, SHOP)
    assert "PUT" in before.headers["access-control-allow-methods"]
    assert "If-Match" in before.headers["access-control-allow-headers"]
    written = await http.put(DOCUMENT, json=1, headers=headers)
    assert (written.status_code, written.headers["access-control-allow-origin"], written.headers["vary"]) == (201, SHOP, "Origin")
    assert "Hyperbus-Revision" in written.headers["access-control-expose-headers"]
    missing = await http.get("/hyper-storage/content/none", headers=headers)
    assert (missing.status_code, missing.headers["access-control-allow-origin"]) == (404, SHOP)


async def test_another_page_may_not(http: httpx2.AsyncClient) -> None:
    for origin in ("https://evil.example", "https://shop.example.evil.example", "http://shop.example", "null"):
        headers = {"Origin": origin}
        assert (await http.put(DOCUMENT, json=1, headers=headers)).status_code == 403
        asked = {**headers, "Access-Control-Request-Method": "PUT"}
        for answer in (await http.options(DOCUMENT, headers=asked), await http.get(DOCUMENT, headers=headers)):
            assert "access-control-allow-origin" not in answer.headers


async def test_who_is_no_page_is_told_nothing(http: httpx2.AsyncClient) -> None:
    assert "access-control-allow-origin" not in (await http.put(DOCUMENT, json=1)).headers


def test_an_origin_is_a_scheme_a_host_and_a_port() -> None:
    AllowedOrigins(["http://127.0.0.1:3000", "*"])
    for wrong in ("shop.example", "https://shop.example/", "https://Shop.example", "ftp://shop.example", ""):
        with pytest.raises(BadConfig, match="no origin"):
            AllowedOrigins([wrong])


def test_a_star_is_every_page() -> None:
    assert AllowedOrigins(["*"]).of([(b"origin", b"https://any.example")]) == b"https://any.example"
    assert AllowedOrigins().of([(b"origin", b"https://any.example")]) is None

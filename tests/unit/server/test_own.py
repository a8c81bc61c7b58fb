"""Jobs: who may see them, and who may end them; and what the front page tells."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from headwater import parts
from headwater.client.local import LocalLog, local_log
from headwater.core.clock import SystemClock
from headwater.core.errors import Unreachable
from headwater.core.settings import Settings
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Topic
from headwater.server.auth import Tokens
from headwater.testing.app import app_over

pytestmark = pytest.mark.anyio
SHOP, BANK, READER, OPERATOR = "s" * 32, "b" * 32, "r" * 32, "o" * 32


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    file = tmp_path / "tokens"
    file.write_text(
        f"operator {OPERATOR}\nreader {READER}\nwriter {SHOP} name=shop prefix=/wal/shop\nwriter {BANK} name=bank prefix=/wal/bank\n"
    )
    file.chmod(0o600)
    log = local_log(Settings(), tmp_path / "data", SystemClock())
    await log.open()
    app = app_over(log, tokens=Tokens.load(file))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://server") as client:
        yield client
    await log.aclose()


def by(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_a_job_is_its_starters_whatever_the_prefixes_of_the_token(http: httpx2.AsyncClient) -> None:
    assert (await http.put("/wal/shop/7", headers=by(OPERATOR))).status_code == 201
    begun = await http.post("/wal/shop/7/verify", headers=by(SHOP))
    assert begun.status_code == 202
    path = begun.headers["location"]
    seen = await http.get(path, params={"wait": 10}, headers=by(SHOP))
    assert (seen.status_code, seen.json()["state"]) == (200, "done")
    assert [(await http.get(path, headers=by(token))).status_code for token in (BANK, READER, OPERATOR)] == [403, 200, 200]
    assert [(await http.delete(path, headers=by(token))).status_code for token in (SHOP, BANK, READER, OPERATOR)] == [200, 403, 403, 200]


async def test_a_token_with_prefixes_cannot_tell_which_jobs_there_are(http: httpx2.AsyncClient) -> None:
    for path in ("/jobs/none", "/jobs/", "/jobs", "/jobs/a/b"):
        assert (await http.get(path, headers=by(SHOP))).status_code == 403, path
    assert (await http.delete("/jobs/none", headers=by(SHOP))).status_code == 403
    assert (await http.get("/jobs/none", headers=by(READER))).status_code == 404
    assert (await http.delete("/jobs/none", headers=by(OPERATOR))).status_code == 404


async def test_the_front_page_shows_the_parts_and_counts_their_topics(tmp_path: Path) -> None:
    log = local_log(Settings(), tmp_path / "data", SystemClock())
    for name in ("orders", "bonds"):
        await log.create_topic(name)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app_over(log)), base_url="http://server") as client:
        page, docs = (await client.get("/")).text, (await client.get("/docs")).text
    await log.aclose()
    assert "embedded log of <code>orders-data</code>" in page
    assert '<a href="docs#log">log</a></td><td><code>/log</code></td><td>2 topics</td>' in page
    assert '<a href="docs#journal">journal</a></td><td><code>/journals</code></td><td>0 topics</td>' in page
    for part in parts.PARTS:
        assert f'<h2 id="{part.name}">' in docs


async def test_the_front_page_tells_nothing_of_the_data_where_there_are_tokens(http: httpx2.AsyncClient) -> None:
    page = (await http.get("/")).text
    assert "<code>/hyper-storage</code></td><td></td>" in page
    assert "orders-data" not in page


async def test_the_front_page_is_there_while_the_topics_cannot_be_counted(tmp_path: Path) -> None:
    """As while the brokers do not answer."""

    class Away(EmbeddedLog):
        def topics(self) -> list[Topic]:
            raise Unreachable("The brokers do not answer.", hint="h")

    log = LocalLog(lambda: Away(tmp_path / "data"))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app_over(log)), base_url="http://server") as client:
        page = await client.get("/")
    await log.aclose()
    assert page.status_code == 200
    assert "<code>/journals</code></td><td></td>" in page.text

"""Operations of pipelines that run in a process of their own: the same answers and errors over a directory and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.stopped_shop import fill_stopped_shop

from headwater.client import local_backend
from headwater.client.local import LocalLog, local_log
from headwater.client.local_backend import LocalBackend
from headwater.client.pipelines import OnePipeline, Pipelines
from headwater.client.remote import remote_log
from headwater.core.clock import SystemClock
from headwater.core.errors import BadInput, HeadwaterError, Timeout, UnknownPipeline
from headwater.core.settings import Settings
from headwater.log.record import Record
from headwater.pipeline import operations
from headwater.pipeline.offsets.ownership import PART
from headwater.testing.app import app_over
from headwater.testing.scripted import served

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[LocalLog]:
    opened = local_log(Settings(), fill_stopped_shop(tmp_path / "data"), SystemClock())
    try:
        yield opened
    finally:
        await opened.aclose()


@pytest.fixture(params=["directory", "http"])
async def door(request: pytest.FixtureRequest, log: LocalLog) -> AsyncIterator[Pipelines]:
    if request.param == "directory":
        yield Pipelines(LocalBackend(log))
        return
    reported: list[BaseException] = []
    app = app_over(log, report=lambda error_id, error: reported.append(error))
    async with served(app) as url:
        remote = remote_log(url, token=None, clock=SystemClock())
        yield Pipelines(remote.backend)
        await remote.aclose()
    assert all(isinstance(error, HeadwaterError) for error in reported)


@pytest.fixture
def shop(door: Pipelines) -> OnePipeline:
    return door["shop"]


async def test_messages_that_an_expression_matches_are_found(shop: OnePipeline) -> None:
    assert [seen.offset for seen in await shop.messages(namespace="(ret|turn)+s", last=4)] == [0, 2, 4]


BAD: list[tuple[str, type[HeadwaterError], Callable[[Pipelines], Awaitable[object]]]] = [
    ("send to unknown", UnknownPipeline, lambda p: p["none"].step("s")),
    ("expression", BadInput, lambda p: p["shop"].messages(namespace="(")),
    ("count", BadInput, lambda p: p["shop"].step("report", 0)),
    ("no file", BadInput, lambda p: p["shop"].step("report")),
    ("no file to replay", BadInput, lambda p: p["shop"].replay("report", 0, 1)),
    ("no file to verify", BadInput, lambda p: p["shop"].verify("report")),
]


async def test_what_cannot_be_done_is_the_same_error_everywhere(door: Pipelines) -> None:
    before = await door["shop"].status()
    for name, kind, call in BAD:
        with pytest.raises(HeadwaterError) as caught:
            await call(door)
        assert isinstance(caught.value, kind), f"{name}: {caught.value!r}"
        assert caught.value.hint, name
    assert await door["shop"].status() == before
    assert await door["shop"].audit() == []


@pytest.fixture
def hurried() -> Iterator[None]:
    """The operation itself is changed: routes of the server have it already."""
    usual = operations.MESSAGES.patience
    msgspec.structs.force_setattr(operations.MESSAGES, "patience", 1.0)
    yield
    msgspec.structs.force_setattr(operations.MESSAGES, "patience", usual)


@pytest.mark.usefixtures("hurried")
async def test_an_expression_that_takes_for_ever_is_ended(shop: OnePipeline, log: LocalLog) -> None:
    await log.work(lambda log: log.claim("pipeline-shop", 0, part=PART).append([Record(b"a" * 100, b"{}")]))
    with pytest.raises(Timeout, match="simpler expression"):
        await shop.messages(namespace="^(a+)+!")


async def test_few_processes_look_at_once_however_many_ask(log: LocalLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_backend, "_AT_ONCE", 2)
    now, seen, performed = 0, [], local_backend.performed

    async def counted(*words: Any, **more: Any) -> Any:
        nonlocal now
        now += 1
        seen.append(now)
        try:
            return await performed(*words, **more)
        finally:
            now -= 1

    monkeypatch.setattr(local_backend, "performed", counted)
    shop = Pipelines(LocalBackend(log))["shop"]
    asked = [shop.verify("report"), *(shop.messages(namespace="^(orders|returns)$", limit=1) for _ in range(4))]
    _, *pages = await asyncio.gather(*asked, return_exceptions=True)
    assert [len(page) for page in pages if isinstance(page, list)] == [1] * 4
    assert max(seen) == 2

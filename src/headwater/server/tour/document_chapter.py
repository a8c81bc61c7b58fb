"""Documents over HTTP: a change of an old state, a feed that a kill does not break, an index beside a scan, the store beside the log."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
import time
from pathlib import Path
from typing import Any

import headwater
from headwater.client.document_resource import Resource
from headwater.client.document_value import BatchWrite
from headwater.core.document_errors import NotMatched
from headwater.core.errors import Differs, HeadwaterError, OutcomeUnknown
from headwater.core.settings import Settings
from headwater.log import Log
from headwater.server.spawned import SpawnedServer
from headwater.server.tour.report import TourReport, rate

FOLDER = "demo-documents"
CATALOGUE, STOCK, SETTINGS = "shop/catalogue~", "shop/stock~", "shop/settings"
_CALLERS, _ENOUGH, _MORE = 32, 1000, 200  # writes before the kill, and behind it
_ITEMS, _PAGE = 5000, 20
_PATIENCE = 60.0  # seconds
_PORTS = range(14_000, 32_000)  # which the system gives to no connection while the server is away


def document_chapter(log: Log, settings: Settings, report: TourReport) -> None:
    """With a server and a folder of its own: the server is to be killed."""
    folder = settings.data / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    report.part("documents")
    server = _server(folder)
    try:
        server.start()
        asyncio.run(_locked(server.url, report))
        asyncio.run(_followed(server, report))
        asyncio.run(_queried(server.url, report))
        asyncio.run(_compared(server.url, report))
        server.stop()
    finally:
        server.kill()


def _server(folder: Path) -> SpawnedServer:
    """A server on a port that it keeps when it is started again."""
    port = next(port for port in random.sample(_PORTS, 500) if _is_free(port))
    folder.mkdir(parents=True)
    config = folder / "headwater.toml"
    config.write_text("# the tour's documents\n")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    return SpawnedServer(folder, options=("--port", str(port), "--config", str(config)), environ=environ)


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


async def _locked(url: str, report: TourReport) -> None:
    """Change a document with the revision that is there, and with one that was."""
    async with headwater.open(url) as hw:
        hat = hw.documents[f"{CATALOGUE}/hat"]
        first = await hat.put({"name": "hat", "price": 12})
        second = await hat.patch({"price": 13}, if_match=first.revision)
        try:
            await hat.patch({"price": 14}, if_match=first.revision)
            refused = False
        except NotMatched:
            refused = True
        document = await hat.get()
        report.claim(
            f"PUT makes revision {first.revision}, PATCH {second.revision}, and a PATCH of revision {first.revision} is 412",
            refused and document.body == {"id": "hat", "name": "hat", "price": 13} and document.revision == second.revision,
        )
        shop = hw.documents[SETTINGS]
        puts = await asyncio.gather(*(shop.put({"caller": number}) for number in range(_CALLERS)))
        revisions = sorted(put.revision for put in puts)
        report.claim(
            f"{_CALLERS} PUTs of one document at once are its revisions 1 to {revisions[-1]}", revisions == [*range(1, _CALLERS + 1)]
        )


async def _followed(server: SpawnedServer, report: TourReport) -> None:
    """Follow a collection while it is written to, and its server is killed and started again."""
    async with headwater.open(server.url) as hw:
        begun = (await hw.documents[CATALOGUE].get()).revision
    follower = _Follower(server.url, begun)
    following = asyncio.create_task(follower.run())
    try:
        began = time.perf_counter()
        acknowledged, unknown = await _written(server, _ENOUGH, kill=True)
        seconds = time.perf_counter() - began
        await asyncio.to_thread(server.start)
        more, _ = await _written(server, _MORE, kill=False)
        async with headwater.open(server.url) as hw:
            last = (await hw.documents[CATALOGUE].get()).revision
        async with asyncio.timeout(_PATIENCE):
            await follower.reached(last)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    count = len(acknowledged)
    report.fact(f"{_CALLERS} callers POST items over HTTP, synced before each answer: {rate(count, seconds)}")
    report.fact(f"the server is killed with signal 9 under load, {count:,} POSTs answered and {unknown} under way, and started again")
    report.claim(
        f"the loop of a follower goes on over it, and has the revisions {begun + 1} to {last:,}, none missing, none twice",
        follower.revisions == [*range(begun + 1, last + 1)],
    )
    report.claim("every answered POST is among them", {**acknowledged, **more}.items() <= follower.paths.items())


class _Follower:
    """Collects a collection's changes in one loop, which the door resumes behind the last change."""

    def __init__(self, url: str, begun: int) -> None:
        self._url, self._begun, self._moved = url, begun, asyncio.Event()
        self.revisions: list[int] = []
        self.paths: dict[int, str] = {}

    async def run(self) -> None:
        async with headwater.open(self._url) as hw:
            async for change in hw.documents[CATALOGUE].feed(after=self._begun):
                self.revisions.append(change.revision)
                self.paths[change.revision] = change.path
                self._moved.set()

    async def reached(self, revision: int) -> None:
        while not self.revisions or self.revisions[-1] < revision:
            self._moved.clear()
            await self._moved.wait()


async def _written(server: SpawnedServer, enough: int, *, kill: bool) -> tuple[dict[int, str], int]:
    """Post items; return by revision those that were answered, and how many posts were not."""
    acknowledged: dict[int, str] = {}
    unknown = 0

    async def caller(number: int) -> None:
        nonlocal unknown
        while kill or len(acknowledged) < enough:
            try:
                done = await shop.post({"caller": number})
            except OutcomeUnknown:
                unknown += 1  # sent, but the answer never came: it may be there or not
                return
            except HeadwaterError:
                return
            acknowledged[done.revision] = done.path

    async with headwater.open(server.url) as hw:
        shop = hw.documents[CATALOGUE]
        callers = [asyncio.create_task(caller(number)) for number in range(_CALLERS)]
        deadline = time.monotonic() + _PATIENCE
        while kill and len(acknowledged) < enough and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        if kill:
            server.kill()
        await asyncio.gather(*callers)
    return acknowledged, unknown


async def _queried(url: str, report: TourReport) -> None:
    """The same query without an index, and with one."""
    async with headwater.open(url) as hw:
        stock = hw.documents[STOCK]
        writes: list[BatchWrite] = [("put", f"{STOCK}/{number:05}", {"price": number * 7919 % 10_007}) for number in range(_ITEMS)]
        failed = [outcome for outcome in await hw.documents.batch(writes) if isinstance(outcome, HeadwaterError)]
        scanned, first = await _asked(stock)
        await stock.indexes.create("by-price", sort="-price:decimal")
        deadline = time.monotonic() + _PATIENCE
        while (await stock.indexes.status("by-price")).status == "building" and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        indexed, second = await _asked(stock)
        plan = await stock.explain("price > 5000", sort="-price", size=_PAGE)
    report.fact(
        f"the {_PAGE} dearest of {_ITEMS:,} items: {scanned * 1000:.1f} ms by a scan, {indexed * 1000:.1f} ms by an index, over HTTP"
    )
    report.claim(
        f"both give the same items, and the second query has read {plan['rowsRead']} rows of {plan['index']}",
        not failed and len(first) == _PAGE and first == second and plan["index"] == "by-price" and plan["rowsRead"] <= 2 * _PAGE,
    )


async def _asked(stock: Resource) -> tuple[float, list[Any]]:
    """The shortest of three times, and what was found."""
    times: list[float] = []
    items: list[Any] = []
    for _ in range(3):
        began = time.perf_counter()
        items = [item async for item in stock.query("price > 5000", sort="-price", size=_PAGE)]
        times.append(time.perf_counter() - began)
    return min(times), items


async def _compared(url: str, report: TourReport) -> None:
    async with headwater.open(url) as hw:
        try:
            verification = await hw.documents.verify()
            report.claim(
                f"verify: equal, {verification.records:,} records make {verification.rows:,} documents and items, as the store has them",
                verification.rows > _ITEMS + _ENOUGH and verification.index_rows == _ITEMS,
            )
        except Differs as error:
            report.claim(f"verify: equal ({error.message})", False)

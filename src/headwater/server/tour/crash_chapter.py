"""Kills a second server under load and restarts it: every acknowledged record must be there."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from headwater.client.remote import remote_log
from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError, OutcomeUnknown
from headwater.log.record import Record
from headwater.server.spawned import SpawnedServer
from headwater.server.tour.report import TourReport

FOLDER, TOPIC = "demo-second", "demo-killed"
_CALLERS, _SECONDS, _ENOUGH, _MOST = 32, 1.0, 200, 10.0


async def killed(data: Path, report: TourReport, clock: Clock) -> None:
    """Append over HTTP from 32 callers, kill the server with signal 9 meanwhile, restart it and compare."""
    report.part("kill -9")
    server = _server(data / FOLDER, clock)
    try:
        await asyncio.to_thread(server.start)
        acknowledged, unknown = await _load(server, clock)
        began = time.perf_counter()
        address = await asyncio.to_thread(server.start)
        restarted = time.perf_counter() - began
        values = await _read(address.url, clock)
        await asyncio.to_thread(server.stop)
    finally:
        server.kill()
    present = sum(values.get(offset) == value for offset, value in acknowledged.items())
    report.fact(f"a second server, killed under load: {len(acknowledged):,} records acknowledged, {unknown} under way")
    report.fact(f"started again and answering after {restarted:.1f} s")
    report.claim(
        f"{present:,} of {len(acknowledged):,} acknowledged records are there", bool(acknowledged) and present == len(acknowledged)
    )
    more = len(values) - len(acknowledged)
    report.claim(
        f"{more} more reached the disk before their answer, none of them twice",
        0 <= more <= unknown and len(set(values.values())) == len(values),
    )


def _server(folder: Path, clock: Clock) -> SpawnedServer:
    """A server with its own folder and without the first server's settings, which may name a port, a token file, or Kafka."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "headwater.toml"
    config.write_text("# the tour's second server\n")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    return SpawnedServer(folder, options=("--port", "0", "--config", str(config)), environ=environ, clock=clock)


async def _load(server: SpawnedServer, clock: Clock) -> tuple[dict[int, bytes], int]:
    acknowledged: dict[int, bytes] = {}
    unknown = 0

    async def caller(number: int) -> None:
        nonlocal unknown
        for turn in range(1_000_000):
            value = f"{server.pid}-{number}-{turn}".encode()
            try:
                (offset,) = await log.append(TOPIC, 0, [Record(None, value)])
            except OutcomeUnknown:
                unknown += 1  # sent, but the answer never came: the record may be there or not
                return
            except HeadwaterError:
                return
            acknowledged[offset] = value

    log = remote_log(server.url, token=None, clock=clock)
    try:
        if any(topic.name == TOPIC for topic in await log.topics()):
            await log.delete_topic(TOPIC)  # of an earlier tour
        await log.create_topic(TOPIC)
        callers = [asyncio.create_task(caller(number)) for number in range(_CALLERS)]
        began = clock.monotonic()
        while clock.monotonic() - began < (_SECONDS if len(acknowledged) >= _ENOUGH else _MOST):
            await asyncio.sleep(0.05)
        server.kill()
        await asyncio.gather(*callers)
    finally:
        await log.aclose()
    return acknowledged, unknown


async def _read(url: str, clock: Clock) -> dict[int, bytes]:
    log = remote_log(url, token=None, clock=clock)
    try:
        end = (await log.bounds(TOPIC, 0)).end
        values: dict[int, bytes] = {}
        while len(values) < end:
            records = await log.read(TOPIC, 0, len(values), limit=10_000)
            values.update({record.offset: record.value or b"" for record in records if record.offset is not None})
        return values
    finally:
        await log.aclose()

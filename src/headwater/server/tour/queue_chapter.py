"""Many puts on few keys, which merge; worker processes, one of which is killed in its row; and no row that runs twice at once."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import headwater
from headwater.client.queue_claim import Claim
from headwater.core.config import load
from headwater.core.settings import Settings
from headwater.core.units import Duration
from headwater.log import Log
from headwater.queue.settings import QueueSettings
from headwater.server.tour import queue_load
from headwater.server.tour.report import TourReport, rate

FOLDER, QUEUE = "demo-queue", "pages"
_PUTS, _KEYS, _PROCESSES = 500, 40, 2
_LEASE = Duration(3000)  # longer than a busy machine's disk stands still: a row whose lease ends although its worker lives runs twice
_PATIENCE = 120  # seconds
_ROUNDS = 5  # two are enough where no disk stands still: workers end when no row is due, and leave those whose leases have not ended


def queue_chapter(log: Log, settings: Settings, report: TourReport) -> None:
    """In a folder of its own: a server may own the queues of the data directory."""
    folder = settings.data / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "headwater.toml").write_text("# the tour's queue\n")
    report.part("queue")
    asyncio.run(_put(folder, report))
    left = _KEYS
    for _ in range(_ROUNDS):
        run_workers(folder)
        left = asyncio.run(_left(folder))
        if not left:
            break
    _tell(folder, left, report)


async def _put(folder: Path, report: TourReport) -> None:
    async with headwater.open(folder, config=load(file=folder / "headwater.toml", environ={})) as hw:
        pages = await hw.queue(QUEUE, create=QueueSettings(lease=_LEASE))
        began = time.perf_counter()
        puts = await asyncio.gather(*(pages.put(f"page:/{number % _KEYS}", {"change": number}) for number in range(_PUTS)))
        seconds = time.perf_counter() - began
        outcomes = Counter(put.outcome for put in puts)
        report.fact(f"{_PUTS} puts on {_KEYS} keys, synced before each answer: {rate(_PUTS, seconds)}")
        rows = [row async for row in pages.rows()]
        newest = {row.data["change"] for row in rows} == set(range(_PUTS - _KEYS, _PUTS))
        report.claim(
            f"they are {len(rows)} rows, each with its newest data: {outcomes['merged']} were merged",
            len(rows) == _KEYS and newest and outcomes == Counter(inserted=_KEYS, merged=_PUTS - _KEYS),
        )


def run_workers(folder: Path) -> None:
    """Let worker processes run what is due, until nothing is. A row is left where a lease has not ended, such as that of a killed one."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    command = [sys.executable, "-m", "headwater.cli", "queue", "work", QUEUE, f"{queue_load.__name__}:rebuild"]
    options = ["--processes", str(_PROCESSES), "--concurrency", "1", "--drain", "--data", str(folder), "--json"]
    subprocess.run([*command, *options], cwd=folder, env=environ, capture_output=True, timeout=_PATIENCE, check=False)


async def _left(folder: Path) -> int:
    """How many rows are left. Waits until every lease has ended, by claiming all rows, and leaves them due."""
    async with headwater.open(folder, config=load(file=folder / "headwater.toml", environ={})) as hw:
        pages = await hw.queue(QUEUE)
        counts = await pages.count()
        left = counts.due + counts.future + counts.held + counts.processing
        claims: list[Claim] = []
        while len(claims) < left:
            came = await pages.claim(left - len(claims), lease=f"{_PATIENCE}s", wait="20s")
            claims += came
            if not came:
                break
        for claim in claims:
            await claim.release()
        return left


def _tell(folder: Path, last: int, report: TourReport) -> None:
    lines = (folder / queue_load.NOTES).read_text().splitlines()
    built = Counter(line.removeprefix("built ") for line in lines if line.startswith("built "))
    began = Counter(line.removeprefix("began ") for line in lines if line.startswith("began "))
    report.fact(f"{_PROCESSES} processes rebuild the pages; one is killed with signal 9 in the midst of {queue_load.FATAL}")
    report.claim(
        f"its row came back when its lease of {_LEASE} had ended, and ran again",
        began[queue_load.FATAL] >= 2 and built[queue_load.FATAL] == 1,  # on a slow machine already among the first workers
    )
    report.claim(f"every page was built once, {sum(built.values())} in all, and no row is left", set(built.values()) == {1} and not last)
    report.claim("no row ran twice at once", len(built) == _KEYS and not any(line.startswith("twice ") for line in lines))

"""A region that one table pins: the tour finds it, moves it and gets the space back. Then a process that writes is killed and recovered."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import headwater
from headwater.client.wal import OneRegion
from headwater.core.config import load
from headwater.core.errors import Differs
from headwater.core.settings import Settings
from headwater.core.units import rounded_size
from headwater.log import Log
from headwater.server.tour import wal_load
from headwater.server.tour.report import TourReport, rate
from headwater.wal.settings import RegionSettings

FOLDER, NAMESPACE, REGION = "demo-wal", wal_load.NAMESPACE, 1
_TABLES, _PINNING, _WRITES, _PAYLOAD = 100, 42, 50, 1024
_SEGMENT = "256KiB"
_CONFIG = f"# the tour's regions\n[wal.{NAMESPACE}]\nsnapshot_marks = 20\n"
_ENOUGH = 3000  # payloads that are acknowledged before the kill


def wal_chapter(log: Log, settings: Settings, report: TourReport) -> None:
    """In a folder of its own: a server may own the regions of the data directory, and a process is to be killed."""
    folder = settings.data / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "headwater.toml").write_text(_CONFIG)
    report.part("wal")
    asyncio.run(_pinned(folder, report))
    acknowledged, marked = _killed(folder)
    asyncio.run(_recovered(folder, acknowledged, marked, report))


async def _pinned(folder: Path, report: TourReport) -> None:
    """All tables but one flush; find that one, move it, and clean."""
    async with headwater.open(folder, config=load(file=folder / "headwater.toml", environ={})) as hw:
        region = await hw.wal(NAMESPACE).open(REGION, create=RegionSettings(segment=_SEGMENT))
        began = time.perf_counter()
        await asyncio.gather(*(_write(region, table) for table in range(_TABLES)))
        count, seconds = _TABLES * _WRITES, time.perf_counter() - began
        size = rounded_size(_PAYLOAD)
        report.fact(f"{_TABLES} tables write into one log, synced before each answer: {count:,} payloads of {size}, {rate(count, seconds)}")
        await asyncio.gather(*(region.mark_delete_up_to(table, _WRITES) for table in range(_TABLES) if table != _PINNING))
        await region.clean()
        before, pinned = await _bytes(region), await region.why()
        report.fact(f"all but one flush; after a clean the log still has {rounded_size(before)}")
        report.claim(
            f"`why` names table {pinned.table}, which pins {pinned.entries:,} records of {rounded_size(pinned.bytes)}",
            pinned.table == _PINNING
            and [pinned_table.table for pinned_table in pinned.tables] == [_PINNING]
            and pinned.bytes > _TABLES * _PAYLOAD,
        )
        moved = await region.move(_PINNING)
        cleaned = await region.clean()
        after, payloads = await _bytes(region), [entry.payload async for entry in region.read(_PINNING)]
        report.claim(
            f"moved and cleaned, the log has {rounded_size(after)}, {cleaned.removed:,} records fewer",
            after * 4 < before and cleaned.removed > 0,
        )
        report.claim(
            f"the {moved.entries} payloads of table {_PINNING} are as they were written",
            moved.entries == _WRITES and payloads == [_payload(_PINNING, sequence) for sequence in range(1, _WRITES + 1)],
        )


async def _write(region: OneRegion, table: int) -> None:
    for sequence in range(1, _WRITES + 1):
        await region.write(table, [_payload(table, sequence)])


def _payload(table: int, sequence: int) -> bytes:
    return b"%d %d " % (table, sequence) + bytes(_PAYLOAD - len(b"%d %d " % (table, sequence)))


async def _bytes(region: OneRegion) -> int:
    return (await region.statistics()).bytes or 0


def _killed(folder: Path) -> tuple[dict[int, int], dict[int, int]]:
    """Kill a process that writes; return by table the last sequence that was acknowledged, and the last up to which a mark was asked."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    command = [sys.executable, "-m", wal_load.__name__, str(folder)]
    acknowledged: dict[int, int] = {}
    marked: dict[int, int] = {}
    process = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        for line in process.stdout:  # goes on after the kill, with what was told before it
            words = line.split()
            if not line.endswith(b"\n"):
                break
            (marked if len(words) > 2 else acknowledged)[int(words[0])] = int(words[1])
            if sum(acknowledged.values()) >= _ENOUGH:
                process.kill()
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return acknowledged, marked


async def _recovered(folder: Path, acknowledged: dict[int, int], marked: dict[int, int], report: TourReport) -> None:
    """Compare what is recovered with a scan of the whole log, and with what was acknowledged."""
    total = sum(acknowledged.values())
    report.fact(f"{len(acknowledged)} tables of another process, killed with signal 9 under load: {total:,} payloads acknowledged")
    async with headwater.open(folder, config=load(file=folder / "headwater.toml", environ={})) as hw:
        region = hw.wal(NAMESPACE)[wal_load.REGION]
        recovery = await region.recover(dry_run=True)
        try:
            scanned = await region.verify()
            same = scanned.compared == "full scan" and scanned.live == recovery.live
            report.fact(f"recovered from a snapshot and the {recovery.records:,} records behind it; the log has {scanned.records:,}")
        except Differs as error:
            report.fact(str(error))
            same = False
        report.claim("what was recovered is what a scan of the whole log tells", same)
        region = await hw.wal(NAMESPACE).open(wal_load.REGION)
        present = flushed = 0
        for table, last in acknowledged.items():
            first = marked.get(table, 0) + 1
            payloads = {entry.sequence: entry.payload async for entry in region.read(table)}
            flushed += min(first - 1, last)
            present += sum(payloads.get(sequence) == wal_load.payload(table, sequence) for sequence in range(first, last + 1))
        report.claim(f"nothing acknowledged is missing: {flushed:,} flushed, {present:,} here", total > 0 and flushed + present == total)

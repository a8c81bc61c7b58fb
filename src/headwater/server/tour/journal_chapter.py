"""Accounts that append events; a kill; what is read then; and the copy that is replicated, and compared with the log."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import headwater
from headwater.core.config import load
from headwater.core.errors import Differs, WrongExpected
from headwater.core.settings import Settings
from headwater.log import Log
from headwater.server.tour import journal_load
from headwater.server.tour.report import TourReport, rate

FOLDER, ACCOUNT = "demo-journal", "alice"
_CALLERS, _APPENDS = 64, 2000
_ENOUGH = 3000  # events that are acknowledged before the kill
_PATIENCE = 120  # seconds


def journal_chapter(log: Log, settings: Settings, report: TourReport) -> None:
    """In a folder of its own: a process is to be killed, and nobody else is to replicate."""
    folder = settings.data / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "headwater.toml").write_text("# the tour's journals\n")
    report.part("journal")
    asyncio.run(_append(folder, report))
    acknowledged = _killed(folder)
    asyncio.run(_read(folder, acknowledged, report))
    engines = _replicated(folder)
    asyncio.run(_compared(folder, engines, acknowledged, report))


async def _append(folder: Path, report: TourReport) -> None:
    """Many callers append to one account with the last number that they know: one of them is right each time."""
    async with headwater.open(folder, config=load(file=folder / "headwater.toml", environ={})) as hw:
        bank = await hw.journals(journal_load.TOPIC, create=True)
        journals = [bank[f"warm-{number}"] for number in range(_CALLERS)]
        began = time.perf_counter()

        async def caller(number: int) -> None:
            for event in range(_APPENDS // _CALLERS):
                await journals[number].append(journal_load.deposit(event + 1))

        await asyncio.gather(*map(caller, range(_CALLERS)))
        seconds, count = time.perf_counter() - began, _APPENDS // _CALLERS * _CALLERS
        report.fact(f"{_CALLERS} callers append events, synced before each answer: {count:,} events, {rate(count, seconds)}")
        alice = bank[ACCOUNT]
        tries = await asyncio.gather(*(alice.append(journal_load.deposit(1), expected=0) for _ in range(_CALLERS)), return_exceptions=True)
        won = [outcome for outcome in tries if not isinstance(outcome, BaseException)]
        lost = [outcome for outcome in tries if isinstance(outcome, WrongExpected)]
        report.claim(
            f"of {_CALLERS} that open one account at once, {len(won)} does, and {len(lost)} are told that it is there",
            len(won) == 1 and len(lost) == _CALLERS - 1 and await alice.pointer() == 1,
        )


def _killed(folder: Path) -> dict[int, int]:
    """Kill a process that appends; return by account the last number that was acknowledged."""
    command = [sys.executable, "-m", journal_load.__name__, str(folder)]
    acknowledged: dict[int, int] = {}
    process = subprocess.Popen(command, env=_environ(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        for line in process.stdout:  # goes on after the kill, with what was told before it
            if not line.endswith(b"\n"):
                break
            account, number = line.split()
            acknowledged[int(account)] = int(number)
            if sum(acknowledged.values()) >= _ENOUGH:
                process.kill()
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return acknowledged


async def _read(folder: Path, acknowledged: dict[int, int], report: TourReport) -> None:
    total = sum(acknowledged.values())
    report.fact(f"another process, killed with signal 9 under load: {total:,} events of {len(acknowledged)} accounts acknowledged")
    present = await _there(folder, acknowledged)
    report.claim(f"all of them are read, in order and without gaps, although nothing is copied yet: {present:,}", 0 < total == present)


async def _there(folder: Path, acknowledged: dict[int, int]) -> int:
    """How many of the acknowledged events are read as they were appended."""
    async with headwater.open(folder, config=load(file=folder / "headwater.toml", environ={})) as hw:
        bank = hw.journals(journal_load.TOPIC)
        present = 0
        for number, last in acknowledged.items():
            events = [event async for event in bank[journal_load.account(number)].read()]
            right = all(event.seq_nr == at and event.payload == journal_load.deposit(at) for at, event in enumerate(events, 1))
            present += min(last, len(events)) if right else 0
        return present


def _replicated(folder: Path) -> dict[str, int]:
    """Copy what the log holds, in a process of its own; return by engine how many records it has copied."""
    command = [sys.executable, "-m", "headwater.cli", "journal", "replicate", "--once", "--json"]
    places = ["--data", str(folder), "--config", str(folder / "headwater.toml")]
    done = subprocess.run([*command, *places], env=_environ(), capture_output=True, timeout=_PATIENCE, check=False)
    engines: dict[str, int] = {}
    for line in done.stdout.splitlines():
        outcome = json.loads(line)
        engines[outcome["engine"]] = engines.get(outcome["engine"], 0) + outcome["records"]
    return engines


async def _compared(folder: Path, engines: dict[str, int], acknowledged: dict[int, int], report: TourReport) -> None:
    names = {"here": "in one process", "spark": "on Spark"}
    by = ", ".join(f"{count:,} records {names[engine]}" for engine, count in engines.items())
    report.fact(f"replicated into SQLite: {by or 'nothing'}")
    async with headwater.open(folder, config=load(file=folder / "headwater.toml", environ={})) as hw:
        bank = hw.journals(journal_load.TOPIC)
        lag = (await bank.status()).lag
        try:
            verification = await bank.verify()
            report.claim(
                f"verify: equal, {verification.journals} journals with {verification.events:,} events are what the log says",
                not lag and verification.journals == len(acknowledged) + _CALLERS + 1 and verification.records == sum(engines.values()),
            )
        except Differs as error:
            report.claim(f"verify: equal ({error.message})", False)
    report.claim("read through the copy, they are the same", await _there(folder, acknowledged) == sum(acknowledged.values()))


def _environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}

"""The tour from its first line to the commands that follow it."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TextIO

import uvloop

from headwater import parts
from headwater.client.door import Headwater
from headwater.client.local import local_log
from headwater.client.presence import serving
from headwater.client.remote import remote_log
from headwater.core.clock import Clock
from headwater.core.config import Config
from headwater.core.errors import Denied
from headwater.core.settings import Settings
from headwater.log.opening import address_of, open_log
from headwater.server.tour import volume
from headwater.server.tour.appends import TOPIC, appends
from headwater.server.tour.crash_chapter import FOLDER, killed
from headwater.server.tour.report import TourReport
from headwater.wire.part import load

PREFIX = "demo-"


def tour(settings: Settings, out: TextIO, clock: Clock) -> list[str]:
    """Run every chapter; return the false claims. After Ctrl-C it first ends what it started."""
    report = TourReport(out)
    report.plain(f"The tour, on topics named {PREFIX}*. What it says is measured here and now.")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_under_load(settings, report, clock))
    with open_log(address_of(settings, settings.data)) as log:
        volume.fill(log, report)
        if log.engine == "embedded":
            volume.check(settings.data, [TOPIC, volume.TOPIC], report)
        try:
            volume.count_on_spark(log, settings.spark, report)
            for part in parts.PARTS:
                if part.chapter:
                    load(part.chapter)(log, settings, report)
        finally:
            volume.stop_spark()
    if report.false:
        report.plain("THE TOUR FAILED. Not true on this machine: " + "; ".join(report.false))
    else:
        report.plain("Everything held. Try next:")
        for command in commands(settings, clock):
            report.plain(f"  {command}")
    return report.false


async def _under_load(settings: Settings, report: TourReport, clock: Clock) -> None:
    # Open the log here even where a server serves it: this measures the log, not HTTP.
    log = local_log(settings, settings.data, clock)
    try:
        await appends(log, settings.data if await log.engine() == "embedded" else None, report)
    finally:
        await log.aclose()
    await killed(settings.data, report, clock)


async def clean(config: Config, clock: Clock) -> list[str]:
    """Remove every topic of the tour and its folders; return what was removed."""
    async with Headwater(config.settings.data, config=config, clock=clock) as hw:
        # Not those of parts: a user may call a namespace of regions demo-something.
        names = [topic.name for topic in await hw.log.topics() if topic.name.startswith(PREFIX) and not topic.settings.owner]
        for name in names:
            await hw.log.delete_topic(name)
        for status in await hw.pipelines.list():
            if status.pipeline.startswith(PREFIX):
                names += (await hw.pipelines[status.pipeline].remove()).topics
    folders = [FOLDER, *(part.demo_folder for part in parts.PARTS)]
    for folder in (config.settings.data / name for name in folders if name):
        if folder.is_dir():
            shutil.rmtree(folder)
            names.append(str(folder))
    return names


def commands(settings: Settings, clock: Clock) -> list[str]:
    """Five commands that work as printed, from the folder where the tour started."""
    program, data = _program(), f"--data {shlex.quote(_short(settings.data))}"
    server = serving(settings.data)
    listed = [
        f"{program} log show {TOPIC} 0..4 {data}",
        f"{program} log check {data}",
    ]
    if server is None:
        return [f"{program} log topics {data}", *listed, f"{program} doctor {data}", f"{program} serve {data}"]
    header = ' -H "Authorization: Bearer $HEADWATER_TOKEN"' if asyncio.run(_asks_for_token(server.url, clock)) else ""
    records = f"{server.url}/log/{TOPIC}/0/records"
    return [
        f"curl -s{header} '{records}?from=0&limit=3'",
        f'curl -s{header} {records} -H \'Content-Type: application/json\' -d \'{{"key": "you", "value": {{"hello": "log"}}}}\'',
        f"{program} log tail {TOPIC} --from 0 --count 3 {data}",
        *listed,
    ]


async def _asks_for_token(url: str, clock: Clock) -> bool:
    log = remote_log(url, token=None, clock=clock)
    try:
        await log.topics()
    except Denied:
        return True
    finally:
        await log.aclose()
    return False


def _program() -> str:
    """The command of this headwater: its name if the shell finds the same program, else its path."""
    own = Path(sys.executable).with_name("headwater")
    installed = shutil.which("headwater")
    if installed is not None and Path(installed).resolve() == own.resolve():
        return "headwater"
    return shlex.quote(_short(own)) if own.exists() else f"{shlex.quote(sys.executable)} -m headwater.cli"


def _short(path: Path) -> str:
    """The path relative to the working directory if it lies below."""
    absolute, working_dir = Path(os.path.abspath(path)), Path.cwd()
    return str(absolute.relative_to(working_dir)) if absolute.is_relative_to(working_dir) else str(absolute)

"""Imports of journals when the disk fails at every call and when their process is killed: begun again, they make the same journals."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.until import until

import headwater
from headwater.client.journal_performer import JournalPerformer
from headwater.client.journals import Journals, TopicJournals
from headwater.client.local import LocalLog
from headwater.client.local_backend import LocalBackend
from headwater.core.errors import HeadwaterError
from headwater.core.files import Files
from headwater.core.settings import Settings
from headwater.journal.exported import ExportLine
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.faults import FailingFiles
from headwater.wire import json


async def _lines(topic: TopicJournals) -> list[ExportLine]:
    return [line async for line in topic.export()]


def content(lines: list[ExportLine]) -> list[bytes]:
    """An export without the topic's name, and without when heads were updated."""
    return [json.encode(line) for line in lines if line.id is not None and line.events] + [
        json.encode((line.id, line.head.seq_nr, line.head.delete_to)) for line in lines if line.head is not None
    ]


async def _make(data: Path, journals: int, appends: int) -> list[ExportLine]:
    async with headwater.open(data, create=True) as hw:
        bank = await hw.journals("bank", create=True)
        for number in range(journals):
            for at in range(appends):
                await bank[f"j{number}"].append({"at": at}, "text")
        await bank["j0"].delete(to=1)
        await bank["gone"].append(1)
        await bank["gone"].delete(to=1)
        return await _lines(bank)


async def _imported(data: Path, lines: list[ExportLine], files: Files) -> list[ExportLine]:
    log = LocalLog(lambda: EmbeddedLog(data, files=files))
    performer = JournalPerformer(log=log, settings=Settings(data=data))
    try:
        other = await Journals(LocalBackend(log, performers={"journal": performer}))("other", create=True)
        await other.import_lines(lines)
        return await _lines(other)
    finally:
        with suppress(HeadwaterError):
            await performer.aclose()
        with suppress(HeadwaterError):
            await log.aclose()


def test_each_failing_call_of_the_disk(tmp_path: Path) -> None:
    lines = asyncio.run(_make(tmp_path / "source", 2, 2))
    counting = FailingFiles()
    wanted = content(asyncio.run(_imported(tmp_path / "count", lines, counting)))
    assert wanted == content(lines)
    failed = 0
    for number in range(1, counting.calls + 1):
        data = tmp_path / str(number)
        try:
            asyncio.run(_imported(data, lines, FailingFiles(number)))
        except HeadwaterError:
            failed += 1
        assert content(asyncio.run(_imported(data, lines, Files()))) == wanted, number
    assert failed > counting.calls // 3


def test_a_killed_import_is_begun_again(tmp_path: Path) -> None:
    lines = asyncio.run(_make(tmp_path / "source", 20, 30))
    file, data = tmp_path / "bank.ndjson", tmp_path / "target"
    file.write_bytes(b"".join(json.encode(line) + b"\n" for line in lines))

    async def prepare() -> None:
        async with headwater.open(data, create=True) as hw:
            await hw.journals("other", create=True)

    async def run() -> None:
        command = [sys.executable, "-m", "headwater.cli", "journal", "import", "other", str(file), "--data", str(data)]
        segments = [data / "log" / "journal-other", data]

        def size() -> int:
            return sum(path.stat().st_size for path in segments[-1].rglob("*.log"))

        for _ in range(4):
            before = size()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                await until(lambda process=process, before=before: size() > before or process.poll() is not None)  # type: ignore[misc]
            finally:
                process.kill()
                process.wait()
        done = subprocess.run(command, capture_output=True, check=False, env=dict(os.environ))
        assert done.returncode == 0, done.stderr

    async def found() -> list[ExportLine]:
        async with headwater.open(data) as hw:
            return await _lines(hw.journals("other"))

    asyncio.run(prepare())
    asyncio.run(run())
    assert content(asyncio.run(found())) == content(lines)

"""Appends to journals by several processes, by one that is killed, and on a disk that fails: numbers have no gaps and no forks, and what
was acknowledged is there."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.core.errors import HeadwaterError
from headwater.journal.action import Append, Purge
from headwater.journal.append_draft import draft
from headwater.journal.append_rows import event_rows
from headwater.journal.event import EventRecord
from headwater.journal.open_topic import OpenTopic
from headwater.journal.partition import JournalPartition
from headwater.journal.read import JournalRead
from headwater.journal.settings import JournalSettings
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.topics import JournalTopics
from headwater.journal.wire import read_record
from headwater.journal.write import ActionPlaced, Appended, DeleteDraft, Draft, PurgeDraft
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import FailingFiles, crash

PROGRAM = Path(__file__).with_name("journal_callers.py")
ROUNDS = max(3, int(os.environ.get("SOAK_KILL_ROUNDS", "8")) // 2)
CALLERS = 64


def begun(data: Path, name: str, appends: int, how: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROGRAM), str(data), name, str(CALLERS), str(appends), how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def told(line: str) -> tuple[int, str]:
    number, _, payload = line.strip().partition(" ")
    return int(number), payload


def stored(data: Path) -> dict[int, str]:
    """Every event of the journal, after a look whether its numbers are gapless, each once."""

    async def read() -> list[EventRecord]:
        import headwater

        async with headwater.open(data) as hw:
            return [event async for event in hw.journals("bank")["shared"].read()]

    events = asyncio.run(read())
    assert [event.seq_nr for event in events] == list(range(1, len(events) + 1))
    log = EmbeddedLog(data)
    try:
        topic = JournalTopics(log, JournalSettings()).find("bank")
        assert sum(log.bounds(topic.name, number).end for number in range(topic.partitions)) == len(events)  # no record twice
    finally:
        log.close()
    return {event.seq_nr: event.payload for event in events}


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    log = EmbeddedLog(tmp_path / "data")
    JournalTopics(log, JournalSettings()).create("bank")
    log.close()
    return tmp_path / "data"


@pytest.mark.parametrize("how", ["numbered", "expected", "both"])
def test_two_processes_append_to_one_journal_without_gap_or_fork(data: Path, how: str) -> None:
    appends = 2 if how == "expected" else 10
    processes = [begun(data, name, appends, how) for name in ("one", "two")]
    acknowledged = dict(told(line) for process in processes for line in process.communicate()[0].splitlines())
    assert [process.returncode for process in processes] == [0, 0]
    assert len(acknowledged) == 2 * CALLERS * appends
    assert stored(data) == acknowledged


def test_what_a_killed_process_has_acknowledged_is_there(data: Path) -> None:
    acknowledged: dict[int, str] = {}
    for round in range(ROUNDS):
        process = begun(data, str(round), 1000, "both")
        assert process.stdout is not None
        for line in process.stdout:
            number, payload = told(line)
            assert number not in acknowledged
            acknowledged[number] = payload
            if len(acknowledged) > 200 * (round + 1):
                break
        process.kill()
        rest = process.stdout.read().splitlines()
        acknowledged |= dict(told(line) for line in rest[:-1])  # the last line may be torn
        process.wait()
        found = stored(data)
        assert acknowledged.items() <= found.items()


class Story:
    """Appends, deletes and purges on a disk that fails. What is acknowledged must be there; nothing may be there that was refused."""

    def __init__(self, folder: Path, files: FailingFiles) -> None:
        self.folder, self.files = folder, files
        self.acknowledged: list[tuple[int, str, int, str]] = []  # offset, journal, number, payload
        self.errors = 0

    async def tell(self) -> None:
        clock = ManualClock(wakes=False)
        log, store = EmbeddedLog(self.folder / "data", files=self.files, clock=clock), SqliteJournalStore(self.folder / "store")
        try:
            topic, _ = JournalTopics(log, JournalSettings(), TopicSettings(segment=2000)).create("bank", 1)
            opened = OpenTopic(log, lambda: store, topic, writers="owner", settings=JournalSettings(), clock=clock)
            for step in range(12):
                if step == 6:
                    clock.advance(2)  # the next append replaces the manifest
                await asyncio.gather(*(self._append(opened, id, f"{id}-{step}-{n}") for id in ("a", "b") for n in range(3)))
                if step == 4:
                    await self._write(opened, DeleteDraft("a", 2))
                if step == 8:
                    await self._write(opened, PurgeDraft("b"))
            await opened.aclose()
        except HeadwaterError:
            self.errors += 1  # the topic could not be created
        finally:
            crash(log)
            store.close()

    async def _append(self, opened: OpenTopic, id: str, payload: str) -> None:
        appended = await self._write(opened, draft(id, [payload]))
        if appended is not None:
            assert isinstance(appended, Appended)
            self.acknowledged.append((appended.offset, id, appended.first, payload))

    async def _write(self, opened: OpenTopic, one: Draft) -> Appended | ActionPlaced | None:
        try:
            outcome = await opened.writer(one.id).write(one)
        except HeadwaterError:
            self.errors += 1
            return None
        assert not isinstance(outcome, BaseException)
        return outcome

    def check(self) -> None:
        """With a sound disk: each acknowledged record is at its offset, and the numbers of each life have neither gap nor fork."""
        log, store = EmbeddedLog(self.folder / "data"), SqliteJournalStore(self.folder / "store")
        try:
            topics = JournalTopics(log, JournalSettings())
            if not topics.list():
                assert not self.acknowledged
                return
            topic = topics.find("bank")
            records = log.read(topic.name, 0, 0, limit=10_000) if log.bounds(topic.name, 0).end else []
            lasts: dict[str, int] = {}
            payloads: dict[int, tuple[str, int, str]] = {}
            for record in records:
                found = read_record(record)
                assert found is not None
                if isinstance(found.action, Append):
                    assert found.action.first == lasts.get(found.id, 0) + 1
                    lasts[found.id] = found.action.last
                    (row,) = event_rows(record, 0)
                    assert row.payload is not None
                    payloads[found.offset] = (found.id, row.seq_nr, row.payload.value())
                elif isinstance(found.action, Purge):
                    lasts[found.id] = 0
            for offset, id, number, payload in self.acknowledged:
                assert payloads.get(offset) == (id, number, payload)
            partition = JournalPartition(log, lambda: store, topic, 0, settings=JournalSettings())
            for id in ("a", "b"):
                rows = JournalRead(partition, id, end=partition.end()).page()
                assert [row.seq_nr for row in rows] == list(range(lasts.get(id, 0) - len(rows) + 1, lasts.get(id, 0) + 1))
        finally:
            log.close()
            store.close()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("forever", [False, True], ids=["once", "from-then-on"])
def test_whatever_call_fails_numbers_hold(memory_path: Path, number: int, forever: bool) -> None:
    sound = Story(memory_path / "sound", FailingFiles())
    asyncio.run(sound.tell())
    assert not sound.errors
    sound.check()
    every = 1 if os.environ.get("SOAK_INJECTIONS") == "all" else 5
    failed = 0
    for at in range(1, sound.files.calls + 1, every):
        story = Story(memory_path / str(at), FailingFiles(at, forever=forever, number=number))
        asyncio.run(story.tell())
        failed += bool(story.errors)
        story.check()
    assert failed

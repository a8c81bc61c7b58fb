"""Snapshots on a disk that fails, in a process that is killed, and beside a replicator that dies: what was acknowledged is there, whole."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import headwater
from headwater.core.errors import HeadwaterError
from headwater.journal.action import Append
from headwater.journal.digest import ring_digest
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.open_topic import OpenTopic
from headwater.journal.settings import JournalSettings
from headwater.journal.snapshot import SnapshotCriteria
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.topics import JournalTopics
from headwater.journal.wire import write_record
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import FailingFiles, crash
from headwater.testing.journal_ring_contract import SnapshotHistory, rings
from headwater.testing.journal_store_ground import History, partition
from headwater.testing.sqlite_faults import FailingVfs

ROUNDS = max(3, int(os.environ.get("SOAK_KILL_ROUNDS", "8")) // 2)
EVENT = b'{"events":[{"seqNr":1,"tags":[],"payloadType":"json","payload":1}],"metadata":{}}'


class SavingStory:
    """Saves and deletes of snapshots on a disk that may fail. `acknowledged`: numbers with their payloads, in the order of the answers."""

    def __init__(self, folder: Path, files: FailingFiles) -> None:
        self.folder, self.files = folder, files
        self.acknowledged: list[tuple[int, bytes]] = []
        self.attempted: set[tuple[int, bytes]] = set()
        self.errors = 0

    def tell(self) -> None:
        try:
            log = EmbeddedLog(self.folder / "data", files=self.files, clock=ManualClock())
        except (HeadwaterError, OSError):
            self.errors += 1
            return
        store = SqliteJournalStore(self.folder / "store")
        try:
            topics = JournalTopics(log, JournalSettings(), TopicSettings(segment=600))
            topic, _ = topics.create("bank", 1)
            log.append(topic.name, 0, [write_record("a", Append(1, 14), value=EVENT)], part="journal")
            opened = OpenTopic(log, lambda: store, topic, writers="owner", settings=JournalSettings(), clock=ManualClock())
            for number in range(1, 15):
                self._save(opened, number, b'{"n":%d}' % number)
        except (HeadwaterError, OSError):
            self.errors += 1
        finally:
            crash(log)
            store.close()

    def _save(self, opened: OpenTopic, number: int, payload: bytes) -> None:
        partition = opened.snapshots("a")
        try:
            living = partition.living("a")
            assert living is not None
            self.attempted.add((number, payload))
            partition.save("a", number, Payload(PayloadKind.JSON, payload), living, (None, None))
            self.acknowledged.append((number, payload))
        except HeadwaterError:
            self.errors += 1

    def check(self) -> None:
        """With a sound disk: every acknowledged snapshot that no later one has pushed out is found, whole, and nothing else."""
        log, store = EmbeddedLog(self.folder / "data"), SqliteJournalStore(self.folder / "store")
        try:
            topics = JournalTopics(log, JournalSettings())
            if not topics.list():
                assert not self.acknowledged
                return
            topic = topics.find("bank")
            opened = OpenTopic(log, lambda: store, topic, writers="owner", settings=JournalSettings(), clock=ManualClock())
            partition = opened.snapshots("a")
            found = {one.seq_nr for one in partition.find("a", SnapshotCriteria())}
            for number in found:
                one = partition.load("a", SnapshotCriteria(min_seq_nr=number, max_seq_nr=number))
                assert one is not None
                assert one.payload is not None
                assert (number, one.payload.data) in self.attempted
            there = sorted(found | {number for number, _ in self.acknowledged})[-10:]
            assert {number for number, _ in self.acknowledged} & set(there) <= found
        finally:
            log.close()
            store.close()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("forever", [False, True], ids=["once", "from-then-on"])
def test_whatever_call_fails_acknowledged_snapshots_are_there(memory_path: Path, number: int, forever: bool) -> None:
    sound = SavingStory(memory_path / "sound", FailingFiles())
    sound.tell()
    assert not sound.errors
    assert len(sound.acknowledged) == 14
    sound.check()
    every = 1 if os.environ.get("SOAK_INJECTIONS") == "all" else 4
    failed = 0
    for at in range(1, sound.files.calls + 1, every):
        story = SavingStory(memory_path / str(at), FailingFiles(at, forever=forever, number=number))
        story.tell()
        failed += bool(story.errors)
        story.check()
    assert failed


def histories() -> SnapshotHistory:
    """Saves of two journals, a deletion and a purge between them."""
    found = SnapshotHistory(History("journal-a"))
    found.append("a", 1)
    found.append("b", 1)
    for number in (1, 2, 3):
        found.save("a", number)
        found.save("b", number)
    found.delete("a", SnapshotCriteria(max_seq_nr=2))
    found.purge("b")
    found.append("b", 1)
    found.save("b", 1)
    found.save("a", 4)
    return found


def copied(folder: Path, note: Callable[[str], object], vfs: str | None = None) -> None:
    """Apply journals and snapshots by turns, in small ranges."""
    history = histories()
    with SqliteJournalStore(folder, vfs=vfs) as store:
        journals, copy = partition(store, "journal-a"), rings(store, history)
        for end in (2, 5, 8, len(history.actions)):
            start = copy.pointer().offset + 1
            if end > start:
                copy.apply(history.change(start, end))
                note(f"snapshots {end}")
            at = journals.pointer().offset + 1
            if at < min(end, history.journals.end):
                journals.apply(history.journals.change(at, min(end, history.journals.end)))
                note(f"journals {end}")
        copy.checkpoint()


def ring_state(folder: Path) -> str:
    with SqliteJournalStore(folder) as store, rings(store, histories()).view() as view:
        return ring_digest(view)


@pytest.mark.parametrize("forever", [False, True], ids=["once", "from then on"])
def test_whichever_call_of_sqlite_fails_the_rings_are_whole(memory_path: Path, forever: bool) -> None:
    copied(memory_path / "sound", lambda _: None)
    expected, number = ring_state(memory_path / "sound"), 0
    while True:
        number += 1
        folder = memory_path / str(number)
        with FailingVfs(number, forever=forever) as vfs:
            try:
                copied(folder, lambda _: None, vfs.name)
            except HeadwaterError:
                assert vfs.failed
            if not vfs.failed:
                break
        copied(folder, lambda _: None)
        assert ring_state(folder) == expected
    assert number > 20


# Numbers come from the answers: an event that a killed process wrote and had not synced may appear only when the next one writes.
SAVER = """
import sys, headwater
with headwater.open_blocking(sys.argv[1]) as hw:
    a = hw.journals("bank")["a"]
    while True:
        number = a.append({"kind": "counted"}).last
        a.snapshots.save({"n": number, "fill": "x" * (number % 7) * 1000}, number)
        print(number, flush=True)
"""


def test_a_process_that_is_killed_while_it_saves_loses_nothing_acknowledged(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with headwater.open_blocking(data, create=True) as hw:
        hw.journals.create("bank", partitions=1)
    last = 0
    for round in range(ROUNDS):
        process = subprocess.Popen([sys.executable, "-c", SAVER, str(data)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        acknowledged = last
        for _ in range(5 + round):
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()
        process.wait()
        acknowledged = max([acknowledged, *(int(line) for line in rest.split())])
        with headwater.open_blocking(data) as hw:
            journal = hw.journals("bank")["a"]
            last = journal.pointer() or 0
            newest = journal.snapshots.load()
            assert newest is not None
            assert acknowledged <= newest.seq_nr <= last <= acknowledged + 1
            assert newest.payload == {"n": newest.seq_nr, "fill": "x" * (newest.seq_nr % 7) * 1000}
        if round % 2:
            ran = subprocess.run(
                [sys.executable, "-m", "headwater.cli", "journal", "replicate", "--once", "--data", str(data)], capture_output=True
            )
            assert ran.returncode == 0, ran.stderr
    checked = subprocess.run(
        [sys.executable, "-m", "headwater.cli", "journal", "verify", "bank", "--json", "--data", str(data)], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)["snapshots"] == 10

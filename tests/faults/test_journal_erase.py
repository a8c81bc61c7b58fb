"""Encrypted journals when the disk fails and processes die: what was acknowledged is readable, what was erased is gone, and what was begun
is finished by the next process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from erase_story import STEPS, keys_of, opened_by, tell

from headwater.journal.append_draft import draft
from headwater.journal.append_rows import event_rows
from headwater.journal.envelope import is_sealed
from headwater.journal.read import JournalRead
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.write import EraseDraft
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.clock import ManualClock
from headwater.testing.faults import FailingFiles
from headwater.testing.sqlite_faults import FailingVfs

PROGRAM = Path(__file__).with_name("erase_story.py")
EVERY = 1 if os.environ.get("SOAK_INJECTIONS") == "all" else 4
TOPIC = "journal-bank"


def expected(noted: list[str]) -> dict[str, list[set[str]]]:
    """For each journal the contents that it may have: by what was acknowledged, and by what was begun and may be done or not."""
    found: dict[str, list[set[str]]] = {id: [set()] for id in ("alice", "bob", "carol")}
    done = [step for step in noted if step != "on"]
    steps = [*done, *([STEPS[len(done)]] if len(done) < len(STEPS) and "on" in noted else [])]
    for at, step in enumerate(steps):
        certain = at < len(done) and not step.startswith("failed ")
        what, id, *number = step.removeprefix("failed ").split()
        before = found[id]
        after = [{*one, f"{id}-{number[0]}"} for one in before] if what == "append" else [set()]
        found[id] = after if certain else [*before, *(one for one in after if one not in before)]
    return found


async def check(folder: Path, noted: list[str]) -> None:
    """With a sound disk, in another process's place."""
    log, store, keys = EmbeddedLog(folder / "data", clock=ManualClock()), SqliteJournalStore(folder / "data" / "store"), keys_of(folder)
    opened = opened_by(log, store, keys)
    partition = opened.partition("alice")

    def values(id: str) -> set[str]:
        rows = JournalRead(partition, id, end=partition.end(), opens=opened.cipher.open_rows).page()
        return {str(row.payload.value()) for row in rows if row.payload is not None}

    possible = expected(noted)
    for id, contents in possible.items():
        assert values(id) in contents, (id, noted)
    if "on" not in noted:
        opened.cipher.turn_on()
    await opened.writer("dave").write(draft("dave", ["x"]))  # finishes what is half done
    assert keys.store.retired(TOPIC) == []
    for id, contents in possible.items():
        assert values(id) in contents, (id, noted)
        await opened.writer(id).write(EraseDraft(id, "me", "asked"))
        assert values(id) == set()
        assert {key.state for key in keys.store.keys(TOPIC, [id]).get(id, [])} <= {"destroyed"}
    for record in log.read(TOPIC, 0, 0, limit=1000):
        for row in event_rows(record, 0):
            assert is_sealed(row.payload)
            assert (opened.cipher.open_kept((record.key or b"").decode(), row) is None) is (record.key != b"dave")
    await opened.aclose()
    held = b"".join(path.read_bytes() for path in (folder / "data").rglob("*") if path.is_file())
    assert not [name for name in possible if f"{name}-1".encode() in held]
    keys.close()
    store.close()
    log.close()


def test_a_sound_disk(memory_path: Path) -> None:
    noted: list[str] = []
    assert asyncio.run(tell(memory_path, noted.append)) == 0
    assert noted == ["on", *STEPS]
    asyncio.run(check(memory_path, noted))


@pytest.mark.parametrize("forever", [False, True], ids=["once", "from-then-on"])
def test_whatever_call_of_the_log_fails(memory_path: Path, forever: bool) -> None:
    files = FailingFiles()
    asyncio.run(tell(memory_path / "sound", lambda step: None, files=files))
    failed = 0
    for at in range(1, files.calls + 1, EVERY):
        noted: list[str] = []
        failed += asyncio.run(tell(memory_path / str(at), noted.append, files=FailingFiles(at, forever=forever)))
        asyncio.run(check(memory_path / str(at), noted))
    assert failed


@pytest.mark.parametrize("forever", [False, True], ids=["once", "from-then-on"])
def test_whatever_call_of_the_key_store_fails(memory_path: Path, forever: bool) -> None:
    with FailingVfs() as vfs:
        asyncio.run(tell(memory_path / "sound", lambda step: None, vfs=vfs.name))
    failed = 0
    for at in range(1, vfs.calls + 1, EVERY):
        noted: list[str] = []
        with FailingVfs(at, forever=forever) as failing:
            failed += asyncio.run(tell(memory_path / str(at), noted.append, vfs=failing.name))
        asyncio.run(check(memory_path / str(at), noted))
    assert failed


@pytest.mark.parametrize("where", ["log", "keys"])
def test_a_process_that_is_killed_anywhere(memory_path: Path, where: str) -> None:
    every = 1 if os.environ.get("SOAK_INJECTIONS") == "all" else 23 if where == "log" else 9
    killed = 0
    for at in range(1, 2000, every):
        folder = memory_path / str(at)
        told = subprocess.run([sys.executable, str(PROGRAM), str(folder), where, str(at)], stdout=subprocess.PIPE, text=True)
        noted = told.stdout.splitlines()
        if told.returncode == 0:
            assert noted == ["on", *STEPS]
            break
        assert told.returncode == -9
        killed += 1
        asyncio.run(check(folder, noted))
    assert killed > 3


def test_neither_a_plaintext_nor_a_key_is_in_any_file(tmp_path: Path) -> None:
    async def run() -> list[bytes]:
        log, store, keys = EmbeddedLog(tmp_path / "data"), SqliteJournalStore(tmp_path / "data" / "store"), keys_of(tmp_path)
        opened = opened_by(log, store, keys)
        opened.cipher.turn_on()
        for number in range(50):
            await opened.writer("alice").write(draft("alice", [f"plaintext-{number}"]))
        (key,) = keys.store.keys(TOPIC, ["alice"])["alice"]
        clear = keys.masters.unwrap(key.wrapped, key.master, topic=TOPIC, id="alice", key_id=key.key_id)
        assert find(key.wrapped)  # the search finds what is there
        assert not find(clear)
        await opened.writer("alice").write(EraseDraft("alice", "me", "asked"))
        while_open = [find(clear), find(key.wrapped), find(b"plaintext-")]
        await opened.aclose()
        keys.close()
        store.close()
        log.close()
        assert while_open == [[], [], []]
        return [clear, key.wrapped, b"plaintext-", clear.hex().encode()]

    def find(text: bytes) -> list[Path]:
        return [path for path in (tmp_path / "data").rglob("*") if path.is_file() and text in path.read_bytes()]

    for text in asyncio.run(run()):
        assert find(text) == []

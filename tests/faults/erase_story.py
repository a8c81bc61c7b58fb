"""A story of an encrypted topic, told on a disk that fails or in a process that dies: keys are made, journals erased and begun anew.

As a program: `python erase_story.py FOLDER log|keys N` ends itself, as by kill -9, at the Nth call that changes the log's files or the
key store's. It prints each step that was acknowledged.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from headwater.core.errors import HeadwaterError
from headwater.core.files import Files
from headwater.journal.append_draft import draft
from headwater.journal.entity_keys import EntityKeys
from headwater.journal.master_keys import MasterKeys
from headwater.journal.open_topic import OpenTopic
from headwater.journal.settings import JournalSettings
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.sqlite_keys import SqliteKeyStore
from headwater.journal.topics import JournalTopics
from headwater.journal.write import Draft, EraseDraft
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.clock import ManualClock
from headwater.testing.faults import DyingFiles, crash
from headwater.testing.sqlite_faults import FailingVfs

MASTER = b"m" * 32
STEPS = ("append alice 1", "append bob 1", "append alice 2", "erase alice", "append alice 3", "erase bob", "append carol 1", "erase alice")


def keys_of(folder: Path, vfs: str | None = None) -> EntityKeys:
    """The keys of the story."""
    store = SqliteKeyStore(folder / "data" / "keys" / "journal.db", clock=ManualClock(), vfs=vfs)
    return EntityKeys(store, MasterKeys({"first": MASTER}), clock=ManualClock())


def opened_by(log: EmbeddedLog, store: SqliteJournalStore, keys: EntityKeys) -> OpenTopic:
    """The topic as a process opens it."""
    topic, _ = JournalTopics(log, JournalSettings()).create("bank", 1)
    clock = ManualClock(wakes=False)
    return OpenTopic(log, lambda: store, topic, writers="owner", settings=JournalSettings(), clock=clock, keys=lambda: keys)


async def tell(folder: Path, note: Callable[[str], object], *, files: Files | None = None, vfs: str | None = None) -> int:
    """Tell it; `note` gets each step that was acknowledged. Returns how many failed."""
    errors = 0
    log = EmbeddedLog(folder / "data", files=files or Files(), clock=ManualClock(wakes=False))
    store, keys = SqliteJournalStore(folder / "data" / "store"), None
    try:
        keys = keys_of(folder, vfs)
        opened = opened_by(log, store, keys)
        opened.cipher.turn_on()
        note("on")
        for step in STEPS:
            what, id, *number = step.split()
            one: Draft = draft(id, [f"{id}-{number[0]}"]) if what == "append" else EraseDraft(id, "me", "asked")
            try:
                await opened.writer(id).write(one)
                note(step)
            except HeadwaterError:
                errors += 1
                note(f"failed {step}")
        await opened.aclose()
    except HeadwaterError:
        errors += 1
    finally:
        if keys is not None:
            keys.close()
        crash(log)
        store.close()
    return errors


if __name__ == "__main__":
    place, where, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    said = lambda step: print(step, flush=True)  # noqa: E731
    if where == "log":
        asyncio.run(tell(place, said, files=DyingFiles(number)))
    else:
        with FailingVfs(number, dies=True) as vfs:
            asyncio.run(tell(place, said, vfs=vfs.name))

"""Copies of journals in SQLite when the disk fails, processes die and power is lost: pointer, heads and rows agree, and go on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.core.errors import HeadwaterError, OutcomeUnknown
from headwater.core.files import Files
from headwater.journal.sqlite import SqliteJournalStore
from headwater.testing.faults import DyingFiles, FailingFiles
from headwater.testing.journal_store_ground import History, digest_of, partition
from headwater.testing.sqlite_faults import FailingVfs

TOPIC = "journal-a"
CUTS = (2, 5, 7)
CHECKPOINT = 5  # the end of the range after which everything is made to survive a loss of power
EMPTY = -2


def history() -> History:
    """Appends of several journals, a Delete, a Purge and a life anew, over four ranges."""
    found = History(TOPIC)
    found.append("a", 1, 2, 3)
    found.append("b", 1)
    found.append("a", 4)
    found.delete("a", 2)
    found.append("c", 7, 8)
    found.purge("b")
    found.append("b", 1, 2)
    found.append("a", 5, 6)
    found.purge("c")
    return found


@pytest.fixture(scope="module")
def digests(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """The digest at each pointer, of a disk that does not fail."""
    digests = {}
    with SqliteJournalStore(tmp_path_factory.mktemp("whole")) as store:
        copy = partition(store, TOPIC)
        digests[-1] = digest_of(copy)
        for change in history().split(CUTS):
            copy.apply(change)
            digests[change.end - 1] = digest_of(copy)
        copy.clear()
        digests[EMPTY] = digest_of(copy)
    return digests


def workload(
    folder: Path, note: Callable[[int], object], *, files: Files | None = None, vfs: str | None = None, clears: bool = False
) -> None:
    """Apply all changes. `note` is told the pointers that were acknowledged, and the empty copy after `clear`."""
    with SqliteJournalStore(folder, files=files, vfs=vfs) as store:
        copy = partition(store, TOPIC)
        for change in history().split(CUTS):
            copy.apply(change)
            note(change.end - 1)
            if change.end == CHECKPOINT:
                copy.checkpoint()
        if clears:
            copy.clear()
            note(EMPTY)


def check(folder: Path, acknowledged: list[int], digests: dict[int, str]) -> None:
    """The next process finds what was acknowledged or one change more, whole, and goes on to the end."""
    with SqliteJournalStore(folder) as store:
        copy = partition(store, TOPIC)
        digest, pointer = digest_of(copy), copy.pointer()
        if EMPTY in acknowledged:
            assert digest == digests[EMPTY]
        else:
            possible = list(digests.values())
            at = possible.index(digest)
            assert digest == digests[EMPTY] or digest == digests[pointer.offset]
            assert at >= possible.index(digests[max(acknowledged, default=-1)])
            assert at <= len(acknowledged) + 1
        for change in history().split(CUTS):
            if change.end - 1 > copy.pointer().offset:
                assert copy.apply(change)
        assert digest_of(copy) == digests[history().end - 1]
        assert store.topics() == [TOPIC]


@pytest.mark.parametrize("forever", [False, True], ids=["once", "from then on"])
def test_whichever_call_of_sqlite_fails_the_copy_is_whole(memory_path: Path, digests: dict[int, str], forever: bool) -> None:
    number, failed = 0, set[str]()
    while True:
        number += 1
        acknowledged: list[int] = []
        with FailingVfs(number, forever=forever) as vfs:
            try:
                workload(memory_path / f"{number}", acknowledged.append, vfs=vfs.name, clears=True)
            except HeadwaterError:
                assert vfs.failed
            failed.update(vfs.failed)
            if not vfs.failed:
                break
        check(memory_path / f"{number}", acknowledged, digests)
    assert number > 20
    assert {"write", "sync"} <= failed
    assert acknowledged == [1, 4, 6, 8, EMPTY]


def test_a_process_goes_on_after_a_call_that_failed(memory_path: Path, digests: dict[int, str]) -> None:
    """The same store, without being opened again: a replicator tries its round once more."""
    number = 0
    while True:
        number += 1
        with FailingVfs() as vfs, SqliteJournalStore(memory_path / f"{number}", vfs=vfs.name) as store:
            copy = partition(store, TOPIC)
            vfs.fail_at = vfs.calls + number
            for change in history().split(CUTS):
                for _ in range(3):
                    try:
                        copy.apply(change)
                        break
                    except OutcomeUnknown:
                        assert copy.pointer().offset in (change.start - 1, change.end - 1)
                    except HeadwaterError:
                        assert copy.pointer().offset == change.start - 1
                assert digest_of(copy) == digests[change.end - 1]
            if not vfs.failed:
                break
    assert number > 5


def test_whichever_call_of_ours_fails_the_next_one_opens_it(memory_path: Path, digests: dict[int, str]) -> None:
    number = 0
    while True:
        number += 1
        files, acknowledged = FailingFiles(number), list[int]()
        try:
            workload(memory_path / f"{number}", acknowledged.append, files=files)
        except HeadwaterError:
            assert files.failed
        check(memory_path / f"{number}", acknowledged, digests)
        if not files.failed:
            break
    assert number > 2


@pytest.mark.parametrize("way", ["files", "vfs"])
def test_whenever_a_process_dies_pointer_and_rows_agree(memory_path: Path, digests: dict[int, str], way: str) -> None:
    number, code = 0, -signal.SIGKILL
    while code:
        number += 1
        folder, notes = memory_path / f"{number}", memory_path / f"{number}.notes"
        child = os.fork()
        if child == 0:
            dies(folder, notes, way, number)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, -signal.SIGKILL)
        check(folder, [int(line) for line in notes.read_text().split()], digests)
    assert number > 2


def dies(folder: Path, notes: Path, way: str, number: int) -> None:
    """In the child: ends at the call of this number."""
    code = 1
    try:
        fd = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        files = DyingFiles(number) if way == "files" else None
        vfs = FailingVfs(number, dies=True) if way == "vfs" else None
        workload(folder, lambda pointer: os.write(fd, b"%d\n" % pointer), files=files, vfs=vfs.name if vfs else None, clears=True)
        code = 0
    finally:
        os._exit(code)


def test_a_replicator_that_is_killed_from_outside_loses_and_doubles_nothing(tmp_path: Path) -> None:
    script = """
import os, sys
from pathlib import Path
from headwater.journal.sqlite import SqliteJournalStore
from headwater.testing.journal_store_ground import History, partition
notes = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
store = SqliteJournalStore(Path(sys.argv[1]))
copy = partition(store, "journal-a")
while True:
    start = copy.pointer().offset + 1
    history = History("journal-a")
    for number in range(start, start + 20):
        history.records.extend([None] * (number - history.end)); history.rows.extend([()] * (number - len(history.rows)))
        history.expiries.extend([None] * (number - len(history.expiries)))
        history.append(f"id-{number % 7}", number // 7 + 1)
    assert copy.apply(history.change(start))
    os.write(notes, b"%d\\n" % (start + 19))
"""
    for number in range(6):
        notes = tmp_path / f"{number}.notes"
        process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "store"), str(notes)])
        try:
            while not notes.exists() or notes.stat().st_size < 100:
                assert process.poll() is None
        finally:
            process.kill()
            process.wait()
        acknowledged = max(int(line) for line in notes.read_text().split())
        with SqliteJournalStore(tmp_path / "store") as store, partition(store, TOPIC).view() as view:
            end = view.pointer.offset + 1
            assert acknowledged < end
            rows = [row for id, head in view.heads() for batch in view.rows(id, head, 1) for row in batch]
            assert sorted(row.offset for row in rows) == list(range(end))
            assert all(head.seq_nr == max(row.seq_nr for row in rows if row.offset % 7 == int(id[3:])) for id, head in view.heads())


def test_a_loss_of_power_takes_whole_changes_from_the_end_and_none_before_a_checkpoint(memory_path: Path, digests: dict[int, str]) -> None:
    """Unsynced pages of the -wal file are cut off at every length: what stays is a change's end, at or behind the checkpoint's."""
    folder, after = memory_path / "store", memory_path / "after"
    with SqliteJournalStore(folder) as store:
        copy = partition(store, TOPIC)
        for change in history().split(CUTS):
            copy.apply(change)
            if change.end == CHECKPOINT:
                assert copy.checkpoint().offset == CHECKPOINT - 1
        wal = (folder / TOPIC / "0.db-wal").read_bytes()
        database = (folder / TOPIC / "0.db").read_bytes()
    assert len(wal) > 3 * 4096
    seen = set[int]()
    for length in [*range(0, len(wal), 512), len(wal)]:
        shutil.rmtree(after, ignore_errors=True)
        (after / TOPIC).mkdir(parents=True)
        (after / TOPIC / "0.db").write_bytes(database)
        (after / TOPIC / "0.db-wal").write_bytes(wal[:length])
        with SqliteJournalStore(after) as store:
            copy = partition(store, TOPIC)
            pointer = copy.pointer().offset
            assert digest_of(copy) == digests[pointer]
            seen.add(pointer)
        check(after, [end for end in digests if 0 <= end <= pointer], digests)
    assert seen == {4, 6, 8}

"""Documents in SQLite when the disk fails and processes die: rows, rows of indexes and the applied offset agree, and go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.core.errors import HeadwaterError, OutcomeUnknown
from headwater.core.files import Files
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.testing.document_history import RecordedDocuments, definition
from headwater.testing.faults import DyingFiles, FailingFiles
from headwater.testing.sqlite_faults import FailingVfs

STOPS = (3, 6, 9, 12)
CHECKPOINT = 6  # the applied offset after which everything is made to survive a loss of power
CLEARED = -1


def history() -> RecordedDocuments:
    """Documents, items, an index that is filled, and a collection that is deleted and made anew, over four calls."""
    found = RecordedDocuments()
    found.put("a", text="x" * 3000)
    found.put("c~", "1", p=1)
    found.put("c~", "2", p=2)
    found.set_index("c~", definition(1, "p", materialize=True))
    found.put("c~", "3", p=0)
    found.set_index("c~", definition(1, "p", state="ready", materialize=True))
    found.delete("a")
    found.put("c~", "1", p=5)
    found.put("d~", "1", p=5)
    found.delete("c~")
    found.put("c~", "9", p=1)
    found.put("a", p=2)
    return found


RECORDS = history().records


@pytest.fixture(scope="module")
def digests(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """The digest at each applied offset, of a disk that does not fail."""
    with SqliteDocumentStores(tmp_path_factory.mktemp("whole")) as stores:
        store = stores.partition(0, "g")
        digests = {0: store.digest()}
        for stop in STOPS:
            store.apply(RECORDS[:stop], stop)
            digests[stop] = store.digest()
    return digests


def workload(
    folder: Path, note: Callable[[int], object], *, files: Files | None = None, vfs: str | None = None, clears: bool = False
) -> None:
    """Apply all records. `note` is told the applied offsets that were acknowledged, and that the store was cleared."""
    with SqliteDocumentStores(folder, files=files, vfs=vfs) as stores:
        store = stores.partition(0, "g")
        for stop in STOPS:
            store.apply(RECORDS[:stop], stop)
            note(stop)
            if stop == CHECKPOINT:
                assert store.checkpoint() == stop
        store.purge(100)
        if clears:
            store.clear()
            note(CLEARED)


def check(folder: Path, acknowledged: list[int], digests: dict[int, str]) -> None:
    """The next process finds what was acknowledged or one call more, whole, and goes on to the end."""
    with SqliteDocumentStores(folder) as stores:
        store = stores.partition(0, "g")
        with store.view() as view:
            applied = view.applied()
        assert store.digest() == digests[applied]
        if CLEARED in acknowledged:
            assert applied == 0
        elif applied or len(acknowledged) < len(STOPS):  # else the clearing was not acknowledged, and counts
            possible = [0, *STOPS]
            assert applied in (possible[len(acknowledged)], possible[min(len(acknowledged) + 1, len(STOPS))])
        store.apply(RECORDS, STOPS[-1])
        while store.purge(1):
            pass
        assert store.digest() == digests[STOPS[-1]]
        with store.view() as view:
            history().check(view)


@pytest.mark.parametrize("forever", [False, True], ids=["once", "from then on"])
def test_whichever_call_of_sqlite_fails_the_store_is_whole(memory_path: Path, digests: dict[int, str], forever: bool) -> None:
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
    assert acknowledged == [*STOPS, CLEARED]


def test_a_process_goes_on_after_a_call_that_failed(memory_path: Path, digests: dict[int, str]) -> None:
    """The same store, without being opened again: recovery applies the records once more."""
    number = 0
    while True:
        number += 1
        with FailingVfs() as vfs, SqliteDocumentStores(memory_path / f"{number}", vfs=vfs.name) as stores:
            store = stores.partition(0, "g")
            vfs.fail_at = vfs.calls + number
            for before, stop in zip((0, *STOPS), STOPS, strict=False):
                for _ in range(3):
                    try:
                        store.apply(RECORDS[before:stop], stop)
                        break
                    except OutcomeUnknown:
                        assert store.digest() in (digests[before], digests[stop])
                    except HeadwaterError:
                        assert store.digest() == digests[before]
                assert store.digest() == digests[stop]
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
def test_whenever_a_process_dies_offset_and_rows_agree(memory_path: Path, digests: dict[int, str], way: str) -> None:
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
        workload(folder, lambda applied: os.write(fd, b"%d\n" % applied), files=files, vfs=vfs.name if vfs else None, clears=True)
        code = 0
    finally:
        os._exit(code)


def test_a_process_that_is_killed_from_outside_loses_and_doubles_nothing(tmp_path: Path) -> None:
    script = """
import os, sys
from pathlib import Path
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.testing.document_history import RecordedDocuments
history = RecordedDocuments()
store = SqliteDocumentStores(Path(sys.argv[1])).partition(0, "g")
with store.view() as view:
    applied = view.applied()
while True:
    history.put("c~", str(history.end % 7), p=history.end)
    if history.end > applied and history.end % 20 == 0:
        store.apply(history.records, history.end)
        os.write(1, b"%d\\n" % history.end)
"""
    acknowledged = 0
    for _ in range(4):
        child = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(5)]
        child.kill()
        lines += child.stdout.readlines()
        child.wait()
        child.stdout.close()
        acknowledged = max(acknowledged, *(int(line) for line in lines if line.endswith(b"\n")))
        with SqliteDocumentStores(tmp_path) as stores, stores.partition(0, "g").view() as view:
            applied = view.applied()
            assert applied >= acknowledged
            model = RecordedDocuments()
            while model.end < applied:
                model.put("c~", str(model.end % 7), p=model.end)
            model.check(view)

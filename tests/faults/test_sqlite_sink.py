"""The SQLite sink when the disk fails and when its process dies: every row is there once, and no message is blamed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest

from headwater.adaptors.sqlite import session
from headwater.adaptors.sqlite.adaptor import Sqlite
from headwater.core.errors import Unavailable
from headwater.pipeline.adaptors import sqlite
from headwater.pipeline.claim import SinkClaim
from headwater.pipeline.message import Message
from headwater.pipeline.sink_adaptor import Batch, Part
from headwater.store.sqlite.library import connect, open_file
from headwater.testing.sqlite_faults import FailingVfs

BATCHES, ROWS = 4, 50


def deliver(adaptor: Sqlite, tag: str) -> None:
    """A run: every batch that the sink has not taken. Each makes a column, so that the schema changes as well."""
    adaptor.claim(SinkClaim(pipeline="p", sink="s", epoch=1))
    taken = adaptor.begin("p", "s", 1) or []
    start = taken[0][1] if taken else 0
    with closing(adaptor.writer(Part(pipeline="p", sink="s", start=start, end=BATCHES * ROWS, epoch=1))) as writer:
        for at in range(start, BATCHES * ROWS, ROWS):
            messages = [Message("t", {"_id": offset, f"c{at}": tag}, offset=offset) for offset in range(at, at + ROWS)]
            writer.write(Batch(start=at, end=at + ROWS, messages=messages))


def check(adaptor: Sqlite) -> None:
    """After a run that failed: whole batches are there, those that are noted; and the next run brings the rest, and only the rest."""
    with closing(connect(str(adaptor.path), timeout=30)) as db:
        assert db.pragma("integrity_check") == "ok"
    noted = (adaptor.begin("p", "s", 1) or [(0, 0)])[0]
    first = [row["_id"] for row in adaptor.rows("t")] if noted != (0, 0) else []
    assert sorted(first) == list(range(*noted))
    assert len(first) % ROWS == 0
    deliver(adaptor, "second")
    rows = {row["_id"]: next(value for name, value in row.items() if name != "_id") for row in adaptor.rows("t")}
    assert rows == {number: "first" if number in first else "second" for number in range(BATCHES * ROWS)}


@pytest.fixture
def through(monkeypatch: pytest.MonkeyPatch) -> Callable[[FailingVfs], None]:
    """Sets the file system that the sink opens its files by."""
    return lambda vfs: monkeypatch.setattr(session, "open_file", partial(open_file, vfs=vfs.name))


def calls(path: Path, through: Callable[[FailingVfs], None]) -> int:
    with FailingVfs() as vfs:
        through(vfs)
        deliver(sqlite(str(path)), "first")
        return vfs.calls


@pytest.mark.parametrize("forever", [False, True], ids=["once", "from then on"])
def test_whichever_call_fails_nothing_is_lost_or_written_twice(
    memory_path: Path, forever: bool, through: Callable[[FailingVfs], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    total = calls(memory_path / "none.db", through)
    assert total > 4 * BATCHES
    failed = set[str]()
    for number in range(1, total + 1):
        adaptor = sqlite(str(memory_path / f"{number}.db"))
        with FailingVfs(number, forever=forever) as vfs:
            through(vfs)
            with suppress(Unavailable):  # and nothing else: `Rejected` would blame a message
                deliver(adaptor, "first")
        failed.update(vfs.failed)
        monkeypatch.undo()
        check(adaptor)
    assert {"write", "sync"} <= failed


def test_a_process_that_dies_at_any_call_loses_nothing_and_writes_nothing_twice(
    memory_path: Path, through: Callable[[FailingVfs], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    total = calls(memory_path / "none.db", through)
    monkeypatch.undo()
    for number in range(1, total + 1):
        adaptor = sqlite(str(memory_path / f"{number}.db"))
        child = os.fork()
        if child == 0:
            try:
                vfs = FailingVfs(number, dies=True)
                through(vfs)
                deliver(adaptor, "first")
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        check(adaptor)

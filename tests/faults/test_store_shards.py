"""Shard files when the disk fails and when processes die: the number of files stays, and what was acknowledged is there."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from headwater.core.errors import HeadwaterError
from headwater.core.files import Files
from headwater.store import Migration, Migrations
from headwater.store.sqlite.shards import Shards
from headwater.testing.faults import DyingFiles, FailingFiles
from headwater.testing.sqlite_faults import FailingVfs

STEPS = Migrations(
    "toy",
    (
        Migration(1, "a", "create table a (key blob primary key);\n"),
        Migration(2, "b", "create table b (id integer primary key);\nalter table a add column c text;\n"),
    ),
)
COUNT = 3
KEYS = [b"key-%d" % number for number in range(6)]


def workload(folder: Path, note: Callable[[bytes], object], *, files: Files | None = None, vfs: str | None = None) -> None:
    """Make the folder, bring every file to its form, and write a key into its file; `note` is told what was acknowledged."""
    with closing(Shards(folder, count=COUNT, synced=True, files=files, vfs=vfs)) as shards:
        shards.migrate(STEPS)
        for key in KEYS:
            shards.of(key).run("insert into a (key) values (?)", (key,))
            note(key)


def check(folder: Path, acknowledged: set[bytes]) -> None:
    """The next process opens it, with another count in its settings, and goes on at once."""
    with closing(Shards(folder, count=COUNT + 2, synced=True)) as shards:
        assert shards.count in ((COUNT,) if acknowledged else (COUNT, COUNT + 2))
        shards.migrate(STEPS)
        found = {key for database in shards for (key,) in database.run("select key from a")}
        assert acknowledged <= found <= set(KEYS)
        for key in KEYS:
            shards.of(key).run("insert or ignore into a (key) values (?)", (key,))
            assert shards.of(key).applied("toy") == [1, 2]
        assert sum(len(database.run("select key from a")) for database in shards) == len(KEYS)  # none is in a file of another count
    with closing(Shards(folder, count=1, synced=True)) as again:
        assert again.count == shards.count


def test_whichever_call_fails_the_next_one_opens_it(memory_path: Path) -> None:
    number = 0
    while True:
        number += 1
        files, acknowledged = FailingFiles(number), set[bytes]()
        try:
            workload(memory_path / f"{number}", acknowledged.add, files=files)
        except HeadwaterError:
            assert files.failed
        check(memory_path / f"{number}", acknowledged)
        if not files.failed:
            break
    assert number > 10
    assert acknowledged == set(KEYS)


def test_whichever_call_of_sqlite_fails_no_file_loses_what_was_acknowledged(memory_path: Path) -> None:
    number, failed = 0, set[str]()
    while True:
        number += 1
        acknowledged = set[bytes]()
        with FailingVfs(number) as vfs:
            try:
                workload(memory_path / f"{number}", acknowledged.add, vfs=vfs.name)
            except HeadwaterError:
                assert vfs.failed
            failed.update(vfs.failed)
            check(memory_path / f"{number}", acknowledged)
            if not vfs.failed:
                break
    assert {"write", "sync"} <= failed


def test_whenever_a_process_dies_the_next_one_opens_it(memory_path: Path) -> None:
    """At each moment of our own files, and at each change that SQLite makes."""
    for way in ("files", "vfs"):
        number, code = 0, -signal.SIGKILL
        while code:
            number += 1
            folder, notes = memory_path / f"{way}-{number}", memory_path / f"{way}-{number}.notes"
            child = os.fork()
            if child == 0:
                dies(folder, notes, way, number)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert code in (0, -signal.SIGKILL)
            check(folder, set(notes.read_bytes().split()))
        assert number > 20


def dies(folder: Path, notes: Path, way: str, number: int) -> None:
    """In the child: ends at the moment of this number."""
    code = 1
    try:
        fd = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        files = DyingFiles(number) if way == "files" else None
        vfs = FailingVfs(number, dies=True) if way == "vfs" else None
        workload(folder, lambda key: os.write(fd, key + b"\n"), files=files, vfs=None if vfs is None else vfs.name)
        code = 0
    finally:
        os._exit(code)

"""Rows spread over several SQLite files, so that several processes write at once. A transaction never spans two of them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import Damaged, NewerFormat
from headwater.core.files import FileLock, Files, explaining, make_dirs, replace
from headwater.store import Migration, Migrations
from headwater.store.sqlite.database import Database

_FILE, _MADE = "shards.json", "made"


class _Description(msgspec.Struct, frozen=True):
    count: int
    hash: str = "crc32"  # of the key's bytes, modulo the count: fixed with the first row


class Shards:
    """The files of one folder, `00.db` and so on. Their number is fixed when the folder is made: another `count` later changes nothing.

    Errors: `Damaged` when the note of the count is gone or no file is there for a shard that had one, and those of `Database`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        count: int,
        synced: bool,
        timeout: float = 30.0,
        files: Files | None = None,
        clock: Clock | None = None,
        vfs: str | None = None,
    ) -> None:
        self.folder, self._files = folder, files or Files()
        self.count = self._described(count)
        paths = [folder / f"{number:02}.db" for number in range(self.count)]
        there = [path.exists() for path in paths]
        # All files are made together with the note. A file missing later is lost: an empty one in its place would hide that.
        if not all(there) and (folder / _MADE).exists():
            raise Damaged(
                f"{paths[there.index(False)]} is missing.", hint="Bring it back from a backup, or make the store anew from the log."
            )
        self._databases: list[Database] = []
        try:
            for path in paths:
                self._databases.append(Database(path, synced=synced, timeout=timeout, files=self._files, clock=clock, vfs=vfs))
            if not (folder / _MADE).exists():
                with explaining(folder):
                    replace(self._files, folder / _MADE, b"")
        except BaseException:
            self.close()
            raise

    def of(self, key: bytes) -> Database:
        """The file that holds a key's rows."""
        return self._databases[zlib.crc32(key) % self.count]

    def __iter__(self) -> Iterator[Database]:
        return iter(self._databases)

    def migrate(self, migrations: Migrations) -> list[Migration]:
        """`Database.migrate` for every file; the steps that any of them lacked."""
        applied = {step.number: step for database in self._databases for step in database.migrate(migrations)}
        return [applied[number] for number in sorted(applied)]

    def close(self) -> None:
        """Close every file. Closing twice is no error."""
        for database in self._databases:
            database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _described(self, count: int) -> int:
        note = self.folder / _FILE
        with explaining(self.folder):
            make_dirs(self._files, self.folder)
            lock = FileLock(self._files, self.folder / "lock")
            try:
                lock.exclusive()  # for microseconds: two processes that make the folder must agree
                if not note.exists():
                    if any(self.folder.glob("*.db")):
                        raise Damaged(
                            f"{note} is missing.", hint="It says how many files the rows are spread over: bring it back from a backup."
                        )
                    replace(self._files, note, msgspec.json.encode(_Description(count)))
                written = note.read_bytes()
            finally:
                lock.close()
        try:
            description = msgspec.json.decode(written, type=_Description)
        except msgspec.MsgspecError as error:
            raise Damaged(f"{note} is damaged: {error}.", hint="Bring it back from a backup.") from error
        if description.hash != "crc32":
            raise NewerFormat(f"{note} names the hash {description.hash}.", hint="Use the headwater that made it, or a newer one.")
        return description.count

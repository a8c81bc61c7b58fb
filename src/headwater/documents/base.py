"""Base copies: verified folds of partitions, from which `rebuild` and `verify` begin where the log no longer holds its first records.

`<folder>/<partition>.json` is the note of a base copy, and names the file that holds it, a SQLite file as the store's. One is written
beside the one before it, and counts once its note is replaced:

  1. the log is folded anew into a scratch file, from 0 or from the base copy before it, and compared with the store
  2. the scratch file is synced, and gets its name; the directory is synced
  3. the note is replaced, durably
  4. files that no note names are removed

A death at any step leaves the one before it valid. Files are never changed: whoever uses one works on a copy, and checks its digest.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Damaged
from headwater.core.files import Files, explaining, make_dirs, replace
from headwater.core.ids import Ids, random_id
from headwater.core.mutex import ProcessMutex
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.documents.store import DocumentStore
from headwater.documents.verify import DocumentVerification, verify_partition
from headwater.log import Log
from headwater.log.record import Topic

FOLDER = Path("base") / "documents"
"""Below the data directory."""
_CHUNK = 1 << 20
_PATIENCE = 5.0  # seconds that a second one who writes a base copy waits for the first


class DocumentBaseNote(msgspec.Struct, frozen=True, kw_only=True):
    """A base copy. `applied`: every record below it counts. `file`: its name, with its size and digest. `created`: milliseconds."""

    partition: int
    generation: str
    applied: int
    file: str
    size: int
    sha256: str
    created: int


class DocumentBases:
    """The base copies of all partitions, in one folder. Blocking."""

    def __init__(self, folder: Path, *, files: Files | None = None, clock: Clock | None = None, ids: Ids = random_id) -> None:
        self.folder, self._files, self._clock, self._ids = folder, files or Files(), clock or SystemClock(), ids

    def note(self, topic: Topic, partition: int) -> DocumentBaseNote | None:
        """The base copy of a partition of this topic; None: there is none. Errors: `Damaged` for a rotten note."""
        path = self.folder / f"{partition}.json"
        try:
            with explaining(path, reading=True):
                if not path.exists():
                    return None
                note = msgspec.json.decode(path.read_bytes(), type=DocumentBaseNote)
        except msgspec.MsgspecError as error:
            raise _damaged(path, str(error)) from error
        if note.partition != partition or "/" in note.file:
            raise _damaged(path, f"it is of partition {note.partition}")
        return note if note.generation == topic.generation else None

    @contextmanager
    def opened(self, topic: Topic, partition: int) -> Iterator[DocumentStore | None]:
        """A working copy of the base copy, as a store; None: there is none. Errors: `Damaged` where it is not what its note says."""
        note = self.note(topic, partition)
        if note is None:
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="headwater-base-") as made:
            source, target = self.folder / note.file, Path(made) / f"{partition}.db"
            with explaining(source, reading=True):
                if not source.exists():
                    raise _damaged(source, "it is not there")
                shutil.copyfile(source, target)
                found = _digest(target)
            if found != (note.sha256, note.size):
                raise _damaged(source, f"its digest is {found[0][:16]}…, not {note.sha256[:16]}…")
            with SqliteDocumentStores(Path(made)) as stores:
                yield stores.partition(partition, topic.generation)

    def write(
        self, log: Log, store: DocumentStore, topic: Topic, partition: int, *, stopped: Callable[[], bool] = lambda: False
    ) -> DocumentVerification:
        """Verify the store of a partition, and keep what was verified as its base copy.

        Errors: those of `verify_partition`, and `Differs` where the store is not what the log says; `Timeout` where another process writes
        one. Then the one before it stays.
        """
        with self._writing() as scratch, self.opened(topic, partition) as base:
            found = verify_partition(log, store, topic, partition, base=base, stopped=stopped, folder=scratch)  # 1.
            found.check()
            self._adopt(scratch / f"{partition}.db", topic, found)
        return found

    def write_to(self, log: Log, store: DocumentStore, topic: Topic, partition: int, offset: int) -> None:
        """`write`, unless the base copy holds everything below an offset already."""
        note = self.note(topic, partition)
        if note is None or note.applied < offset:
            self.write(log, store, topic, partition)

    @contextmanager
    def _writing(self) -> Iterator[Path]:
        """A folder for a scratch file, while nobody else writes a base copy. It is removed at the end."""
        with explaining(self.folder):
            make_dirs(self._files, self.folder)
        mutex = ProcessMutex(self.folder / "lock", files=self._files, clock=self._clock, timeout=_PATIENCE)
        try:
            with mutex.held():
                for left in self.folder.glob("tmp-*"):  # by a process that died
                    shutil.rmtree(left, ignore_errors=True)
                folder = self.folder / f"tmp-{self._ids()}"
                try:
                    with explaining(folder):
                        self._files.mkdir(folder)
                    yield folder
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
        finally:
            with mutex.closing():
                pass

    def _adopt(self, made: Path, topic: Topic, found: DocumentVerification) -> None:
        partition = found.partition
        with explaining(made):
            sha256, size = _digest(made)
            name = f"{partition}-{found.applied}-{self._ids()}.db"
            # 2. its bytes, then its name
            fd = self._files.open(made, os.O_RDONLY)
            try:
                self._files.sync(fd)
            finally:
                self._files.close(fd)
            self._files.rename(made, self.folder / name)
            self._files.sync_dir(self.folder)
            note = DocumentBaseNote(
                partition=partition,
                generation=topic.generation,
                applied=found.applied,
                file=name,
                size=size,
                sha256=sha256,
                created=self._clock.now_ms(),
            )
            # 3. from here on it counts
            replace(self._files, self.folder / f"{partition}.json", msgspec.json.encode(note) + b"\n")
        # 4. what no note names only takes up space, and the next one tries again
        for path in self.folder.glob(f"{partition}-*.db"):
            if path.name != name:
                with suppress(OSError):
                    self._files.unlink(path)


def _digest(path: Path) -> tuple[str, int]:
    hashed, size = hashlib.sha256(), 0
    with path.open("rb") as read:
        while chunk := read.read(_CHUNK):
            hashed.update(chunk)
            size += len(chunk)
    return hashed.hexdigest(), size


def _damaged(path: Path, says: str) -> Damaged:
    return Damaged(f"The base copy {path} is damaged: {says}.", hint="Restore it from a backup, or keep the store as it is.")

"""Base copies: verified folds of partitions, from which `rebuild` and `verify` begin where the log no longer holds its first records.

The note of a base copy names the file that holds it, a SQLite file as the store's. Where they are kept, `BaseFiles` says: in a folder of
this machine (`<partition>.json` is the note), or in the keyspace of a store that several machines share, because the next owner of the
partition needs them. One is written beside the one before it, and counts once its note is replaced:

  1. the log is folded anew into a scratch file, from 0 or from the base copy before it, and compared with the store
  2. the scratch file is kept, durably, under its name
  3. the note is replaced, durably
  4. files that no note names are removed

A death at any step leaves the one before it valid. Files are never changed: whoever uses one works on a copy, and checks its digest.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.core.clock import Clock, SystemClock
from headwater.core.files import Files, explaining, make_dirs
from headwater.core.ids import Ids, random_id
from headwater.core.mutex import ProcessMutex
from headwater.documents.base_files import BaseFiles, DocumentBaseNote, FolderBaseFiles, damaged_base
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.documents.store import DocumentStore
from headwater.documents.verify import DocumentVerification, verify_partition
from headwater.log import Log
from headwater.log.record import Topic

FOLDER = Path("base") / "documents"
"""Below the data directory: scratch files, and the base copies of a store that is on this machine."""
_CHUNK = 1 << 20
_PATIENCE = 5.0  # seconds that a second one who writes a base copy waits for the first


class DocumentBases:
    """The base copies of all partitions. Blocking."""

    def __init__(
        self,
        folder: Path,
        *,
        kept: BaseFiles | None = None,
        files: Files | None = None,
        clock: Clock | None = None,
        ids: Ids = random_id,
    ) -> None:
        """`folder`: of scratch files, and of the base copies unless they are `kept` elsewhere. Those that are in it from before are read
        until one of their partition is kept there."""
        self.folder, self._files, self._clock, self._ids = folder, files or Files(), clock or SystemClock(), ids
        self._kept = kept or FolderBaseFiles(folder, self._files)
        self._before = None if kept is None else FolderBaseFiles(folder, self._files)

    def note(self, topic: Topic, partition: int) -> DocumentBaseNote | None:
        """The base copy of a partition of this topic; None: there is none. Errors: `Damaged` for a rotten note."""
        return self._noted(topic, partition)[1]

    @contextmanager
    def opened(self, topic: Topic, partition: int) -> Iterator[DocumentStore | None]:
        """A working copy of the base copy, as a store; None: there is none. Errors: `Damaged` where it is not what its note says."""
        files, note = self._noted(topic, partition)
        if note is None:
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="headwater-base-") as directory:
            target = Path(directory) / f"{partition}.db"
            while says := _fetched(files, note, target):
                place, newer = self._noted(topic, partition)
                if newer is None or newer == note:
                    raise damaged_base(files.where(note.file), says)
                files, note = place, newer  # its owner has replaced it meanwhile, and removed the file
            with SqliteDocumentStores(Path(directory)) as stores:
                yield stores.partition(partition, topic.generation)

    def _noted(self, topic: Topic, partition: int) -> tuple[BaseFiles, DocumentBaseNote | None]:
        """The note of a partition, and where its file is."""
        note = self._kept.note(partition, topic.generation)
        if note is None and self._before is not None:
            return self._before, self._before.note(partition, topic.generation)
        return self._kept, note

    def write(
        self, log: Log, store: DocumentStore, topic: Topic, partition: int, *, stopped: Callable[[], bool] = lambda: False
    ) -> DocumentVerification:
        """Verify the store of a partition, and keep what was verified as its base copy.

        Errors: those of `verify_partition`, and `Differs` where the store is not what the log says; `Timeout` where another process writes
        one. Then the one before it stays.
        """
        with self._writing() as scratch, self.opened(topic, partition) as base:
            verification = verify_partition(log, store, topic, partition, base=base, stopped=stopped, folder=scratch)  # 1.
            verification.check()
            self._adopt(scratch / f"{partition}.db", topic, verification)
        return verification

    def write_to(self, log: Log, store: DocumentStore, topic: Topic, partition: int, offset: int) -> None:
        """`write`, unless the base copy holds everything below an offset already."""
        note = self._kept.note(partition, topic.generation)
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

    def _adopt(self, path: Path, topic: Topic, verification: DocumentVerification) -> None:
        with explaining(path):
            sha256, size = _digest(path)
        note = DocumentBaseNote(
            partition=verification.partition,
            generation=topic.generation,
            applied=verification.applied,
            file=f"{verification.partition}-{verification.applied}-{self._ids()}.db",
            size=size,
            sha256=sha256,
            created=self._clock.now_ms(),
        )
        self._kept.keep(path, note)  # 2. to 4.


def _fetched(files: BaseFiles, note: DocumentBaseNote, target: Path) -> str:
    """Copy the file of a note; what is wrong with it, or nothing."""
    if not files.fetch(note, target):
        return "it is not there"
    with explaining(target, reading=True):
        digest_and_size = _digest(target)
    return "" if digest_and_size == (note.sha256, note.size) else f"its digest is {digest_and_size[0][:16]}…, not {note.sha256[:16]}…"


def _digest(path: Path) -> tuple[str, int]:
    hashed, size = hashlib.sha256(), 0
    with path.open("rb") as read:
        while chunk := read.read(_CHUNK):
            hashed.update(chunk)
            size += len(chunk)
    return hashed.hexdigest(), size

"""Bases: verified copies of partitions, from which `rebuild` and `verify` begin where the log no longer holds its first records.

`<folder>/<topic>/<partition>.json` is the note of a base, and names the file that holds it, a SQLite file as the store's. A base is written
beside the one before it, and counts once its note is replaced:

  1. the log is folded anew into a scratch file, from 0 or from the base before it, and compared with the store's copy
  2. the scratch file is synced, and gets its name; the directory is synced
  3. the note is replaced, durably
  4. files that no note names are removed

A death at any step leaves the base before it valid. Files are never changed: whoever uses a base works on a copy, and checks its digest.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Damaged, Differs, LogGap
from headwater.core.files import Files, explaining, make_dirs, replace
from headwater.core.ids import Ids, random_id
from headwater.core.mutex import ProcessMutex
from headwater.journal.discovery import JournalTopic, generation_of_journals
from headwater.log import Log

FOLDER = Path("base") / "journal"
"""Below the data directory."""
_CHUNK = 1 << 20
_PATIENCE = 5.0  # seconds that a second one who writes a base of the topic waits for the first


class BaseSnapshots(msgspec.Struct, frozen=True):
    """The snapshots of a base. `generation`: of their topic. `pointer`: the last record of it that they hold."""

    generation: str
    pointer: int
    count: int


class BaseNote(msgspec.Struct, frozen=True, kw_only=True):
    """A base. `pointer`: the last record that it holds. `file`: its name, with its size and digest. `created`: milliseconds.

    `snapshots`: None in a base of journals that had none, or of an earlier version."""

    topic: str
    partition: int
    generation: str
    pointer: int
    file: str
    size: int
    sha256: str
    journals: int
    events: int
    created: int
    snapshots: BaseSnapshots | None = None


class JournalBases:
    """The bases of all topics, below one folder. Blocking."""

    def __init__(self, folder: Path, *, files: Files | None = None, clock: Clock | None = None, ids: Ids = random_id) -> None:
        self.folder, self._files, self._clock, self._ids = folder, files or Files(), clock or SystemClock(), ids

    def note(self, topic: JournalTopic, partition: int) -> BaseNote | None:
        """The base of a partition of this generation of the topic; None: there is none. Errors: `Damaged` for a rotten note."""
        path = self._note_path(topic.name, partition)
        try:
            with explaining(path, reading=True):
                if not path.exists():
                    return None
                note = msgspec.json.decode(path.read_bytes(), type=BaseNote)
        except msgspec.MsgspecError as error:
            raise _damaged(path, str(error), topic.name) from error
        if (note.topic, note.partition) != (topic.name, partition) or "/" in note.file:
            raise _damaged(path, f"it is of {note.topic}/{note.partition}", topic.name)
        return note if note.generation == topic.generation else None

    def usable(self, log: Log, topic: JournalTopic, partition: int) -> BaseNote:
        """The base from which the log of a partition goes on.

        Errors: `LogGap` where there is none, or an older one than the log's first record; `Differs` for one that is newer than the log.
        """
        bounds, note = log.bounds(topic.name, partition), self.note(topic, partition)
        place = f"{topic.name}/{partition}"
        if note is None:
            raise LogGap(
                f"The log of {place} begins at offset {bounds.start}, and there is no base that holds the records before.",
                hint=f"Bring back the older log or a store that has them. Write a base with `headwater journal base {topic.name}` before "
                "`journal.keep` deletes records.",
            )
        if note.pointer + 1 < bounds.start:
            raise LogGap(
                f"The base of {place} ends at offset {note.pointer}, and the log begins at {bounds.start}: the records "
                f"{note.pointer + 1} to {bounds.start - 1} are in neither.",
                hint="Bring back a newer base or an older log.",
            )
        if note.pointer >= bounds.end:
            raise Differs(
                f"The base of {place} ends at offset {note.pointer}, and the log ends at {bounds.end}: it is older than the base.",
                hint="Bring the newer log back.",
            )
        return note

    def of_snapshots(self, log: Log, topic: JournalTopic, partition: int) -> BaseNote | None:
        """The base that holds what the log of a topic of snapshots has deleted; None: there is none. Errors: `Differs`, `Damaged`."""
        note = self.note(JournalTopic(topic.journals, topic.partitions, generation_of_journals(topic.generation)), partition)
        snapshots = None if note is None else note.snapshots
        if snapshots is None or snapshots.generation != topic.generation:
            return None
        bounds = log.bounds(topic.name, partition)
        if snapshots.pointer >= bounds.end:
            raise Differs(
                f"The base of {topic.name}/{partition} ends at offset {snapshots.pointer}, and the log at {bounds.end}: "
                "it is older than the base.",
                hint="Bring the newer log back.",
            )
        return note if snapshots.pointer + 1 >= bounds.start else None

    @contextmanager
    def scratch(self, note: BaseNote | None, *, folder: Path | None = None) -> Iterator[Path]:
        """A folder for a store of SQLite files that begins with a base, or empty. It is removed at the end, unless `folder` is given.

        Errors: `Damaged` where the base is not what its note says.
        """
        if folder is None:
            with tempfile.TemporaryDirectory(prefix="headwater-journal-") as directory:
                with self.scratch(note, folder=Path(directory)) as scratch_folder:
                    yield scratch_folder
            return
        if note is not None:
            target = folder / note.topic / f"{note.partition}.db"
            with explaining(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                digest, size = self._copied(self._path(note), target, note.topic)
            if (digest, size) != (note.sha256, note.size):
                raise _damaged(self._path(note), f"its digest is {digest[:16]}…, not {note.sha256[:16]}…", note.topic)
        yield folder

    def _copied(self, source: Path, target: Path, topic: str) -> tuple[str, int]:
        hashed, size = hashlib.sha256(), 0
        try:
            with source.open("rb") as read, target.open("wb") as write:
                while chunk := read.read(_CHUNK):
                    hashed.update(chunk)
                    size += len(chunk)
                    write.write(chunk)
        except FileNotFoundError:
            raise _damaged(source, "it is not there", topic) from None
        return hashed.hexdigest(), size

    @contextmanager
    def writing(self, topic: JournalTopic) -> Iterator[Path]:
        """A folder beside the bases of a topic for the scratch files of new ones, while nobody else writes any. It is removed at the end.

        Errors: `Timeout` where another process writes one.
        """
        home = self.folder / topic.name
        with explaining(home):
            make_dirs(self._files, home)
        mutex = ProcessMutex(home / "lock", files=self._files, clock=self._clock, timeout=_PATIENCE)
        try:
            with mutex.held():
                for left in home.glob("tmp-*"):  # by a process that died
                    shutil.rmtree(left, ignore_errors=True)
                folder = home / f"tmp-{self._ids()}"
                try:
                    with explaining(folder):
                        self._files.mkdir(folder)
                    yield folder
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
        finally:
            with mutex.closing():
                pass

    def adopt(
        self,
        topic: JournalTopic,
        partition: int,
        scratch: Path,
        *,
        pointer: int,
        journals: int,
        events: int,
        snapshots: BaseSnapshots | None = None,
    ) -> BaseNote:
        """Let a scratch folder's file, which is closed and verified, be the base of a partition. The caller is in `writing`."""
        path, home = scratch / topic.name / f"{partition}.db", self.folder / topic.name
        with explaining(path):
            digest, size = _digest(path)
            name = f"{partition}-{pointer}-{self._ids()}.db"
            # 2. its bytes, then its name
            fd = self._files.open(path, os.O_RDONLY)
            try:
                self._files.sync(fd)
            finally:
                self._files.close(fd)
            self._files.rename(path, home / name)
            self._files.sync_dir(home)
            note = BaseNote(
                topic=topic.name, partition=partition, generation=topic.generation, pointer=pointer, file=name, size=size, sha256=digest,
                journals=journals, events=events, created=self._clock.now_ms(), snapshots=snapshots,
            )  # fmt: skip
            # 3. from here on it counts
            replace(self._files, self._note_path(topic.name, partition), msgspec.json.encode(note) + b"\n")
        self._sweep(home, partition, name)
        return note

    def _sweep(self, home: Path, partition: int, name: str) -> None:
        """4. Remove what no note names: older bases, and what a death has left."""
        for path in home.glob(f"{partition}-*.db"):
            if path.name != name:
                with suppress(OSError):  # it only takes up space, and the next one tries again
                    self._files.unlink(path)

    def _path(self, note: BaseNote) -> Path:
        return self.folder / note.topic / note.file

    def _note_path(self, topic: str, partition: int) -> Path:
        return self.folder / topic / f"{partition}.json"


def _digest(path: Path) -> tuple[str, int]:
    hashed, size = hashlib.sha256(), 0
    with path.open("rb") as read:
        while chunk := read.read(_CHUNK):
            hashed.update(chunk)
            size += len(chunk)
    return hashed.hexdigest(), size


def _damaged(path: Path, says: str, topic: str) -> Damaged:
    return Damaged(
        f"The base {path} is damaged: {says}.",
        hint=f"Restore it from a backup, or write it anew while the log still has everything: `headwater journal base {topic}`.",
    )

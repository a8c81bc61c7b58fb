"""Where base copies are kept: files, and a note for each partition that names the one which counts."""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path

import msgspec

from headwater.core.errors import Damaged
from headwater.core.files import Files, explaining, replace


class DocumentBaseNote(msgspec.Struct, frozen=True, kw_only=True):
    """A base copy. `applied`: every record below it counts. `file`: its name, with its size and digest. `created`: milliseconds."""

    partition: int
    generation: str
    applied: int
    file: str
    size: int
    sha256: str
    created: int


class BaseFiles(ABC):
    """Blocking. Errors: those of the disk or the store, and `Damaged` for what cannot be read."""

    @abstractmethod
    def where(self, file: str) -> str:
        """What people call a file."""

    @abstractmethod
    def note(self, partition: int, generation: str) -> DocumentBaseNote | None:
        """The note of a partition of the topic of this generation; None: there is none."""

    @abstractmethod
    def fetch(self, note: DocumentBaseNote, target: Path) -> bool:
        """Copy the file of a note to a path; False: it is not there."""

    @abstractmethod
    def keep(self, file: Path, note: DocumentBaseNote) -> None:
        """Keep a file, durably, and only then let its note count in the place of the one before; then remove what no note names."""


class FolderBaseFiles(BaseFiles):
    """Files in a folder of this machine, `<partition>.json` the notes. One process at a time keeps any."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._folder, self._files = folder, files

    def where(self, file: str) -> str:
        return str(self._folder / file)

    def note(self, partition: int, generation: str) -> DocumentBaseNote | None:
        path = self._folder / _note_file(partition)
        with explaining(path, reading=True):
            if not path.exists():
                return None
            note = read_note(path.read_bytes(), partition, str(path))
        return note if note.generation == generation else None

    def fetch(self, note: DocumentBaseNote, target: Path) -> bool:
        source = self._folder / note.file
        with explaining(source, reading=True):
            if not source.exists():
                return False
            shutil.copyfile(source, target)
        return True

    def keep(self, file: Path, note: DocumentBaseNote) -> None:
        with explaining(file):
            # 2. its bytes, then its name
            fd = self._files.open(file, os.O_RDONLY)
            try:
                self._files.sync(fd)
            finally:
                self._files.close(fd)
            self._files.rename(file, self._folder / note.file)
            self._files.sync_dir(self._folder)
            # 3. from here on it counts
            replace(self._files, self._folder / _note_file(note.partition), msgspec.json.encode(note) + b"\n")
        # 4. what no note names only takes up space, and the next one tries again
        for path in self._folder.glob(f"{note.partition}-*.db"):
            if path.name != note.file:
                with suppress(OSError):
                    self._files.unlink(path)


def read_note(text: bytes, partition: int, where: str) -> DocumentBaseNote:
    """Errors: `Damaged` for a rotten note, and one of another partition."""
    try:
        note = msgspec.json.decode(text, type=DocumentBaseNote)
    except msgspec.MsgspecError as error:
        raise damaged_base(where, str(error)) from error
    if note.partition != partition or "/" in note.file:
        raise damaged_base(where, f"it is of partition {note.partition}")
    return note


def damaged_base(where: str, says: str) -> Damaged:
    return Damaged(f"The base copy {where} is damaged: {says}.", hint="Restore it from a backup, or keep the store as it is.")


def _note_file(partition: int) -> str:
    return f"{partition}.json"

"""The notes of a single file: how much of it is ours, written before and after each part is appended."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from headwater.core.errors import Damaged
from headwater.core.files import Files, replace, write_all

_MANY = 64 << 10  # bytes of notes, above which the last one replaces all


class FileNote(msgspec.Struct, frozen=True, array_like=True):
    """The file `inode` holds the offsets [start, end) in its first `length` bytes, after what was there before.

    Bytes from `length` to `planned` are a part that was being appended when the note was written. `inode` is 0 where there was no file.
    `first`: the length when the sink was given the file, or an operator moved the sink last.
    """

    start: int
    end: int
    length: int
    planned: int
    inode: int = 0
    first: int = 0


class FileNotes:
    """The notes, a line each; the last whole line holds. A note is durable before `write` returns."""

    def __init__(self, files: Files, path: Path) -> None:
        self._files, self._path = files, path

    def last(self) -> FileNote | None:
        """The last note; None where there is none. Errors: `Damaged`."""
        return self._read()[0]

    def as_long(self, length: int) -> FileNote | None:
        """The note of the most messages that the file held when it was so long; None where the notes do not go back so far."""
        notes: list[FileNote] = []
        for line in self._bytes().splitlines():
            with suppress(msgspec.DecodeError):
                notes.append(msgspec.json.decode(line, type=FileNote))
        return max((note for note in notes if note.length == length), key=lambda note: note.end, default=None)

    def write(self, note: FileNote) -> None:
        """Add a note behind the last whole one."""
        line = msgspec.json.encode(note) + b"\n"
        last, length = self._read()
        if last is None or length > _MANY:
            replace(self._files, self._path, line)
            return
        fd = self._files.open(self._path, os.O_WRONLY)
        try:
            self._files.truncate(fd, length)  # the torn line of a dead process
            write_all(self._files, fd, [line], length)
            self._files.datasync(fd)
        finally:
            self._files.close(fd)

    def clear(self) -> None:
        """Delete the notes. Errors: `Damaged`."""
        if self._path.exists():
            self._refuse_folder()
            self._files.unlink(self._path)
            self._files.sync_dir(self._path.parent)

    def _read(self) -> tuple[FileNote | None, int]:
        """The last note, and the bytes of all whole lines."""
        data = self._bytes()
        complete = data[: data.rfind(b"\n") + 1]
        lines = complete.splitlines()
        # A power cut can leave a line whose bytes never reached the disk: the one before it holds.
        for line in reversed(lines[-2:]):
            try:
                return msgspec.json.decode(line, type=FileNote), complete.rfind(line) + len(line) + 1
            except msgspec.DecodeError:
                continue
        if not lines:
            return None, 0
        raise Damaged(f"The notes {self._path} cannot be understood.", hint="Put them back from a copy, or move them and the file away.")

    def _bytes(self) -> bytes:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""
        except IsADirectoryError:
            self._refuse_folder()
            raise

    def _refuse_folder(self) -> None:
        """Errors: `Damaged`: a sink would wait for ever for a file that can be read."""
        if self._path.is_dir():
            raise Damaged(f"{self._path} is a folder, and was a file of notes.", hint="Put the file back, or move the folder away.")

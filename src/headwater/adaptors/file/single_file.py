"""One file that parts are appended to. Bytes of a dead run are cut off; a file that others have changed is left alone."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace as replaced

from headwater.adaptors.file.adaptor import File
from headwater.adaptors.file.file_notes import FileNote, FileNotes
from headwater.adaptors.file.formats import compression_of, open_decompressed
from headwater.adaptors.file.line_writer import compressed
from headwater.adaptors.file.target import Target, gone
from headwater.core.errors import Differs, Unavailable
from headwater.core.files import Files, write_all
from headwater.pipeline.sink_adaptor import Part

_ANOTHER = "is another file than the one that this sink has written: it was renamed or replaced"


def columns(adaptor: File) -> list[str]:
    """The header of the CSV file that parts are appended to; empty where there is none yet."""
    try:
        with open_decompressed(adaptor.path, compression_of(adaptor.path, adaptor.compression)) as opened:
            first = opened.readline()
    except FileNotFoundError:
        return []
    return next(csv.reader([first.decode("utf-8-sig", "replace")]), []) if first else []


class SingleFile(Target):
    """One file, appended to in the order of offsets.

    A note says how long the file is and which inode it has, and before each append how long it will be. So the bytes of a dead run are told
    from those of others: the former are cut off, and a file that others have changed stays as it is.
    """

    def __init__(self, adaptor: File, pipeline: str, sink: str, files: Files | None = None) -> None:
        real = adaptor.path.resolve()  # two links to one file are one target, which has one owner
        super().__init__(adaptor, pipeline, sink, work=real.parent / f".{real.name}.headwater", files=files)
        self._notes, self._pipeline, self._sink = FileNotes(self._files, self.work / "notes.jsonl"), pipeline.partition("#")[0], sink

    def occupied(self) -> bool:
        return self._adaptor.path.exists()

    def clear(self) -> None:
        self._adaptor.path.resolve().unlink()  # of a link, the file: without the link, the next run would look for its notes elsewhere
        self._notes.clear()

    def leave(self, former: str) -> None:
        self._notes.clear()

    def ranges(self) -> list[tuple[int, int]]:
        noted = self._notes.last()
        if noted is None:
            return []
        self._checked(noted)
        return [(noted.start, noted.end)] if noted.start < noted.end else []

    def recovered(self) -> list[tuple[int, int]]:
        if self._notes.last() is None:
            self._notes.write(self._as_it_is(0, 0))
        ranges, noted = self.ranges(), self._noted()
        if noted.planned > noted.length:
            self._cut(noted)
        return ranges

    def _cut(self, noted: FileNote) -> None:
        """Cut off what a dead run has left of a part."""
        with self._opened(noted) as fd:
            self._files.truncate(fd, noted.length)
            self._files.sync(fd)
        self._notes.write(replaced(noted, planned=noted.length))

    def put(self, part: Part, receipt: dict[str, Any]) -> None:
        path, end = self._adaptor.path, int(receipt["end"])
        with self.locked(part.epoch):
            noted = self._noted()
            if not part.again and noted.start <= part.start and noted.end >= end:
                self._sweep(receipt)
                return
            self._checked(noted)
            head = receipt.get("head", 0) if noted.length else 0
            if head and (have := columns(self._adaptor)) != receipt["names"]:
                # Parts that were written in parallel, before the file had a header. The retry reads the header, and finds the message.
                raise Unavailable(
                    f"{path} has the columns {', '.join(have)}, not {', '.join(receipt['names'])}.", hint="The part is delivered again."
                )
            for temporary in receipt["files"]:
                if not Path(temporary).exists():
                    raise gone(Path(temporary))
            if receipt["files"]:
                noted = self._appended(noted, receipt["files"], head)
            self._notes.write(noted if part.again else replaced(noted, start=noted.start if noted.end else part.start, end=end))
            self._sweep(receipt)

    def _appended(self, noted: FileNote, files: list[str], head: int) -> FileNote:
        """Append the temporary files. Returns the note of the file as it is then."""
        with self._opened(noted) as fd:
            if not noted.inode:  # a new file: its name and its inode are durable before its first byte
                self._files.sync_dir(self._adaptor.path.parent)
                noted = replaced(noted, inode=os.fstat(fd).st_ino)
            self._files.truncate(fd, noted.length)  # what an attempt has left that failed
            between = [compressed(b"\n", self._compression)] if noted.length == noted.first and self._lacks_line_end(noted) else []
            planned = noted.length + sum(map(len, between)) + sum(os.path.getsize(path) - head for path in files)
            self._notes.write(replaced(noted, planned=planned))
            length = noted.length + (write_all(self._files, fd, between, noted.length) if between else 0)
            for temporary in files:
                with open(temporary, "rb") as source:
                    source.seek(head)
                    while piece := source.read(1 << 20):
                        length += write_all(self._files, fd, [piece], length)
            self._files.sync(fd)
        return replaced(noted, length=length, planned=length)

    def _sweep(self, receipt: dict[str, Any]) -> None:
        for temporary in receipt["files"]:
            if Path(temporary).exists():
                self._files.unlink(Path(temporary))

    @contextmanager
    def _opened(self, noted: FileNote) -> Iterator[int]:
        """The file. Errors: `Differs` where it is another one by now."""
        fd = self._files.open(self._adaptor.path, os.O_RDWR if noted.inode else os.O_RDWR | os.O_CREAT)
        try:
            if noted.inode not in (0, os.fstat(fd).st_ino):
                raise self._differs(_ANOTHER)
            yield fd
        finally:
            self._files.close(fd)

    def forget(self, position: int, epoch: int) -> None:
        """Offsets above `position` are appended again, to the file as it is now: a file cannot remove them."""
        with self.locked(epoch):
            noted = self._notes.last()
            if noted is not None and noted.planned > noted.length and not self._whose(noted):
                self._cut(noted)  # the bytes of a part that was being appended do not stay
            start = position + 1 if noted is None else min(noted.start, position + 1)
            self._notes.write(self._as_it_is(start, position + 1))
            self._keep(position, epoch)

    def _lacks_line_end(self, noted: FileNote) -> bool:
        """Whether the earlier content lacks a final line end: the first document would join its last line."""
        last = b"\n"
        with open_decompressed(self._adaptor.path, self._compression) as opened:
            if self._compression == "none":
                opened.seek(max(0, noted.length - 1))
            while data := opened.read(1 << 20):
                last = data
        return not last.endswith(b"\n")

    # -- what is noted, and what is there ---------------------------------------------------------------------

    def _noted(self) -> FileNote:
        """The last note. Errors: `Differs` where there is none."""
        noted = self._notes.last()
        if noted is None:
            raise self._differs("has no notes of this sink any more")
        return noted

    def _as_it_is(self, start: int, end: int) -> FileNote:
        """A note of the file as it is now."""
        try:
            status = self._adaptor.path.stat()
        except FileNotFoundError:
            return FileNote(start, end, 0, 0)
        return FileNote(start, end, status.st_size, status.st_size, status.st_ino, status.st_size)

    def _checked(self, noted: FileNote) -> None:
        """Errors: `Differs` where the file is not as this sink has left it."""
        if reason := self._whose(noted):
            raise self._differs(reason)

    def _whose(self, noted: FileNote) -> str:
        """What others have done to the file; empty where it is as this sink has left it."""
        try:
            status = self._adaptor.path.stat()
        except FileNotFoundError:
            return "is gone" if noted.inode else ""
        if noted.inode and status.st_ino != noted.inode:
            return _ANOTHER
        if status.st_size < noted.length:
            return f"is {status.st_size} bytes long, and this sink has left it {noted.length} bytes long: it was emptied or cut"
        if status.st_size > noted.planned:
            return f"is {status.st_size} bytes long, and this sink has left it {noted.planned} bytes long: somebody has added to it"
        return ""

    def _differs(self, reason: str) -> Differs:
        noted, path = self._notes.last(), self._adaptor.path
        last = noted.end - 1 if noted is not None else -1
        mark = f"    headwater pipeline offset {self._pipeline} mark {self._sink}"
        size = path.stat().st_size if path.exists() else 0
        older = self._notes.as_long(size) if size else None
        hint = (
            "Put it back as it was. Or take it as it is, and go on behind the last message that this sink has taken, where what it lacks "
            f"is kept elsewhere:\n{mark} {last} --why ...\n"
        )
        if older is not None and 0 < (end := older.end) <= last:
            hint += f"It is as long as it was behind message {end - 1}. An older copy goes on there:\n{mark} {end - 1} --why ...\n"
        hint += f"Or deliver all messages again{'. Move it away first, or it will hold them twice' if size else ''}:\n{mark} -1 --why ..."
        return Differs(f"{path} {reason}. Nothing was written.", hint=hint)

"""One file that parts are appended to. Bytes of a dead run behind the stored length are cut off."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from headwater.adaptors.file.adaptor import File
from headwater.adaptors.file.formats import compression_of, open_decompressed
from headwater.adaptors.file.line_writer import compressed
from headwater.adaptors.file.target import Target, gone
from headwater.core.errors import Unavailable
from headwater.core.files import Files, replace, write_all
from headwater.pipeline.adaptor import Part


class Noted(msgspec.Struct, frozen=True, array_like=True):
    """The stored progress: the first `length` bytes of the file hold the offsets [start, end), and perhaps earlier ones."""

    start: int
    end: int
    length: int


def columns(adaptor: File) -> list[str]:
    """The header of the CSV file that parts are appended to; empty where there is none yet."""
    try:
        with open_decompressed(adaptor.path, compression_of(adaptor.path, adaptor.compression)) as opened:
            first = opened.readline()
    except FileNotFoundError:
        return []
    return next(csv.reader([first.decode("utf-8-sig", "replace")]), []) if first else []


class SingleFile(Target):
    """One file, appended to in the order of offsets."""

    def __init__(self, adaptor: File, pipeline: str, sink: str, files: Files | None = None) -> None:
        super().__init__(adaptor, pipeline, sink, work=adaptor.path.parent / f".{adaptor.path.name}.headwater", files=files)

    def occupied(self) -> bool:
        return self._adaptor.path.exists()

    def clear(self) -> None:
        self._adaptor.path.unlink()

    def recovered(self, new: bool) -> list[tuple[int, int]]:
        path = self._adaptor.path
        if new:
            return []
        noted = self._noted()
        if path.exists() and path.stat().st_size > noted.length:
            with self._opened() as fd:
                self._files.truncate(fd, noted.length)
                self._files.sync(fd)
        return [(noted.start, noted.end)] if noted.start < noted.end else []

    def put(self, part: Part, receipt: dict[str, Any]) -> None:
        path = self._adaptor.path
        with self.held(part.epoch):
            noted = self._noted()
            if not part.again and noted.start <= part.start and noted.end >= receipt["end"]:
                self._sweep(receipt)
                return
            length = noted.length
            head = receipt.get("head", 0) if length else 0
            if head and (have := columns(self._adaptor)) != receipt["names"]:
                # Parts that were written in parallel, before the file had a header. The retry reads the header, and finds the message.
                raise Unavailable(
                    f"{path} has the columns {', '.join(have)}, not {', '.join(receipt['names'])}.", hint="The part is delivered again."
                )
            for temporary in receipt["files"]:
                if not Path(temporary).exists():
                    raise gone(Path(temporary))
            with self._opened() as fd:
                self._files.truncate(fd, length)
                if receipt["files"] and length == self._first_length() and self._lacks_line_end():
                    length += write_all(self._files, fd, [compressed(b"\n", self._compression)], length)
                for temporary in receipt["files"]:
                    with open(temporary, "rb") as source:
                        source.seek(head)
                        while piece := source.read(1 << 20):
                            length += write_all(self._files, fd, [piece], length)
                self._files.sync(fd)
            if not noted.length:
                self._files.sync_dir(path.parent)
            begin = noted.start if noted.end == part.start else part.start  # earlier offsets may not be acknowledged yet
            self._note(Noted(noted.start, noted.end, length) if part.again else Noted(begin, int(receipt["end"]), length))
            self._sweep(receipt)

    def _sweep(self, receipt: dict[str, Any]) -> None:
        for temporary in receipt["files"]:
            if Path(temporary).exists():
                self._files.unlink(Path(temporary))

    @contextmanager
    def _opened(self) -> Iterator[int]:
        fd = self._files.open(self._adaptor.path, os.O_RDWR | os.O_CREAT)
        try:
            yield fd
        finally:
            self._files.close(fd)

    def forget(self, position: int, epoch: int) -> None:
        """Offsets above `position` are appended again: a file cannot remove them."""
        with self.held(epoch):
            self._note(Noted(position + 1, position + 1, self._noted().length))

    def _first_length(self) -> int:
        """The length of the file before the first part: earlier content stays. Stored once, before anything is appended."""
        note = self.work / "length"
        if not note.exists():
            size = self._adaptor.path.stat().st_size if self._adaptor.path.exists() else 0
            replace(self._files, note, str(size).encode())
        return int(note.read_text())

    def _lacks_line_end(self) -> bool:
        """Whether the earlier content lacks a final line end: the first document would join its last line."""
        last = b"\n"
        with open_decompressed(self._adaptor.path, self._compression) as opened:
            if self._compression == "none":
                opened.seek(max(0, self._first_length() - 1))
            while data := opened.read(1 << 20):
                last = data
        return not last.endswith(b"\n")

    def _noted(self) -> Noted:
        """The stored progress; that of an empty range where nothing is stored."""
        try:
            return msgspec.json.decode((self.work / "notes.jsonl").read_bytes(), type=Noted)
        except FileNotFoundError:
            return Noted(0, 0, self._first_length())

    def _note(self, one: Noted) -> None:
        replace(self._files, self.work / "notes.jsonl", msgspec.json.encode(one) + b"\n")

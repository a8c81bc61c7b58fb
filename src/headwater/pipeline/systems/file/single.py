"""One file that parts are appended to: what a dead run left behind the noted length is cut off."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from headwater.core.errors import Conflict
from headwater.core.files import Files, replace, write_all
from headwater.pipeline.adaptor import Part
from headwater.pipeline.systems.file.formats import compression_of, open_plain
from headwater.pipeline.systems.file.target import Target, gone

if TYPE_CHECKING:
    from headwater.pipeline.systems.file.adaptor import File


class Noted(msgspec.Struct, frozen=True, array_like=True):
    """Of a single file: its first `length` bytes hold the offsets [start, end), and perhaps earlier ones."""

    start: int
    end: int
    length: int


def columns(adaptor: File) -> list[str]:
    """The header of a CSV file that parts are appended to; empty where there is none yet."""
    try:
        with open_plain(adaptor.path, compression_of(adaptor.path, adaptor.compression)) as opened:
            first = opened.readline()
    except FileNotFoundError:
        return []
    return next(csv.reader([first.decode("utf-8-sig", "replace")]), []) if first else []


class Single(Target):
    """One file, appended to in the order of offsets."""

    def __init__(self, adaptor: File, pipeline: str, sink: str, files: Files | None = None) -> None:
        super().__init__(adaptor, pipeline, sink, files)
        self.work = adaptor.path.parent / f".{adaptor.path.name}.headwater"

    def occupied(self) -> bool:
        return self._adaptor.path.exists()

    def clear(self) -> None:
        self._adaptor.path.unlink()

    def recovered(self, new: bool) -> list[tuple[int, int]]:
        path = self._adaptor.path
        noted = self._notes()
        if new:
            return []
        length = noted[-1].length if noted else self._first_length()
        if path.exists() and path.stat().st_size > length:
            with self._opened() as fd:
                self._files.truncate(fd, length)
                self._files.sync(fd)
        return [(one.start, one.end) for one in noted]

    def publish(self, part: Part, receipt: dict[str, Any]) -> None:
        path = self._adaptor.path
        with self.held(part.epoch):
            noted = self._notes()
            if not part.again and noted and noted[-1].start <= part.start and noted[-1].end >= receipt["end"]:
                self._sweep(receipt)
                return
            length = noted[-1].length if noted else self._first_length()
            head = receipt.get("head", 0) if length else 0
            if head and (have := columns(self._adaptor)) != receipt["names"]:
                # Parts that were written side by side, before the file had a header: the next try sees it, and finds the message.
                raise Conflict(f"{path} has the columns {', '.join(have)}, not {', '.join(receipt['names'])}.", hint="Run again.")
            for temporary in receipt["files"]:
                if not Path(temporary).exists():
                    raise gone(Path(temporary))
            with self._opened() as fd:
                self._files.truncate(fd, length)
                for temporary in receipt["files"]:
                    with open(temporary, "rb") as source:
                        source.seek(head)
                        while piece := source.read(1 << 20):
                            length += write_all(self._files, fd, [piece], length)
                self._files.sync(fd)
            if not noted:
                self._files.sync_dir(path.parent)
            kept = noted[-1] if noted else Noted(part.start, part.start, length)
            begin = kept.start if kept.end == part.start else part.start  # what came before may not be acknowledged yet
            self._note(Noted(kept.start, kept.end, length) if part.again else Noted(begin, int(receipt["end"]), length))
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
        """Offsets above `position` come again behind what is there: a file cannot take them back."""
        with self.held(epoch):
            noted = self._notes()
            length = noted[-1].length if noted else self._first_length()
            self._note(Noted(position + 1, position + 1, length))

    def _first_length(self) -> int:
        """How long the file was before the first part: appending leaves what was there. Noted once, before anything is appended."""
        note = self.work / "length"
        if not note.exists():
            size = self._adaptor.path.stat().st_size if self._adaptor.path.exists() else 0
            replace(self._files, note, str(size).encode())
        return int(note.read_text())

    def _notes(self) -> list[Noted]:
        """The notes; one that a death left half written does not count."""
        try:
            lines = (self.work / "notes.jsonl").read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        return [msgspec.json.decode(line, type=Noted) for line in lines[-1:]]

    def _note(self, one: Noted) -> None:
        replace(self._files, self.work / "notes.jsonl", msgspec.json.encode(one) + b"\n")

"""A folder of parts. A part is renamed to the offsets that it holds when it is complete."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from headwater.adaptors.file.adaptor import File
from headwater.adaptors.file.formats import ending
from headwater.adaptors.file.line_writer import TABLE
from headwater.adaptors.file.locations import is_work
from headwater.adaptors.file.parquet_summary import write_summary
from headwater.adaptors.file.store import FolderStore
from headwater.adaptors.file.target import Target, gone
from headwater.adaptors.parts.offset_parts import OffsetParts
from headwater.core.errors import Conflict
from headwater.core.files import Files
from headwater.pipeline.sink_adaptor import Part

WORK = ".headwater"


class PartFolder(Target):
    """A folder of parts, each named by its offsets [start, end)."""

    def __init__(self, adaptor: File, pipeline: str, sink: str, files: Files | None = None) -> None:
        super().__init__(adaptor, pipeline, sink, work=adaptor.path / WORK, files=files)
        self._store = FolderStore(adaptor.path, self._files)
        self._parts = OffsetParts(self._store, f"{WORK}/", ending(adaptor.written_format, self._compression))

    def occupied(self) -> bool:
        folder = self._adaptor.path  # the work folder alone is left by a `begin` that died
        return folder.is_dir() and any(path != self.work for path in folder.iterdir())

    def clear(self) -> None:
        """Errors: `Conflict` where a folder below is another sink's."""
        for note in self._adaptor.path.rglob("owner.json"):
            if is_work(note.relative_to(self._adaptor.path)) and note.parent != self.work:
                raise Conflict(
                    f"{self._adaptor.path} cannot be emptied: another sink keeps its notes in {note.parent}.",
                    hint='Give the sink a folder of its own, or leave existing="overwrite" out.',
                )
        for path in self._adaptor.path.iterdir():
            if path.is_dir() and not path.is_symlink():
                if path != self.work:
                    shutil.rmtree(path)
            else:
                path.unlink()

    def leave(self, former: str) -> None:
        self._parts.leave(former)

    def ranges(self) -> list[tuple[int, int]]:
        return self._parts.held()

    def recovered(self) -> list[tuple[int, int]]:
        return self._parts.recovered()

    def part_around(self, position: int) -> tuple[int, int] | None:
        return self._parts.around(position)

    def forget(self, position: int, epoch: int) -> None:
        with self.locked(epoch):
            self._parts.forget(position)
            self._keep(position, epoch)

    def put(self, part: Part, receipt: dict[str, Any]) -> None:
        end = int(receipt["end"])
        with self.locked(part.epoch):
            if self._adaptor.written_format == "parquet" and part.columns is not None and TABLE in part.columns:
                write_summary(self._store, part.columns[TABLE])
            for number, temporary in reversed(list(enumerate(map(Path, receipt["files"])))):
                published = self._adaptor.path / self._parts.name(part, end, number)
                if not temporary.exists():
                    if not published.exists():
                        raise gone(temporary)
                    continue  # a retry: the first attempt renamed it
                if number == 0 and len(receipt["files"]) > 1:
                    self._store.sync()  # the first file marks the part as complete: the others must be durable before
                self._files.rename(temporary, published)
            self._store.sync()
            if not receipt["files"]:
                self._parts.note_empty(part, end)

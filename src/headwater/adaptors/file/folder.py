"""A folder of parts. A part is renamed to the offsets that it holds when it is complete."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from headwater.adaptors.file.adaptor import File
from headwater.adaptors.file.formats import ending
from headwater.adaptors.file.store import FolderStore
from headwater.adaptors.file.target import Target, gone
from headwater.adaptors.parts.offset_parts import OffsetParts
from headwater.core.files import Files
from headwater.pipeline.adaptor import Part

WORK = ".headwater"


class PartFolder(Target):
    """A folder of parts, each named by its offsets [start, end)."""

    def __init__(self, adaptor: File, pipeline: str, sink: str, files: Files | None = None) -> None:
        super().__init__(adaptor, pipeline, sink, work=adaptor.path / WORK, files=files)
        self._store = FolderStore(adaptor.path, self._files)
        self._parts = OffsetParts(self._store, f"{WORK}/", ending(adaptor.written_format, self._compression))

    def occupied(self) -> bool:
        folder = self._adaptor.path  # the work folder alone is left by a `begin` that died
        return folder.is_dir() and any(one != self.work for one in folder.iterdir())

    def clear(self) -> None:
        shutil.rmtree(self._adaptor.path)

    def leave(self, former: str) -> None:
        self._parts.leave(former)
        super().leave(former)

    def recovered(self, new: bool) -> list[tuple[int, int]]:
        return self._parts.recovered()

    def forget(self, position: int, epoch: int) -> None:
        with self.held(epoch):
            self._parts.forget(position)

    def put(self, part: Part, receipt: dict[str, Any]) -> None:
        end = int(receipt["end"])
        with self.held(part.epoch):
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
            if not receipt["files"] and part.buckets > 1:
                self._parts.note_empty(part, end)

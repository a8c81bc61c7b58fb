"""A folder of parts, each renamed to the offsets that it holds once it is whole."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from headwater.adaptors.file.target import Target, gone
from headwater.adaptors.file.writers import ending
from headwater.core.files import Files, replace
from headwater.pipeline.adaptor import Part

if TYPE_CHECKING:
    from headwater.adaptors.file.adaptor import File


_PART = re.compile(r"part-(\d{20})-(\d{20})(?:-(\d+)of(\d+))?(\.\d+)?\.")  # the last group: a further file of the same part


class PartFolder(Target):
    """A folder of parts, each named by its offsets [start, end)."""

    def __init__(self, adaptor: File, pipeline: str, sink: str, files: Files | None = None) -> None:
        super().__init__(adaptor, pipeline, sink, files)
        self.work = adaptor.path / ".headwater"

    def occupied(self) -> bool:
        folder = self._adaptor.path  # what a begin that died has left there of its own is nobody else's
        return folder.is_dir() and any(one != self.work for one in folder.iterdir())

    def clear(self) -> None:
        shutil.rmtree(self._adaptor.path)

    def leave(self) -> None:
        """Parts keep their content under names that no part of the new log will have."""
        former = self._owner().pipeline.partition("#")[2]
        for one in self._adaptor.path.glob("part-*"):
            self._files.rename(one, one.with_name(f"earlier-{former}-{one.name}"))
        super().leave()

    def recovered(self, new: bool) -> list[tuple[int, int]]:
        """Ranges whose parts are all there: of a range that was split by id, every share.

        What a dead run left in part goes: shares without the others, and further files of a part whose first one, which is renamed last,
        is not there.
        """
        shares: dict[tuple[int, int, int], dict[int, Path]] = {}
        forgotten = self._forgotten()
        further: list[Path] = []
        for one in [*self._adaptor.path.glob("part-*"), *self.work.glob("part-*")]:
            match = _PART.match(one.name)
            if match is None:
                continue
            if match[5]:
                further.append(one)
            elif one.name not in forgotten:
                start, end, share, of = int(match[1]), int(match[2]), int(match[3] or 0), int(match[4] or 1)
                shares.setdefault((start, end, of), {})[share] = one
        halves = [one for (_, _, of), have in shares.items() if len(have) < of for one in have.values()]
        for one in halves:  # the range comes again, and may be shared out in another way
            self._files.unlink(one)
        for one in further:
            if not one.with_name(re.sub(r"\.\d+\.", ".", one.name)).exists():
                self._files.unlink(one)
        return [(start, end) for (start, end, of), have in shares.items() if len(have) == of]

    def forget(self, position: int, epoch: int) -> None:
        """Parts that begin behind the position are put aside, and come again. One that begins before it stays: its end comes twice."""
        with self.held(epoch):
            aside = self.work / "replaced"
            aside.mkdir(exist_ok=True)
            forgotten = set(self._forgotten())
            for one in sorted(self._adaptor.path.glob("part-*")):
                match = _PART.match(one.name)
                if match and int(match[1]) > position:
                    self._files.rename(one, aside / one.name)
                    forgotten.discard(one.name)  # the one that comes in its place counts
                elif match and int(match[2]) > position + 1:
                    forgotten.add(one.name)
            for one in self.work.glob("part-*.empty"):
                match = _PART.match(one.name)
                if match and int(match[2]) > position + 1:  # nothing is in it that could come twice
                    self._files.unlink(one)
            replace(self._files, self.work / "forgotten.json", msgspec.json.encode(sorted(forgotten)))
            self._files.sync_dir(self._adaptor.path)

    def _forgotten(self) -> list[str]:
        try:
            return msgspec.json.decode((self.work / "forgotten.json").read_bytes(), type=list[str])
        except FileNotFoundError:
            return []

    def put(self, part: Part, receipt: dict[str, Any]) -> None:
        folder, share = self._adaptor.path, f"-{part.bucket}of{part.buckets}" if part.buckets > 1 else ""
        name = f"{'replay' if part.again else 'part'}-{part.start:020d}-{int(receipt['end']):020d}{share}"
        if part.again:
            name += f"-{part.attempt}"
        with self.held(part.epoch):
            for number, temporary in reversed(list(enumerate(map(Path, receipt["files"])))):
                published = folder / f"{name}{f'.{number}' if number else ''}{ending(self._adaptor)}"
                if not temporary.exists():
                    if not published.exists():
                        raise gone(temporary)
                    continue  # this is a second try, and the first one came so far
                if number == 0 and len(receipt["files"]) > 1:
                    self._files.sync_dir(folder)  # the first file says that the part is there: the others must be before it
                self._files.rename(temporary, published)
            self._files.sync_dir(folder)
            if not receipt["files"] and part.buckets > 1:  # a share without messages: an empty file in the folder would be no table
                replace(self._files, self.work / f"{name}.empty", b"")

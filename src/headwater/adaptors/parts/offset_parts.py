"""The parts of a sink, each named by the offsets [start, end) that it holds: `part-START-END`, and which of them count.

A range that was split by id has a part for each bucket, `-0of2`, and counts when all are there. Further files of a part have `.1`, `.2` and
so on; the first one, without a number, is published last: it marks the part as complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

import msgspec

from headwater.adaptors.parts.store import PartStore
from headwater.pipeline.adaptor import Part


class OffsetParts:
    """The parts of one sink."""

    noun: ClassVar[str] = "part"

    def __init__(self, store: PartStore, work: str, ending: str) -> None:
        """`work`: the folder of the sink's own files, with a slash at its end. `ending`: the suffix of the names of parts."""
        self._store, self._work, self._ending = store, work, ending
        self._pattern = re.compile(self.noun + r"-(\d{20})-(\d{20})(?:-(\d+)of(\d+))?(?:\.(\d+))?(?=\.|$)")

    def name(self, part: Part, end: int, number: int = 0) -> str:
        """The name of a part, or of a further file of it."""
        return f"{self._stem(part, end)}{f'.{number}' if number else ''}{self._ending}"

    def note_empty(self, part: Part, end: int) -> None:
        """Mark a bucket without messages as complete, so that the other buckets count. An empty Parquet file is not possible."""
        self._store.write(f"{self._work}{self._stem(part, end)}.empty", b"")

    def _stem(self, part: Part, end: int) -> str:
        share = f"-{part.bucket}of{part.buckets}" if part.buckets > 1 else ""
        stem = f"{'replay' if part.again else self.noun}-{part.start:020d}-{end:020d}{share}"
        return f"{stem}-{part.attempt}" if part.again else stem

    def recovered(self) -> list[tuple[int, int]]:
        """The complete ranges. Deletes incomplete parts of a dead run: their range comes again, perhaps cut differently."""
        shares: dict[tuple[int, int, int], dict[int, str]] = {}
        further: dict[str, str] = {}  # by name of a further file, the first file
        forgotten, halves, there = self._forgotten(), set[str](), set[str]()
        for folder in ("", self._work):
            for name, match in self._found(folder):
                there.add(folder + name)
                if match[5]:
                    further[folder + name] = folder + name[: match.start(5) - 1] + name[match.end(5) :]
                elif not self._whole(name):
                    halves.add(folder + name)
                elif name not in forgotten:
                    shares.setdefault((int(match[1]), int(match[2]), int(match[4] or 1)), {})[int(match[3] or 0)] = folder + name
        halves.update(name for (_, _, of), have in shares.items() if len(have) < of for name in have.values())
        for name in sorted(halves | {name for name, first in further.items() if first not in there - halves}):
            self._store.delete(name)
        return [(start, end) for (start, end, of), have in shares.items() if len(have) == of]

    def forget(self, position: int) -> None:
        """Put the parts behind the position aside: they come again. A part that begins before it stays: the rest of it comes twice."""
        forgotten = set(self._forgotten())
        for name, match in list(self._found("")):
            if int(match[1]) > position:
                self._put_aside(name)
                forgotten.discard(name)  # its replacement counts
            elif int(match[2]) > position + 1:
                forgotten.add(name)
        for name, match in list(self._found(self._work)):
            if int(match[2]) > position + 1:  # an empty part: nothing of it can come twice
                self._store.delete(self._work + name)
        self._note_forgotten(forgotten)
        self._store.sync()

    def leave(self, former: str) -> None:
        """Rename the parts of a former log to names that no part of the new log can have."""
        for name, _ in list(self._found("")):
            self._store.rename(name, f"earlier-{former}-{name}")
        for name, _ in list(self._found(self._work)):
            self._store.delete(self._work + name)
        self._note_forgotten(set())

    # -- what a kind of store does in its own way -------------------------------------------------------------

    def _whole(self, name: str) -> bool:
        """Whether a part of this name is complete; always so where parts get their names by a rename."""
        return True

    def _put_aside(self, name: str) -> None:
        self._store.rename(name, f"{self._work}replaced/{name}")

    def _note_forgotten(self, names: set[str]) -> None:
        self._store.write(f"{self._work}forgotten.json", msgspec.json.encode(sorted(names)))

    def _forgotten(self) -> list[str]:
        """The parts that stay and do not count."""
        found = self._store.read(f"{self._work}forgotten.json")
        return [] if found is None else msgspec.json.decode(found, type=list[str])

    def _found(self, folder: str) -> Iterator[tuple[str, re.Match[str]]]:
        for path in self._store.list(f"{folder}{self.noun}-"):
            if match := self._pattern.match(path.removeprefix(folder)):
                yield path.removeprefix(folder), match

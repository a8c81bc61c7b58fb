"""The parts of a sink, each named by the offsets [start, end) that it holds: `part-START-END`, and which of them count.

A range that was split by id has a part for each bucket, `-0of2`, and counts when all are there. Further files of a part have `.1`, `.2` and
so on; the first one, without a number, is published last: it marks the part as complete. A part without messages is a note, so that a part
that somebody has deleted can be told from one that never was. What an operator has sent again lies in `replay-START-END`: it does not count
as held, and goes with the parts when a sink is moved back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, TypeVar

import msgspec

from headwater.adaptors.parts.store import PartStore
from headwater.core.errors import Damaged
from headwater.pipeline.offsets.ranges import Span, joined
from headwater.pipeline.sink_adaptor import Part

Found = TypeVar("Found", list[Span], list[str])
_REPLAY = re.compile(r"replay-(\d{20})-(\d{20})-")
_EMPTY = ".empty"
_MANY = 1000  # notes of parts without messages, above which they are gathered in one file


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
        """Note that a part, or a bucket of one, has no messages. An empty Parquet file is not possible."""
        if not part.again:
            self._store.write(f"{self._work}{self._stem(part, end)}{_EMPTY}", b"")
            if sum(name.endswith(_EMPTY) for name, _ in self._found(self._work)) > _MANY:
                self._gather_empty()

    def _stem(self, part: Part, end: int) -> str:
        share = f"-{part.bucket}of{part.buckets}" if part.buckets > 1 else ""
        stem = f"{'replay' if part.again else self.noun}-{part.start:020d}-{end:020d}{share}"
        return f"{stem}-{part.attempt}" if part.again else stem

    def held(self) -> list[Span]:
        """The complete ranges. Changes nothing."""
        return self._look()[0]

    def recovered(self) -> list[Span]:
        """The complete ranges. Deletes incomplete parts of a dead run: their range comes again, perhaps cut differently."""
        ranges, leftovers = self._look()
        for name in leftovers:
            self._store.delete(name)
        self._gather_empty()
        return ranges

    def _look(self) -> tuple[list[Span], list[str]]:
        """The complete ranges, and the names of incomplete parts."""
        shares: dict[tuple[int, int, int], dict[int, str]] = {}
        further: dict[str, str] = {}  # by name of a further file, the first file
        halves, names = set[str](), set[str]()
        for folder in ("", self._work):
            for name, match in self._found(folder):
                names.add(folder + name)
                if match[5]:
                    further[folder + name] = folder + name[: match.start(5) - 1] + name[match.end(5) :]
                elif not self._whole(name):
                    halves.add(folder + name)
                else:
                    shares.setdefault((int(match[1]), int(match[2]), int(match[4] or 1)), {})[int(match[3] or 0)] = folder + name
        halves.update(name for (_, _, of), have in shares.items() if len(have) < of for name in have.values())
        leftovers = sorted(halves | {name for name, first in further.items() if first not in names - halves})
        return [*self._empty(), *((start, end) for (start, end, of), have in shares.items() if len(have) == of)], leftovers

    def around(self, position: int) -> tuple[int, int] | None:
        """The offsets [start, end) of the parts that begin at or before the position and end behind it; None without one."""
        spans = [(int(match[1]), int(match[2])) for folder in ("", self._work) for _, match in self._found(folder)]
        spans += [(int(match[1]), int(match[2])) for _, match in self._replays()]
        cut = [(start, end) for start, end in spans if start <= position < end - 1]
        if not cut:
            return None
        start, end = min(start for start, _ in cut), max(end for _, end in cut)
        lower = self.around(start - 1)  # parts of an earlier cut may reach into it
        return (start, end) if lower is None else (lower[0], max(end, lower[1]))

    def forget(self, position: int) -> None:
        """Put the parts behind the position aside: they come again. The position lies in the middle of none (`around`)."""
        for name, match in [*self._found(""), *self._replays()]:
            if int(match[2]) > position + 1:
                self._put_aside(name)
        for name, match in list(self._found(self._work)):
            if int(match[2]) > position + 1:
                self._store.delete(self._work + name)
        if gathered := self._empty():
            self._note_gathered([(start, min(end, position + 1)) for start, end in gathered])
        self._store.sync()

    def leave(self, former: str) -> None:
        """Rename the parts of a former log to names that no part of the new log can have. `former`: its generation, in Kafka's letters."""
        former = former.replace("/", "_")  # no folder
        names, times, called = self._store.list("earlier-"), 1, former
        while any(name.startswith(f"earlier-{called}-") for name in names):  # parts of the same name, which would be written over
            times += 1
            called = f"{former}.{times}"
        for name, _ in [*self._found(""), *self._replays()]:
            self._store.rename(name, f"earlier-{called}-{name}")
        for name, _ in list(self._found(self._work)):
            self._store.delete(self._work + name)
        if self._empty():
            self._note_gathered([])

    # -- parts without messages -------------------------------------------------------------------------------

    def _gather_empty(self) -> None:
        """Write the ranges of the notes of whole parts without messages into one file: a run that goes on for weeks makes many."""
        notes = [(name, match) for name, match in self._found(self._work) if name.endswith(_EMPTY) and not match[4]]
        if not notes:
            return
        self._note_gathered([*self._empty(), *((int(match[1]), int(match[2])) for _, match in notes)])
        for name, _ in notes:
            self._store.delete(self._work + name)

    def _empty(self) -> list[Span]:
        return self._read("empty.json", list[Span])

    def _note_gathered(self, spans: list[Span]) -> None:
        self._store.write(f"{self._work}empty.json", msgspec.json.encode(joined(spans)))

    # -- what a kind of store does in its own way -------------------------------------------------------------

    def _whole(self, name: str) -> bool:
        """Whether a part of this name is complete; always so where parts get their names by a rename."""
        return True

    def _put_aside(self, name: str) -> None:
        self._store.rename(name, f"{self._work}replaced/{name}")

    def _read(self, name: str, kind: type[Found]) -> Found:
        """A list of the sink's own; empty where it was never written. Errors: `Damaged`."""
        data = self._store.read(f"{self._work}{name}")
        try:
            return kind() if data is None else msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError as error:
            raise Damaged(
                f"{self._work}{name} of {self._store.where} cannot be understood: {error}.",
                hint="Put it back from a copy; or delete it, and run the pipeline: it says what is missing.",
            ) from error

    def _replays(self) -> Iterator[tuple[str, re.Match[str]]]:
        for name in self._store.list("replay-"):
            if match := _REPLAY.match(name):
                yield name, match

    def _found(self, folder: str) -> Iterator[tuple[str, re.Match[str]]]:
        for path in self._store.list(f"{folder}{self.noun}-"):
            if match := self._pattern.match(path.removeprefix(folder)):
                yield path.removeprefix(folder), match

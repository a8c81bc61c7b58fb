"""Writing files so that each message is there once, whatever dies.

Tasks write to temporary names only. The run makes them count: a folder's part by renaming it to the offsets that it holds, a single file by
appending the part and then noting the offset and the length, so that what a dead run left behind the noted length is cut off.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from headwater.core.errors import AlreadyExists, Conflict, Fenced
from headwater.core.files import FileLock, Files, explained, replace, write_all
from headwater.pipeline import values
from headwater.pipeline.adaptor import Part, SinkWriter
from headwater.pipeline.systems.file.formats import compression_of, open_plain
from headwater.pipeline.systems.file.writers import LineWriter, TableWriter, TextWriter, ending

if TYPE_CHECKING:
    from headwater.pipeline.systems.file.adaptor import File

_PART = re.compile(r"part-(\d{20})-(\d{20})(?:-(\d+)of(\d+))?(\.\d+)?\.")  # the last group: a further file of the same part


class Owner(msgspec.Struct, frozen=True):
    """Whose target this is, and the newest run that has written to it."""

    pipeline: str
    sink: str
    epoch: int = 0


class Noted(msgspec.Struct, frozen=True, array_like=True):
    """Of a single file: its first `length` bytes hold the offsets [start, end), and perhaps earlier ones."""

    start: int
    end: int
    length: int


def writer(adaptor: File, part: Part) -> SinkWriter:
    """A writer to a temporary name next to the target."""
    where = target(adaptor, part.pipeline, part.sink)
    kind, compression = adaptor.written_format, compression_of(adaptor.path, adaptor.compression)
    where.work.mkdir(parents=True, exist_ok=True)
    temporary = where.work / f"tmp-{part.start}-{part.end}-{part.bucket}of{part.buckets}.{part.attempt}"
    if kind == "parquet":
        return TableWriter(temporary, compression="zstd" if compression == "zstd" else "snappy")
    if kind == "jsonl" and not adaptor.envelope:
        return TextWriter(temporary, csv=False, envelope=False, compression=compression)
    names = columns(adaptor) if kind == "csv" and not adaptor.envelope and isinstance(where, Single) else []
    return LineWriter(temporary, csv=kind == "csv", envelope=adaptor.envelope, compression=compression, names=names)


def columns(adaptor: File) -> list[str]:
    """The header of a CSV file that parts are appended to; empty where there is none yet."""
    try:
        with open_plain(adaptor.path, compression_of(adaptor.path, adaptor.compression)) as opened:
            first = opened.readline()
    except FileNotFoundError:
        return []
    return next(csv.reader([first.decode("utf-8-sig", "replace")]), []) if first else []


def target(adaptor: File, pipeline: str, sink: str) -> Target:
    if adaptor.standard:
        return Standard(adaptor, pipeline, sink)
    return Folder(adaptor, pipeline, sink) if adaptor.folder else Single(adaptor, pipeline, sink)


class Target(ABC):
    """A place that parts are published to, by one sink of one pipeline."""

    work: Path  # a hidden folder for temporaries, the owner's name and notes

    def __init__(self, adaptor: File, pipeline: str, sink: str, files: Files | None = None) -> None:
        self._adaptor, self._pipeline, self._sink = adaptor, pipeline, sink
        self._files = files or Files()

    def begin(self, epoch: int) -> list[tuple[int, int]]:
        """Take the target over; sweep temporaries of earlier runs. Returns the offsets that it holds."""
        new = not (self.work / "owner.json").exists()
        if not new and self._other_log():
            self.leave()
            new = True
        if new and self.occupied():
            if self._adaptor.existing == "fail":
                raise AlreadyExists(
                    f"{self._adaptor.path} is there already.", hint='Move it away, or say existing="append" or "overwrite".'
                )
            if self._adaptor.existing == "overwrite":
                self.clear()
        self.work.mkdir(parents=True, exist_ok=True)
        with self.held(None):
            self._own(epoch)
            for leftover in self.work.glob("tmp-*"):
                self._files.unlink(leftover)
            self._files.sync_dir(self.work)
            return self.recovered(new)

    def _other_log(self) -> bool:
        """Whether the same sink wrote here from another log, which was deleted since: its offsets mean other messages."""
        owner = self._owner()
        same = (owner.pipeline.partition("#")[0], owner.sink) == (self._pipeline.partition("#")[0], self._sink)
        return same and owner.pipeline != self._pipeline

    def leave(self) -> None:
        """Keep what is there as somebody else's, and forget what it meant."""
        shutil.rmtree(self.work)

    @abstractmethod
    def forget(self, position: int, epoch: int) -> None:
        """The operator's word: offsets above `position` may come again."""

    @contextmanager
    def held(self, epoch: int | None) -> Iterator[None]:
        """Under the target's lock, and while no newer run has taken it."""
        lock = FileLock(self._files, self.work / "lock")
        try:
            lock.exclusive()
            if epoch is not None and self._owner().epoch > epoch:
                raise Fenced(f"A newer run writes to {self._adaptor.path}.", hint="See `headwater pipeline status`.")
            yield
        except OSError as error:
            raise explained(error, self._adaptor.path) from error
        finally:
            lock.forget()

    def _owner(self) -> Owner:
        try:
            return msgspec.json.decode((self.work / "owner.json").read_bytes(), type=Owner)
        except FileNotFoundError:
            return Owner(self._pipeline, self._sink)

    def _own(self, epoch: int) -> None:
        owner = self._owner()
        if (owner.pipeline, owner.sink) != (self._pipeline, self._sink):
            raise Conflict(
                f"{self._adaptor.path} belongs to sink {owner.sink} of pipeline {owner.pipeline.partition('#')[0]}.",
                hint="Give every sink its own place.",
            )
        if owner.epoch > epoch:
            raise Fenced(f"A newer run writes to {self._adaptor.path}.", hint="See `headwater pipeline status`.")
        replace(self._files, self.work / "owner.json", msgspec.json.encode(Owner(self._pipeline, self._sink, epoch)) + b"\n")

    @abstractmethod
    def occupied(self) -> bool:
        """Whether something is there that this sink has not written."""

    @abstractmethod
    def clear(self) -> None:
        """Remove what is there, for `existing="overwrite"`."""

    @abstractmethod
    def recovered(self, new: bool) -> list[tuple[int, int]]:
        """Undo what a dead run left half done; the offsets that the target holds. `new`: this sink has never written here."""

    @abstractmethod
    def publish(self, part: Part, receipt: dict[str, Any]) -> None:
        """As `CanWrite.publish`."""


class Folder(Target):
    """A folder of parts, each named by its offsets [start, end)."""

    def __init__(self, adaptor: File, pipeline: str, sink: str, files: Files | None = None) -> None:
        super().__init__(adaptor, pipeline, sink, files)
        self.work = adaptor.path / ".headwater"

    def occupied(self) -> bool:
        return self._adaptor.path.is_dir() and any(self._adaptor.path.iterdir())

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
                elif match and int(match[2]) > position + 1:
                    forgotten.add(one.name)
            replace(self._files, self.work / "forgotten.json", msgspec.json.encode(sorted(forgotten)))
            self._files.sync_dir(self._adaptor.path)

    def _forgotten(self) -> list[str]:
        try:
            return msgspec.json.decode((self.work / "forgotten.json").read_bytes(), type=list[str])
        except FileNotFoundError:
            return []

    def publish(self, part: Part, receipt: dict[str, Any]) -> None:
        folder, share = self._adaptor.path, f"-{part.bucket}of{part.buckets}" if part.buckets > 1 else ""
        name = f"{'replay' if part.again else 'part'}-{part.start:020d}-{int(receipt['end']):020d}{share}"
        if part.again:
            name += f"-{part.attempt}"
        with self.held(part.epoch):
            for number, temporary in reversed(list(enumerate(map(Path, receipt["files"])))):
                if not temporary.exists():
                    continue  # this is a second try, and the first one came so far
                if number == 0 and len(receipt["files"]) > 1:
                    self._files.sync_dir(folder)  # the first file says that the part is there: the others must be before it
                self._files.rename(temporary, folder / f"{name}{f'.{number}' if number else ''}{ending(self._adaptor)}")
            self._files.sync_dir(folder)
            if not receipt["files"] and part.buckets > 1:  # a share without messages: an empty file in the folder would be no table
                replace(self._files, self.work / f"{name}.empty", b"")


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
                return
            length = noted[-1].length if noted else self._first_length()
            head = receipt.get("head", 0) if length else 0
            if head and (have := columns(self._adaptor)) != receipt["names"]:
                # Parts that were written side by side, before the file had a header: the next try sees it, and finds the message.
                raise Conflict(f"{path} has the columns {', '.join(have)}, not {', '.join(receipt['names'])}.", hint="Run again.")
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
            for temporary in receipt["files"]:
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


class Standard(Target):
    """Standard output: written by the run itself, at least once."""

    def __init__(self, adaptor: File, pipeline: str, sink: str) -> None:
        import tempfile

        super().__init__(adaptor, pipeline, sink)
        self.work = Path(tempfile.gettempdir()) / f"headwater-{os.getuid()}-{pipeline}-{sink}"

    def occupied(self) -> bool:
        return False

    def clear(self) -> None:
        """There is nothing to remove: what was printed stays printed."""

    def forget(self, position: int, epoch: int) -> None:
        """Nothing is held: what was printed may be printed again."""

    def begin(self, epoch: int) -> list[tuple[int, int]]:
        super().begin(epoch)
        (self.work / "headed").unlink(missing_ok=True)
        return []

    def recovered(self, new: bool) -> list[tuple[int, int]]:
        return []

    def publish(self, part: Part, receipt: dict[str, Any]) -> None:
        headed = self.work / "headed"
        for temporary in receipt["files"]:
            with open(temporary, "rb") as source:
                source.seek(receipt.get("head", 0) if headed.exists() else 0)
                shutil.copyfileobj(source, sys.stdout.buffer)
            Path(temporary).unlink()
            headed.touch()
        sys.stdout.buffer.flush()


def rows(adaptor: File) -> Iterator[dict[str, Any]]:
    """What the target holds, in the order of offsets."""
    from headwater.pipeline.systems.file.source import read_back

    paths = sorted(adaptor.path.glob("part-*")) if adaptor.folder else [adaptor.path]
    for path in paths:
        compression = compression_of(path, adaptor.compression)
        if adaptor.written_format == "parquet":
            import pyarrow.parquet as pq

            with pq.ParquetFile(path) as opened:
                for batch in opened.iter_batches():
                    yield from (values.extended(one) for one in batch.to_pylist())
        else:
            with open_plain(path, compression) as source:
                yield from read_back(adaptor, source)

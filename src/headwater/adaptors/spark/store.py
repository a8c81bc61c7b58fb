"""A store of parts on any file system of Hadoop. A part is a folder that Spark has written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from headwater.adaptors.parts.offset_parts import OffsetParts
from headwater.adaptors.parts.store import PartStore
from headwater.adaptors.spark.connection import current_session
from headwater.core.errors import Unreachable
from headwater.core.files import FileLock, Files, make_dirs
from headwater.pipeline.sink_adaptor import Part

WORK = "_headwater/"
_DONE = "_SUCCESS"  # Spark writes it when a folder is complete


class HadoopStore(PartStore):
    """A folder on any file system of Hadoop."""

    def __init__(self, path: str) -> None:
        self.where = path.rstrip("/")
        context = current_session().sparkContext
        self._jvm: Any = context._jvm
        self._files = self._at("").getFileSystem(context._jsc.hadoopConfiguration())
        local = str(self._files.getUri().getScheme()) == "file"  # its renames and files are durable only once they are synced
        self._folder = Path(str(self._at("").toUri().getPath())) if local else None

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.where}/{name}" if name else self.where)

    def list(self, prefix: str) -> list[str]:
        inside, slash, begin = prefix.rpartition("/")
        if not self.has(inside):
            return []
        names = sorted(str(status.getPath().getName()) for status in self._files.listStatus(self._at(inside)))
        return [f"{inside}{slash}{name}" for name in names if name.startswith(begin)]

    def read(self, name: str) -> bytes | None:
        """The content of a small JSON file. Where a run died while it wrote the file, the copy of `replace` is complete."""
        from py4j.protocol import Py4JError

        problem: Py4JError | None = None
        for candidate in (name, _beside(name)):
            try:
                if self.has(candidate):
                    data = self._text(candidate).encode()
                    msgspec.json.decode(data)
                    return data
            except msgspec.DecodeError:
                continue
            except Py4JError as error:  # a file system with checksums refuses a half-written file
                problem = error
        if problem is not None:
            raise problem
        return None

    def _text(self, name: str) -> str:
        file = self._files.open(self._at(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(file, "UTF-8"))
        finally:
            file.close()

    def write(self, name: str, data: bytes) -> None:
        file = self._files.create(self._at(name), True)
        try:
            file.write(bytearray(data))
            file.hsync()
        finally:
            file.close()

    def replace(self, name: str, data: bytes) -> None:
        """Write a copy first, so that one of both is always complete. Without an owner, the folder would count as another log's."""
        self.write(_beside(name), data)
        self.write(name, data)

    def has(self, name: str) -> bool:
        return bool(self._files.exists(self._at(name)))

    def delete(self, name: str) -> None:
        self._files.delete(self._at(name), True)

    def rename(self, name: str, new: str) -> None:
        """Errors: `Unreachable` where the file system refuses: Hadoop returns False, and raises nothing."""
        self.delete(new)
        if not self._files.rename(self._at(name), self._at(new)):
            raise Unreachable(f"{self.where}/{name} cannot be renamed to {new}.", hint="See whether Spark's user may write there.")

    def sync_part(self, name: str) -> None:
        """Make a folder that Spark has written durable, with its name, before its messages count as taken. Elsewhere it is at once."""
        if self._folder is not None:
            _sync_below(self._folder / name)
            self.sync()

    def sync(self) -> None:
        """Syncs a folder of this machine. Elsewhere there is nothing to do: Hadoop keeps names in a log of its own."""
        if self._folder is not None and self._folder.is_dir():
            Files().sync_dir(self._folder)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from changing a folder of this machine. Elsewhere nothing is locked: the owner's note alone decides."""
        if self._folder is None:
            yield
            return
        files = Files()
        try:
            make_dirs(files, self._folder / WORK)
            lock = FileLock(files, self._folder / WORK / "lock")
        except OSError as error:
            raise Unreachable(
                f"Spark could not use the folder {self.where}: {error.strerror}.", hint="See whether this process may write there."
            ) from error
        try:
            lock.exclusive()
            yield
        finally:
            lock.close()

    def try_to_write(self) -> None:
        new = next((name for name in ("", WORK) if not self.has(name)), None)  # the check creates it, and deletes it again
        self.write(f"{WORK}check", b"")
        self.delete(f"{WORK}check" if new is None else new)


def _sync_below(path: Path) -> None:
    """Sync the files of a folder that Spark has written: its tasks close them and do not."""
    files = Files()
    for entry in (path, *path.rglob("*")):
        if entry.is_dir():
            files.sync_dir(entry)
        elif entry.is_file():
            fd = files.open(entry, os.O_RDONLY)
            try:
                files.sync(fd)
            finally:
                files.close(fd)


def _beside(name: str) -> str:
    return name.removesuffix(".json") + ".new"


class SparkRanges(OffsetParts):
    """Folders `range-START-END`."""

    noun: ClassVar[str] = "range"

    def __init__(self, store: HadoopStore) -> None:
        super().__init__(store, WORK, "")
        self._folders = store

    def readable(self) -> list[str]:
        """The folders that hold rows."""
        names = [*self._store.list("range-"), *filter(self._whole, self._store.list("replay-"))]
        return [f"{self._store.where}/{name}" for name in names if self._store.list(f"{name}/") != [f"{name}/{_DONE}"]]

    def sync_part(self, name: str) -> None:
        """As `HadoopStore.sync_part`."""
        self._folders.sync_part(name)

    def note_empty(self, part: Part, end: int) -> None:
        if not part.again:
            self._store.write(f"{self.name(part, end)}/{_DONE}", b"")

    def _whole(self, name: str) -> bool:
        return self._folders.has(f"{name}/{_DONE}")

    def _put_aside(self, name: str) -> None:
        self._store.rename(name, f"_replaced-{name}")

"""A place that parts are published to: whose it is, and what every kind of it must do."""

from __future__ import annotations

import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headwater.adaptors.file.adaptor import File
from headwater.adaptors.file.formats import WrittenCompression, compression_of
from headwater.adaptors.file.store import FolderStore
from headwater.adaptors.parts.ownership import PartsOwnership
from headwater.core.errors import AlreadyExists, HeadwaterError, Unavailable
from headwater.core.files import FileLock, Files, explained
from headwater.pipeline.adaptor import Part

_TEMPORARY = re.compile(r"tmp-e(\d+)-")


def temporary(part: Part) -> str:
    """The name that a part is written under. It says of which run it is: while that is the newest, somebody may want to publish it."""
    return f"tmp-e{part.epoch}-{part.start}-{part.end}-{part.bucket}of{part.buckets}.{part.attempt}"


def _epoch(path: Path) -> int:
    match = _TEMPORARY.match(path.name)
    return int(match[1]) if match else -1


def gone(path: Path) -> Unavailable:
    """A part's temporary that is neither there nor published: it must not count as taken."""
    return Unavailable(f"{path} was removed before its messages were published.", hint="They are delivered again; leave the folder alone.")


class Target(ABC):
    """A place that parts are published to, by one sink of one pipeline."""

    def __init__(self, adaptor: File, pipeline: str, sink: str, *, work: Path, files: Files | None = None) -> None:
        """`work`: a hidden folder for temporaries, the owner's name and notes."""
        self.work, self._adaptor, self._files = work, adaptor, files or Files()
        self._ownership = PartsOwnership(FolderStore(work, self._files, where=str(adaptor.path)), "owner.json", pipeline, sink)

    @property
    def _compression(self) -> WrittenCompression:
        return compression_of(self._adaptor.path, self._adaptor.compression)

    def begin(self, epoch: int) -> list[tuple[int, int]] | None:
        """Take the target over; sweep temporaries of earlier runs. Returns the offsets that it holds, None where it cannot know."""
        new = not (self.work / "owner.json").exists()
        if (former := self._ownership.former_log()) is not None:
            self.leave(former)
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
            self._ownership.take(epoch)
            for leftover in self.work.glob("tmp-*"):
                if _epoch(leftover) < epoch:  # of this run's own, another hand (a step beside a step) may be about to publish it
                    self._files.unlink(leftover)
            self._files.sync_dir(self.work)
            return self.recovered(new)

    def leave(self, former: str) -> None:
        """Keep what is there as another log's, and forget what it meant."""
        shutil.rmtree(self.work)

    @abstractmethod
    def forget(self, position: int, epoch: int) -> None:
        """The operator's word: offsets above `position` may come again."""

    @contextmanager
    def held(self, epoch: int | None) -> Iterator[None]:
        """Under the target's lock, and while no newer run has taken it."""
        try:
            lock = FileLock(self._files, self.work / "lock")
        except OSError as error:
            raise explained(error, self._adaptor.path) from error
        try:
            lock.exclusive()
            if epoch is not None:
                self._ownership.check(epoch)
            yield
        except OSError as error:
            raise explained(error, self._adaptor.path) from error
        finally:
            lock.close()

    @abstractmethod
    def occupied(self) -> bool:
        """Whether something is there that this sink has not written."""

    @abstractmethod
    def clear(self) -> None:
        """Remove what is there, for `existing="overwrite"`."""

    @abstractmethod
    def recovered(self, new: bool) -> list[tuple[int, int]]:
        """Undo what a dead run left half done; the offsets that the target holds. `new`: this sink has never written here."""

    def publish(self, part: Part, receipt: dict[str, Any]) -> None:
        """As `CanWrite.publish`. Where it fails, the run writes all of it again: what was written goes at once, or a full disk, tried again
        and again, would only get fuller."""
        try:
            self.put(part, receipt)
        except HeadwaterError:
            for leftover in self.work.glob(f"tmp-e{part.epoch}-*"):
                with suppress(OSError):
                    self._files.unlink(leftover)
            raise

    @abstractmethod
    def put(self, part: Part, receipt: dict[str, Any]) -> None:
        """Make a part count. May be called again; a part that is there already is left as it is."""

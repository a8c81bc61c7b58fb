"""The target that parts are published to: its owner, and the interface of its kinds."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headwater.adaptors.file.adaptor import File
from headwater.adaptors.file.formats import WrittenCompression, compression_of
from headwater.adaptors.file.store import FolderStore
from headwater.adaptors.parts import probe_file
from headwater.adaptors.parts.ownership import PartsOwnership
from headwater.core.errors import AlreadyExists, HeadwaterError, Unavailable
from headwater.core.files import FileLock, Files, explained, make_dirs
from headwater.pipeline.claim import SinkClaim, checked_owner
from headwater.pipeline.sink_adaptor import Part

_TEMPORARY = re.compile(r"tmp-e(\d+)-")


def temporary(part: Part) -> str:
    """The temporary name of a part. It has the epoch of its run, which may publish it while it is the newest."""
    return f"tmp-e{part.epoch}-{part.start}-{part.end}-{part.bucket}of{part.buckets}.{part.attempt}"


def _epoch(path: Path) -> int:
    match = _TEMPORARY.match(path.name)
    return int(match[1]) if match else -1


def gone(path: Path) -> Unavailable:
    """The error of a temporary file that was removed before it was published: its messages must not count as taken."""
    return Unavailable(f"{path} was removed before its messages were published.", hint="They are delivered again; leave the folder alone.")


class Target(ABC):
    """A target of parts, owned by one sink of one pipeline."""

    def __init__(self, adaptor: File, pipeline: str, sink: str, *, work: Path, files: Files | None = None) -> None:
        """`work`: a hidden folder for temporary files, the owner and the progress."""
        self.work, self._adaptor, self._files = work, adaptor, files or Files()
        self._ownership = PartsOwnership(FolderStore(work, self._files, where=str(adaptor.path)), "owner.json", pipeline, sink)

    @property
    def _compression(self) -> WrittenCompression:
        return compression_of(self._adaptor.path, self._adaptor.compression)

    def owner(self) -> SinkClaim | None:
        """Who writes here. Changes nothing."""
        return self._ownership.found()

    def claim(self, mine: SinkClaim, former: SinkClaim | None) -> bool:
        """As `SinkAdaptor.claim`."""
        if self.owner() is None:
            self._refuse_existing()
        self._make_work()
        with self.locked(None):
            owner = self.owner()
            checked_owner(owner, mine, former, str(self._adaptor.path))
            if owner is None:
                self.leave("unknown")  # whoever deleted the note: the offsets may be another log's
            elif not owner.same_log(mine):
                self.leave(owner.generation)  # before the note: a crash between leaves the former owner, and the next run leaves the rest
            self._ownership.claim(mine, former)
        return True

    def held(self) -> list[tuple[int, int]] | None:
        """As `SinkAdaptor.held`."""
        if not self._ownership.mine():
            return []
        with self.locked(None):  # beside a run that appends
            return self.ranges()

    def begin(self, epoch: int) -> list[tuple[int, int]] | None:
        """Delete temporary files of earlier runs. Returns the offsets that it holds, None where they are not known.

        Errors: `Conflict` where another sink or log is the owner; `Fenced` for an older run.
        """
        owner = self.owner()
        self._ownership.refuse_other(owner)
        if owner is None or not owner.begun:  # this sink has never written here
            self._refuse_existing()
            if self._adaptor.existing == "overwrite" and self.occupied():
                self.clear()
        self._make_work()
        with self.locked(None):
            if owner is None:
                self.leave("unknown")  # whoever deleted the note: the offsets may be another log's
            self._ownership.take(epoch)
            for leftover in self.work.glob("tmp-*"):
                if _epoch(leftover) < epoch:  # of the same run, another process (a second step) may be about to publish it
                    self._files.unlink(leftover)
            self._files.sync_dir(self.work)
            return self.recovered()

    def _make_work(self) -> None:
        try:
            make_dirs(self._files, self.work)
        except OSError as error:
            raise explained(error, self._adaptor.path) from error

    def _refuse_existing(self) -> None:
        """Errors: `AlreadyExists` for `existing="fail"`."""
        if self._adaptor.existing == "fail" and self.occupied():
            raise AlreadyExists(f"{self._adaptor.path} is there already.", hint='Move it away, or say existing="append" or "overwrite".')

    def seen(self) -> bool:
        """Whether this process sees the owner that `begin` noted: of this sink, whatever its run."""
        return self._ownership.mine()

    def probe(self, part: Part) -> str:
        """As `SinkAdaptor.probe`: the next run deletes the file where this one has died before it could."""
        return probe_file.leave(self._files, self.work / f"{temporary(part)}.probe")

    def probed(self, name: str) -> bool:
        """As `SinkAdaptor.probed`."""
        return probe_file.taken(self._files, self.work / name)

    @abstractmethod
    def leave(self, former: str) -> None:
        """Keep the files of a former log, and delete its progress."""

    @abstractmethod
    def ranges(self) -> list[tuple[int, int]]:
        """The offsets that the target holds. Changes nothing. Errors: `Differs` where others have changed it."""

    def part_around(self, position: int) -> tuple[int, int] | None:
        """As `SinkAdaptor.part_around`."""
        return None

    @abstractmethod
    def forget(self, position: int, epoch: int) -> None:
        """Let offsets above `position` come again: an operator has moved the sink."""

    def _keep(self, position: int, epoch: int) -> None:
        """An operator says that the target has what lies before the position: `begin` must not delete it for `existing="overwrite"`."""
        if position >= 0:
            self._ownership.take(epoch)

    @contextmanager
    def locked(self, epoch: int | None) -> Iterator[None]:
        """Holds the target's lock. Errors: `Fenced` where a newer run is the owner."""
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
        """Whether there are files that this sink has not written."""

    @abstractmethod
    def clear(self) -> None:
        """Delete the existing files, for `existing="overwrite"`; what is in the work folder stays."""

    @abstractmethod
    def recovered(self) -> list[tuple[int, int]]:
        """Undo the unfinished work of a dead run; return the offsets that the target holds. Errors: as `ranges`."""

    def publish(self, part: Part, receipt: dict[str, Any]) -> None:
        """As `CanWrite.publish`. Where it fails, the run writes everything again: the temporary files are deleted, or retries would fill
        the disk."""
        try:
            self.put(part, receipt)
        except HeadwaterError:
            for leftover in self.work.glob(f"tmp-e{part.epoch}-*"):
                with suppress(OSError):
                    self._files.unlink(leftover)
            raise

    @abstractmethod
    def put(self, part: Part, receipt: dict[str, Any]) -> None:
        """Publish a part. May be called again: a published part stays as it is."""

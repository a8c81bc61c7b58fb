"""A place that parts are published to: whose it is, and what every kind of it must do."""

from __future__ import annotations

import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from headwater.core.errors import AlreadyExists, Conflict, Fenced, HeadwaterError, Unavailable
from headwater.core.files import FileLock, Files, explained, replace
from headwater.pipeline.adaptor import Part

if TYPE_CHECKING:
    from headwater.adaptors.file.adaptor import File


class Owner(msgspec.Struct, frozen=True):
    """Whose target this is, and the newest run that has written to it."""

    pipeline: str
    sink: str
    epoch: int = 0


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

    work: Path  # a hidden folder for temporaries, the owner's name and notes

    def __init__(self, adaptor: File, pipeline: str, sink: str, files: Files | None = None) -> None:
        self._adaptor, self._pipeline, self._sink = adaptor, pipeline, sink
        self._files = files or Files()

    def begin(self, epoch: int) -> list[tuple[int, int]] | None:
        """Take the target over; sweep temporaries of earlier runs. Returns the offsets that it holds, None where it cannot know."""
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
                if _epoch(leftover) < epoch:  # of this run's own, another hand (a step beside a step) may be about to publish it
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
        try:
            lock = FileLock(self._files, self.work / "lock")
        except OSError as error:
            raise explained(error, self._adaptor.path) from error
        try:
            lock.exclusive()
            if epoch is not None and self._owner().epoch > epoch:
                raise Fenced(f"A newer run writes to {self._adaptor.path}.", hint="See `headwater pipeline status`.")
            yield
        except OSError as error:
            raise explained(error, self._adaptor.path) from error
        finally:
            lock.close()

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

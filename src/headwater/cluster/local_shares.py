"""Shares on one machine: a file for each process in a folder, which it locks while it lives, and in which it counts on while it works.

A free lock means that the process is dead. A count that stands still for long means that it hangs, or was stopped.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection
from pathlib import Path

import msgspec

from headwater.cluster.shares import PartitionShares
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import HeadwaterError
from headwater.core.files import FileLock, Files, explaining, make_dirs
from headwater.core.ids import Ids, random_id

BEAT = 0.5  # seconds between two looks
LEASE = 10.0
"""Seconds after which a process that does not count on has no share."""
_SUFFIX = ".member"


class MemberNote(msgspec.Struct, frozen=True):
    """The content of a member's file."""

    beat: int
    holds: tuple[int, ...] = ()
    pid: int = 0


class _Seen(msgspec.Struct):
    """Another member: its note, and since when it has not changed."""

    note: MemberNote
    since: float


class LocalShares(PartitionShares):
    """One member. `partitions`: how many are shared. `start` looks again and again in a thread; tests call `look`."""

    def __init__(
        self,
        folder: Path,
        partitions: int,
        *,
        files: Files | None = None,
        clock: Clock | None = None,
        ids: Ids = random_id,
        lease: float = LEASE,
    ) -> None:
        self._folder, self._partitions = folder, partitions
        self._files, self._clock, self._lease = files or Files(), clock or SystemClock(), lease
        self.name = ids()
        self._guard = threading.Lock()
        self._beat, self._holds = 0, frozenset[int]()
        self._others: dict[str, _Seen] = {}
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        with explaining(folder):
            make_dirs(self._files, folder)
            self._lock = FileLock(self._files, self._path(self.name))
            self._lock.exclusive()
        self.look()

    def start(self) -> None:
        """Look in a thread of its own, so that a long call of a handler does not look like a hanging process."""
        self._thread = threading.Thread(target=self._run, name="shares", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._clock.wait(self._closing, BEAT):
            try:
                self.look()
            except HeadwaterError:  # a full disk: the others may take over, and their epochs keep that right
                continue

    def look(self) -> None:
        """Count on, and see who else lives. Errors: those of the files."""
        with self._guard:
            if self._closing.is_set():
                return
            self._beat += 1
            self._write()
            now, seen = self._clock.monotonic(), dict[str, _Seen]()
            with explaining(self._folder, reading=True):
                for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
                    name = path.name.removesuffix(_SUFFIX)
                    note = None if name == self.name else self._note(path)
                    if note is None:
                        continue
                    before = self._others.get(name)
                    seen[name] = before if before is not None and before.note == note else _Seen(note, now)
            self._others = seen

    def assigned(self) -> frozenset[int]:
        with self._guard:
            now = self._clock.monotonic()
            living = {name: seen.note for name, seen in self._others.items() if now - seen.since < self._lease}
            members = sorted([*living, self.name])
            mine = {number for number in range(self._partitions) if members[number % len(members)] == self.name}
            numbers = {number for note in living.values() for number in note.holds}
            return frozenset(number for number in mine if number in self._holds or number not in numbers)

    def hold(self, partitions: Collection[int]) -> None:
        with self._guard:
            if frozenset(partitions) != self._holds and not self._closing.is_set():
                self._holds = frozenset(partitions)
                self._write()

    def close(self) -> None:
        with self._guard:
            if self._closing.is_set():
                return
            self._closing.set()
            self._path(self.name).unlink(missing_ok=True)
            self._lock.close()
        if self._thread is not None:
            self._thread.join()

    # -- files ------------------------------------------------------------------------------------------------

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{_SUFFIX}"

    def _write(self) -> None:
        note = MemberNote(self._beat, tuple(sorted(self._holds)), os.getpid())
        with explaining(self._folder):
            # Always as long: a reader never sees the end of an older note.
            self._files.pwritev(self._lock.fd, [msgspec.json.encode(note).ljust(_length(self._partitions)) + b"\n"], 0)

    def _note(self, path: Path) -> MemberNote | None:
        """What a living member has written; None for a dead one, whose file goes."""
        try:
            lock = FileLock(self._files, path, create=False)
        except FileNotFoundError:
            return None
        try:
            if lock.try_exclusive():
                path.unlink(missing_ok=True)
                return None
            return msgspec.json.decode(path.read_bytes(), type=MemberNote)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError:  # it has just begun
            return MemberNote(0)
        finally:
            lock.close()


def _length(partitions: int) -> int:
    return 80 + 6 * partitions

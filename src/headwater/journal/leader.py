"""Which process replicates into a store: one at a time. The pointers keep two from doing harm; one is enough.

On one machine a lock file says so. Where several machines share a Kafka log and a Cassandra store, Kafka's consumer group does: the member
to which it assigns the one partition of the topic `control-replicator-<store>`.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Protocol

import msgspec

from headwater.cluster import OwnedPartition, Ownership
from headwater.core.errors import Fenced, NotOwner, Timeout
from headwater.core.files import FileLock, Files, explaining, make_dirs
from headwater.journal.control import PART
from headwater.log import Log


class Replicating(msgspec.Struct, frozen=True):
    """The process that replicates, as its lock file names it."""

    pid: int
    host: str


class ReplicatorLock(Protocol):
    """Held by the process that replicates."""

    def take(self) -> bool:
        """Whether this process holds it now. Waits for nobody."""
        ...

    @property
    def lost(self) -> bool:
        """Whether another process has it."""
        ...

    def release(self) -> None:
        """Let another process have it. Releasing twice is no error."""
        ...


class LocalReplicatorLock:
    """A lock file. The system releases it when its process dies."""

    def __init__(self, path: Path, *, files: Files | None = None) -> None:
        self.path, self._files = path, files or Files()
        self._lock: FileLock | None = None

    def take(self) -> bool:
        if self._lock is not None:
            return True
        with explaining(self.path.parent):
            make_dirs(self._files, self.path.parent)
            lock = FileLock(self._files, self.path)
            if not lock.try_exclusive():
                lock.close()
                return False
            name = msgspec.json.encode(Replicating(os.getpid(), socket.gethostname())) + b"\n"
            self._files.truncate(lock.fd, 0)
            self._files.pwritev(lock.fd, [name], 0)
        self._lock = lock
        return True

    @property
    def lost(self) -> bool:
        return self._lock is None or self._lock.fd < 0

    def release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def holder(self) -> Replicating | None:
        """The process that replicates; None where none does."""
        try:
            lock = FileLock(self._files, self.path, create=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            if lock.try_exclusive():
                return None
            try:
                return msgspec.json.decode(self.path.read_bytes(), type=Replicating)
            except msgspec.MsgspecError:  # it has just taken the lock
                return Replicating(0, socket.gethostname())
        finally:
            lock.close()


class GroupReplicatorLock:
    """Ownership of the only partition of a topic of its own, by the consumer group."""

    def __init__(self, log: Log, ownership: Ownership, name: str) -> None:
        self._log, self._ownership, self._topic = log, ownership, f"control-replicator-{name}"
        self._owned: OwnedPartition | None = None

    def take(self) -> bool:
        if self._owned is None:
            self._log.create_topic(self._topic, partitions=1, part=PART)
            try:
                self._owned = self._ownership.own(self._topic, 0, part=PART)
            except (NotOwner, Fenced, Timeout):
                return False
        return True

    @property
    def lost(self) -> bool:
        return self._owned is None or self._owned.lost

    def release(self) -> None:
        owned, self._owned = self._owned, None
        if owned is not None:
            owned.release()

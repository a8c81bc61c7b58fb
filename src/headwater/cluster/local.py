"""Ownership on one machine: `<data>/owners/<topic>/<partition>.json` names the owner, and a lock that the owner holds shows that it lives.

A process id would not do: the system uses the number again after a kill, and it means nothing in another container.
Every owner locks a file of its own (`<partition>.<turn>.lock`), because nobody can take the lock of a living process.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from headwater.cluster import OwnedPartition, Ownership, PartitionOwner, lost_to_another, not_owner
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Closed, HeadwaterError
from headwater.core.files import FileLock, Files, explaining, make_dirs, replace
from headwater.core.mutex import ProcessMutex
from headwater.log import Log, Writer

_PATIENCE = 10.0  # seconds to wait for another process, which holds the mutex for milliseconds


class OwnerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `<partition>.json`."""

    turn: int
    host: str
    pid: int
    address: str
    epoch: int


class LocalOwned(OwnedPartition):
    """Owned by the lock that it holds."""

    def __init__(self, ownership: LocalOwnership, writer: Writer, turn: int, *, lock: FileLock, part: str) -> None:
        self.topic, self.partition, self.writer = writer.topic, writer.partition, writer
        self.turn, self.lock, self.part, self._ownership = turn, lock, part, ownership

    @property
    def lost(self) -> bool:
        return not self._ownership.is_owner(self)  # released, or in a forked child; or taken over

    def renew(self) -> Writer:
        return self._ownership.renew(self)

    def release(self) -> None:
        self._ownership.release(self)

    def release_deleted(self) -> None:
        self._ownership.forget(self)


class LocalOwnership(Ownership):
    """The owners of a directory's partitions. `address`: where this process serves, for the others' `NotOwner`."""

    def __init__(
        self,
        log: Log,
        folder: Path,
        *,
        address: str = "",
        files: Files | None = None,
        clock: Clock | None = None,
        timeout: float = _PATIENCE,
    ) -> None:
        self._log, self._folder, self._address = log, folder, address
        self._files, self._clock, self._timeout = files or Files(), clock or SystemClock(), timeout
        self._owned: dict[tuple[str, int], LocalOwned] = {}
        self._guard = threading.RLock()  # of the dictionary
        self._closed = False

    def own(self, topic: str, partition: int, *, take_over: bool = False, part: str = "") -> LocalOwned:
        self._check(topic, partition)
        with explaining(self._folder):
            make_dirs(self._files, self._folder / topic)
        with self._alone(topic, partition), explaining(self._folder):
            record = self._record(topic, partition)
            mine = self._owned.get((topic, partition))
            if mine is not None and self.is_owner(mine):
                return mine
            if not take_over and self._lives(topic, partition, record):
                raise not_owner(topic, partition, _owner(record))

            def taken() -> LocalOwned:
                with explaining(self._folder):
                    return self._taken(topic, partition, record, part)

            owned = self._log.with_reserve(taken)  # on a full disk, too: only an owner can free something of what a part has written
        with self._guard:
            self._owned[topic, partition] = owned
            if not self._closed:
                return owned
        owned.release()
        raise _closed()

    def _taken(self, topic: str, partition: int, record: OwnerRecord | None, part: str) -> LocalOwned:
        turn = 1 + max((record.turn if record else 0), *self._turns(topic, partition), 0)
        lock = FileLock(self._files, self._lock_path(topic, partition, turn))  # 1. a lock that nobody else knows of yet
        try:
            lock.exclusive()
            # 2. Fence the other owner before the record says that it owns nothing. A death in between leaves its name, and the next claim.
            writer = self._log.claim(topic, partition, part=part)
            new = OwnerRecord(turn=turn, host=socket.gethostname(), pid=os.getpid(), address=self._address, epoch=writer.epoch)
            replace(self._files, self._record_path(topic, partition), msgspec.json.encode(new) + b"\n")  # 3. from here on this is the owner
        except BaseException:
            lock.close()
            raise
        for old in self._turns(topic, partition):
            if old != turn:
                # a living owner keeps its descriptor, but nobody checks this lock any more
                self._files.unlink(self._lock_path(topic, partition, old))
        return LocalOwned(self, writer, turn, lock=lock, part=part)

    def owner(self, topic: str, partition: int) -> PartitionOwner | None:
        self._check(topic, partition)
        if not self._turns(topic, partition):
            return None
        with self._alone(topic, partition), explaining(self._folder, reading=True):
            record = self._record(topic, partition)
            return _owner(record) if self._lives(topic, partition, record) else None

    def is_owner(self, owned: LocalOwned) -> bool:
        """Whether the record names this claim, and its lock is still the one there.

        The turn alone would not do: of a topic that is deleted and created again, turns begin anew.
        """
        record = self._record(owned.topic, owned.partition)
        named = record is not None and record.turn == owned.turn
        return named and owned.lock.is_at(self._lock_path(owned.topic, owned.partition, owned.turn))

    def renew(self, owned: LocalOwned) -> Writer:
        """`LocalOwned.renew`. Under the mutex: a process that has taken over meanwhile must not be fenced."""
        with self._alone(owned.topic, owned.partition), explaining(self._folder):
            if not self.is_owner(owned):
                raise lost_to_another(owned.topic, owned.partition)
            owned.writer = self._log.claim(owned.topic, owned.partition, part=owned.part)
            return owned.writer

    def release(self, owned: LocalOwned) -> None:
        """`LocalOwned.release`."""
        with self._guard:
            if owned.lock.fd >= 0:
                owned.lock.close()  # a free lock means that nobody owns the partition
            if self._owned.get((owned.topic, owned.partition)) is owned:
                del self._owned[owned.topic, owned.partition]

    def forget(self, owned: LocalOwned) -> None:
        """`LocalOwned.release_deleted`. What cannot be removed stays, and is in nobody's way."""
        folder = self._folder / owned.topic
        try:
            with suppress(HeadwaterError), self._alone(owned.topic, owned.partition), explaining(self._folder):
                if self.is_owner(owned):  # else another process owns a new topic of this name
                    for path in folder.glob(f"{owned.partition}.*"):
                        self._files.unlink(path)
                    with suppress(OSError):  # files of other partitions are left
                        self._files.rmdir(folder)
        finally:
            self.release(owned)

    def close(self) -> None:
        with self._guard:
            self._closed = True
            for owned in list(self._owned.values()):
                self.release(owned)

    # -- files ------------------------------------------------------------------------------------------------

    def _check(self, topic: str, partition: int) -> None:
        if self._closed:
            raise _closed()
        self._log.bounds(topic, partition)  # a name that is no topic's makes no folder

    @contextmanager
    def _alone(self, topic: str, partition: int) -> Iterator[None]:
        """Entered for milliseconds while a process takes ownership or checks it, so that a check never collides with an owner that locks.

        Who waited for one that `forget` has unlinked waits for the next one, like those who come later. Errors then: `UnknownTopic`.
        """
        path = self._folder / topic / f"{partition}.mutex"
        while True:
            mutex = ProcessMutex(path, files=self._files, clock=self._clock, timeout=self._timeout)
            with mutex.held():
                if mutex.in_place:
                    yield
                    return
            self._check(topic, partition)
            with explaining(self._folder):
                make_dirs(self._files, path.parent)

    def _record_path(self, topic: str, partition: int) -> Path:
        return self._folder / topic / f"{partition}.json"

    def _lock_path(self, topic: str, partition: int, turn: int) -> Path:
        return self._folder / topic / f"{partition}.{turn}.lock"

    def _turns(self, topic: str, partition: int) -> list[int]:
        """Of the lock files that are there: also one whose process died before it was named."""
        locks = (self._folder / topic).glob(f"{partition}.*.lock")
        return [int(number) for path in locks if (number := path.name.split(".")[1]).isdecimal()]

    def _record(self, topic: str, partition: int) -> OwnerRecord | None:
        """None where nobody ever owned it, and where the file is unreadable: it only holds the owner's name."""
        path = self._record_path(topic, partition)
        with explaining(path, reading=True):
            try:
                return msgspec.json.decode(path.read_bytes(), type=OwnerRecord)
            except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError):
                return None

    def _lives(self, topic: str, partition: int, record: OwnerRecord | None) -> bool:
        """Whether the owner holds its lock. Without a record: whether anybody holds one."""
        turns = self._turns(topic, partition) if record is None else [record.turn]
        return any(self._held(self._lock_path(topic, partition, turn)) for turn in turns)

    def _held(self, path: Path) -> bool:
        try:
            lock = FileLock(self._files, path, create=False)
        except FileNotFoundError:
            return False
        try:
            return not lock.try_exclusive()
        finally:
            lock.close()


def _owner(record: OwnerRecord | None) -> PartitionOwner:
    if record is None:
        return PartitionOwner(host="this machine", pid=0)
    return PartitionOwner(host=record.host, pid=record.pid, address=record.address, epoch=record.epoch)


def _closed() -> Closed:
    return Closed("This ownership is closed.", hint="Open it again.")

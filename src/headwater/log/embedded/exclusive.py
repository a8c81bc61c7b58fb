"""The lock of a partition, among threads and among processes."""

from __future__ import annotations

import threading
from fcntl import LOCK_EX, LOCK_UN, flock

from headwater.core.errors import Closed
from headwater.core.files import FileLock


class Exclusive:
    """Held, nobody else in this process or another changes the partition."""

    def __init__(self, lock: FileLock, name: str) -> None:
        self.mutex, self._lock, self._name = threading.Lock(), lock, name

    def acquire(self) -> int:
        """Lock out other processes; the caller has the mutex, and unlocks the descriptor that this returns. Errors: `Closed`."""
        fd = self._lock.fd
        if fd < 0:
            raise self.closed()
        flock(fd, LOCK_EX)
        return fd

    def __enter__(self) -> None:
        self.mutex.acquire()
        try:
            self.acquire()
        except BaseException:
            self.mutex.release()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            flock(self._lock.fd, LOCK_UN)
        finally:
            self.mutex.release()

    def closed(self) -> Closed:
        return Closed(f"{self._name} has been closed.", hint="Open the log again.")

"""The lock of a partition, among threads and among processes."""

from __future__ import annotations

import threading
from fcntl import LOCK_EX, LOCK_UN, flock

from headwater.core.errors import Closed, Unavailable
from headwater.core.files import FileLock


class Exclusive:
    """Held, nobody else in this process or another changes the partition.

    Ctrl-C can come between any two steps of taking it and letting go of it: whoever catches such an exception calls `abandon`.
    """

    def __init__(self, lock: FileLock, name: str) -> None:
        # Of a plain lock nobody could tell whether an interrupted thread has it.
        self.mutex, self._lock, self._name = threading.RLock(), lock, name
        self._held = False

    def acquire(self) -> None:
        """Lock out other processes. The caller has the mutex and calls `release` before it lets go of it. Errors: `Closed`; see `check`."""
        fd = self._lock.fd
        if self._held or fd < 0:
            self.check()
            raise self.closed()
        flock(fd, LOCK_EX)
        self._held = True

    def release(self) -> None:
        """Let other processes in."""
        self._held = False
        flock(self._lock.fd, LOCK_UN)

    def __enter__(self) -> None:
        self.mutex.acquire()
        try:
            self.acquire()
        except BaseException:
            self.mutex.release()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self.release()
        finally:
            self.mutex.release()

    def check(self) -> None:
        """Under the mutex. Errors: `Unavailable` where this very thread holds the lock: a signal has come in the middle of a change."""
        if self._held:
            raise self.interrupted()

    def abandon(self) -> None:
        """Let go of whatever an exception has left with this thread. Not called after an error of ours: those let go by themselves."""
        with self.mutex:  # nobody else in this process is between its steps now
            self._held = False
            if self._lock.fd >= 0:
                flock(self._lock.fd, LOCK_UN)
        try:
            while True:
                self.mutex.release()
        except RuntimeError:
            return  # nothing is left

    def closed(self) -> Closed:
        return Closed(f"{self._name} has been closed.", hint="Open the log again.")

    def interrupted(self) -> Unavailable:
        return Unavailable(
            f"{self._name} is being changed by this very thread.", hint="Use the log outside of signal handlers, or in a thread of its own."
        )

"""The lock of a partition, among threads and among processes."""

from __future__ import annotations

import threading
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from pathlib import Path

from headwater.core.clock import Clock
from headwater.core.errors import Closed, Unavailable
from headwater.core.files import FileLock, Files
from headwater.core.mutex import ProcessMutex

_PATIENCE = 30.0  # seconds to wait for another process, which holds the lock for as long as a sync takes


class Exclusive:
    """While held, no other thread or process changes the partition.

    Ctrl-C can come between any two steps of acquiring and releasing it: a caller that catches such an exception calls `abandon`.
    """

    def __init__(self, lock: FileLock, name: str) -> None:
        # Reentrant, because a plain lock does not show whether an interrupted thread holds it.
        self.mutex, self._lock, self._name = threading.RLock(), lock, name
        self._held = False

    def acquire(self) -> None:
        """Lock out other processes. The caller holds the mutex and calls `release` before it releases the mutex. Errors: `Closed`; see
        `check`."""
        fd = self._lock.fd
        if self._held or fd < 0:
            self.check()
            raise self.closed()
        flock(fd, LOCK_EX)
        self._held = True

    def try_acquire(self) -> bool:
        """`acquire` that waits for nobody: False where another process has the lock, and where `acquire` would raise."""
        fd = self._lock.fd
        if self._held or fd < 0:
            return False
        try:
            flock(fd, LOCK_EX | LOCK_NB)
        except OSError:
            return False
        self._held = True
        return True

    def release(self) -> None:
        """Unlock for other processes."""
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
        """Release what an exception left locked by this thread. Not needed after headwater's own errors."""
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


def wait_for_holder(folder: Path, *, files: Files, clock: Clock) -> None:
    """Return when the process that holds a partition's lock lets go of it. Errors: `Timeout` where that one seems to stand still.

    A claim asks first: who takes over from a process that is stopped in the middle of an append would wait for ever without a word.
    """
    path = folder / "lock"
    if path.exists():
        mutex = ProcessMutex(path, files=files, clock=clock, timeout=_PATIENCE)
        with mutex.held():
            pass
        with mutex.closing():
            pass

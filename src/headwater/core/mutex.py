"""A lock among threads and processes that is fair and has a timeout."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.core.clock import Clock
from headwater.core.errors import Timeout
from headwater.core.files import FileLock, Files, explaining


class ProcessMutex:
    """A lock file. The system releases it when its holder dies, and queues the waiters: polling would let one of four starve.

    `timeout`: seconds after which waiting ends. A thread that holds it must not ask for it again.
    """

    def __init__(self, path: Path, *, files: Files, clock: Clock, timeout: float) -> None:
        self._path, self._files, self._clock, self._timeout = path, files, clock, timeout
        self._mutex = threading.Lock()
        self._lock: FileLock | None = None

    @contextmanager
    def held(self, timeout: float | None = None) -> Iterator[None]:
        """`timeout`: another one than the lock's own. Errors: `Timeout`, `ReadOnly`."""
        timeout = self._timeout if timeout is None else timeout
        if not self._mutex.acquire(timeout=timeout):
            raise self._late(timeout)
        try:
            lock = self._opened()
            if not lock.try_exclusive():
                self._wait(lock, timeout)
            try:
                yield
            finally:
                lock.release()
        finally:
            self._mutex.release()

    @property
    def in_place(self) -> bool:
        """Whether the file that is held is still at its path: those who come later lock another one where its holder has unlinked it."""
        return self._lock is not None and self._lock.is_at(self._path)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Wait for the holders in this process, and close the file. Does not wait for other processes."""
        with self._mutex:
            yield
            if self._lock is not None:
                self._lock.close()
                self._lock = None

    def _opened(self) -> FileLock:
        if self._lock is None or self._lock.fd < 0:  # never opened, or this is a forked child
            with explaining(self._path):
                self._lock = FileLock(self._files, self._path)
        return self._lock

    def _wait(self, lock: FileLock, timeout: float) -> None:
        """Wait in the system's queue. Such a wait cannot be cancelled, so a thread does it, and releases a lock that comes too late."""
        got, late, decide = threading.Event(), threading.Event(), threading.Lock()

        def queue() -> None:
            lock.exclusive()
            with decide:
                if late.is_set():
                    lock.close()  # this one descriptor is nobody's any more
                else:
                    got.set()

        threading.Thread(target=queue, name=f"lock-{self._path.name}", daemon=True).start()
        if not self._clock.wait(got, timeout):
            with decide:
                if not got.is_set():
                    late.set()
                    self._lock = None  # the next writer opens one of its own
                    raise self._late(timeout)

    def _late(self, timeout: float) -> Timeout:
        return Timeout(
            f"Another process has held {self._path} for more than {timeout:g} s.",
            hint=f"See which one with `fuser {self._path}`, then try again.",
        )

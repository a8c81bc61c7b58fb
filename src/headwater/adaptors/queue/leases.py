"""Extends the leases of claimed rows while the run that has claimed them is busy, or waits for a slow sink."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from headwater.core.errors import HeadwaterError
from headwater.pipeline.clients import Closing

_SHARE = 3  # extensions in a lease


class Extends(Protocol):
    """What extends leases."""

    def extend(self, tokens: Sequence[str], lease: int) -> None:
        """Let leases begin anew, for so many milliseconds."""


class LeaseExtension(Closing):
    """A thread that extends leases at a third of their length, from `begin` to `end`. One that fails is tried at the next third."""

    def __init__(self, queue: Extends, lease: int) -> None:
        self._queue, self._lease = queue, lease
        self._tokens: list[str] = []
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, tokens: Sequence[str]) -> None:
        """Extend these from now on."""
        with self._lock:
            self._tokens = list(tokens)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="headwater-leases", daemon=True)
            self._thread.start()

    def done(self, tokens: Sequence[str]) -> None:
        """These need no lease any more."""
        with self._lock:
            self._tokens = [token for token in self._tokens if token not in set(tokens)]

    def end(self) -> None:
        with self._lock:
            self._tokens = []

    def extend(self) -> None:
        """Extend them now."""
        with self._lock:
            tokens = self._tokens
        if tokens:
            self._queue.extend(tokens, self._lease)

    def close(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._lease / 1000 / _SHARE):
            with suppress(HeadwaterError):
                self.extend()

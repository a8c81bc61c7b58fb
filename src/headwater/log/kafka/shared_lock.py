"""A lock for several shared holders or one exclusive holder."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SharedLock:
    """An exclusive holder waits for the present shared holders, and later ones wait for it, so that nobody waits for ever."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holders = 0
        self._exclusive = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold it shared."""
        with self._changed:
            while self._exclusive:
                self._changed.wait()
            self._holders += 1
        try:
            yield
        finally:
            with self._changed:
                self._holders -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold it exclusively."""
        with self._changed:
            while self._exclusive:
                self._changed.wait()
            self._exclusive = True
        try:
            with self._changed:
                while self._holders:
                    self._changed.wait()
            yield
        finally:
            with self._changed:
                self._exclusive = False
                self._changed.notify_all()

"""A lock for several shared holders or one exclusive holder."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """An exclusive holder waits for the shared ones that have begun, and later ones wait for it: nobody waits for ever."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._several = 0
        self._alone = False

    @contextmanager
    def together(self) -> Iterator[None]:
        """Hold it shared."""
        with self._changed:
            while self._alone:
                self._changed.wait()
            self._several += 1
        try:
            yield
        finally:
            with self._changed:
                self._several -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold it exclusively."""
        with self._changed:
            while self._alone:
                self._changed.wait()
            self._alone = True
        try:
            with self._changed:
                while self._several:
                    self._changed.wait()
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()

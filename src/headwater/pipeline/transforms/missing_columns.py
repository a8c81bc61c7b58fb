"""Columns that the expression of an `sql` transform names, and that no document has had so far: mistyped names, most likely."""

from __future__ import annotations

import threading
from collections.abc import Iterable


class MissingColumns:
    """What this process has seen, by the name of the transform. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lacked: dict[str, dict[str, None]] = {}
        self._had: dict[str, set[str]] = {}

    def lacked(self, transform: str, column: str) -> None:
        """Documents that came together had no such column."""
        with self._lock:
            self._lacked.setdefault(transform, {})[column] = None

    def had(self, transform: str, columns: Iterable[str]) -> None:
        """Documents had these columns."""
        with self._lock:
            self._had.setdefault(transform, set()).update(column.lower() for column in columns)

    def of(self, transform: str) -> list[str]:
        """The columns that no document has had, in the order in which they were missed."""
        with self._lock:
            had = self._had.get(transform, set())
            return [column for column in self._lacked.get(transform, {}) if column.lower() not in had]

    def forget(self, transform: str) -> None:
        """Begin anew."""
        with self._lock:
            self._lacked.pop(transform, None)
            self._had.pop(transform, None)


MISSING = MissingColumns()


def told(transform: str, columns: Iterable[str]) -> str:
    """What is wrong, in words."""
    names = list(columns)
    return f"{transform} names {', '.join(names)}, which no document has had. {'It is' if len(names) == 1 else 'They are'} null everywhere."

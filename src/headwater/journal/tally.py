"""Counts of what a range of records holds, for the replicator's metrics."""

from __future__ import annotations

import msgspec


class CopyTally(msgspec.Struct):
    """`events`: of all Appends. `forks`: Appends whose first number their journal had already, as two writers make them. `gaps`: Appends
    that leave numbers of their journal out. A journal's first Append, and the first one behind a Purge, is neither;
    nor is the first Append of a range that also purges its journal."""

    events: int = 0
    forks: int = 0
    gaps: int = 0

    def count(self, first: int, last: int) -> None:
        """Count an Append that begins with the number `first`, of a journal that ended with `last`."""
        if first <= last:
            self.forks += 1
        elif first > last + 1:
            self.gaps += 1

    def add(self, other: CopyTally) -> None:
        self.events += other.events
        self.forks += other.forks
        self.gaps += other.gaps

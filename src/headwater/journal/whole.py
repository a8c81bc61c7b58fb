"""The journals of one partition, each whole: one that moved here from another partition, because its topic grew, has records there, too."""

from __future__ import annotations

from collections.abc import Callable

from headwater.journal.change import EventRow
from headwater.journal.grown import GrownJournal
from headwater.journal.head import Head
from headwater.journal.partition import JournalPartition
from headwater.journal.read import JournalRead

Grown = Callable[[str], GrownJournal | None]
"""A journal over all of its places; None where it has one alone. Blocking."""


def never_grown(id: str) -> None:
    """The `Grown` of a topic whose number of partitions never changed."""


class WholeJournals:
    """Blocking, and safe for several threads. Errors: those of `JournalPartition`."""

    def __init__(self, partition: JournalPartition, grown: Grown = never_grown) -> None:
        self.partition, self._grown = partition, grown

    def head(self, id: str) -> tuple[Head | None, int]:
        """The head of a journal now, and the offset of this partition below which records count in it."""
        end, grown = self.partition.end(), self._grown(id)
        if grown is None:
            joined = self.partition.joined(id, end)
            return joined.head, max(end, joined.pointer.offset + 1, joined.pointer.begun)
        newest = grown.newest
        grown_head = grown.joined(end if newest is self.partition else newest.end())
        return grown_head.head, grown_head.end if newest is self.partition else end

    def event(self, id: str, start: int, stop: int | None = None) -> EventRow | None:
        """The first event from `start` to `stop` now; None: there is none."""
        grown = self._grown(id)
        if grown is None:
            rows = JournalRead(self.partition, id, start=start, stop=stop, end=self.partition.end()).page(1)
        else:
            rows = grown.read(start=start, stop=stop, end=grown.newest.end()).page(1)
        return rows[0] if rows else None

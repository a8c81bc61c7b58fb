"""What a writer of journals needs of its partition's log and store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Protocol

from headwater.log import Guard
from headwater.log.record import Record


class ClaimLost(Exception):
    """Another process has claimed the partition. Nothing was appended."""


class JournalLog(Protocol):
    """A partition's log and store."""

    generation: str
    exact: bool
    """False where others append without being seen: events bring their numbers, and nothing can be expected."""
    alone: bool
    """Nobody else's records count from the last `prepare` on, so that a guard and a look at the end are not needed."""

    epoch: int
    """Of the claim under which this process appends; 0 where it needs none."""

    def prepare(self) -> bool:
        """Own the partition, where that is needed. True: it is owned anew, and what was known of it may be old. Errors: `NotOwner`."""

    def append(self, records: Sequence[Record], guard: Guard | None) -> Sequence[int]:
        """As `Log.append` or `Writer.append`. Raises `ClaimLost` where nothing was appended and the partition is to be owned again."""

    def end(self) -> int:
        """The durable end."""

    def read(self, start: int) -> Sequence[Record]:
        """Some durable records from an offset on; none at the end."""

    def last_number(self, id: str, end: int) -> int:
        """The last number of a journal below an offset; 0: there is no such journal. Errors: of the log and the store."""

    def near(self, end: int) -> bool:
        """Whether a look-up below an offset reads only memory and open files of this machine, so that a commit may wait for it."""

    def expired(self, id: str, today: date, end: int) -> bool:
        """Whether a journal, as of an offset, has expired by a day. Errors: of the log and the store."""

    def sealed_at(self, id: str, seq_nr: int, end: int) -> bool:
        """Whether the event of this number, below an offset, is encrypted. Errors: of the log and the store."""

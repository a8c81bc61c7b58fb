"""The stores of journals: copies of the log that readers ask first. Everything in them is folded from the log and can be made anew."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from headwater.journal.change import EventRow, PartitionChange, Pointer
from headwater.journal.head import Head


class PartitionView(ABC):
    """One partition's copy at one moment: pointer, heads and rows belong together.

    Errors of all calls: `Conflict` where the store has no transactions and changes have overtaken the view; open another one.
    """

    pointer: Pointer

    @abstractmethod
    def head(self, id: str) -> Head | None:
        """The head of a journal; None where the store has no such journal."""

    @abstractmethod
    def rows(self, id: str, head: Head, start: int, stop: int | None = None, *, batch: int = 1000) -> Iterator[list[EventRow]]:
        """The rows of `head`'s life from `start` to `stop` (both inclusive), above its `delete_to`, by number and then by offset, in
        batches. Rows of one number that several Appends have written all come. Gaps end nothing."""

    @abstractmethod
    def ids(self, after: str | None = None, limit: int = 1000) -> list[str]:
        """Ids of journals, sorted by their UTF-8 bytes, those behind `after`."""

    @abstractmethod
    def heads(self, after: str | None = None, limit: int = 1000) -> list[tuple[str, Head]]:
        """Journals with their heads, in the order of `ids`."""


class PartitionStore(ABC):
    """One partition's copy. Blocking, safe for several threads. `generation`: of the topic whose records it holds.

    Guarantees: `apply` changes rows, heads and pointer so that a reader sees all of a change or nothing of it, or (Cassandra) finds out
    and reads again. What is applied is the same for every split of the log into ranges, and after a death at any step.
    """

    topic: str
    partition: int
    generation: str

    @abstractmethod
    def pointer(self) -> Pointer:
        """How far it is copied. Offset -1 where nothing is."""

    @abstractmethod
    def view(self) -> AbstractContextManager[PartitionView]:
        """The copy at one moment. Errors: `Differs` where it holds records of another generation of the topic."""

    @abstractmethod
    def apply(self, change: PartitionChange) -> bool:
        """Apply the change of a range that begins right behind the pointer. False, and nothing is changed, where the pointer is at or
        behind its end already. Errors: `Conflict` where the range begins behind the pointer + 1 or overlaps it in part: plan it anew."""

    @abstractmethod
    def checkpoint(self) -> Pointer:
        """Make everything applied so far survive a loss of power; return the pointer up to which that holds. Only then may the log go."""

    @abstractmethod
    def clear(self) -> None:
        """Remove everything, so that it can be made anew."""


class JournalStore(ABC):
    """The copies of all partitions of all topics: SQLite files, or a keyspace of Cassandra."""

    @abstractmethod
    def topics(self) -> list[str]:
        """Topics of which something is copied, sorted."""

    @abstractmethod
    def partition(self, topic: str, partition: int, generation: str, *, create: bool = True) -> PartitionStore | None:
        """The copy of a partition. `create=False`: None where there is none, for those who only read."""

    @abstractmethod
    def setting(self, key: str) -> str | None:
        """A setting that all processes share; None: it is not set."""

    @abstractmethod
    def set_setting(self, key: str, value: str | None) -> str | None:
        """Set or (None) remove a setting; return what was there before."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections. Closing twice is no error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def segment_of(seq_nr: int, segment_size: int) -> int:
    """The segment of an event in the table `journal`."""
    return (seq_nr - 1) // segment_size


def head_segment(id: str, count: int) -> int:
    """The segment of a journal's head in the table `metajournal` of Cassandra: Java's hash of the id in lower case, as kafka-journal's."""
    hashed = 0
    for unit in _utf16(id.lower()):
        hashed = (hashed * 31 + unit) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed & 0x80000000 else hashed
    return abs(signed) % count  # Java keeps the sign of the remainder, then takes it away


def _utf16(text: str) -> Sequence[int]:
    encoded = text.encode("utf-16-be", "surrogatepass")
    return [encoded[at] << 8 | encoded[at + 1] for at in range(0, len(encoded), 2)]

"""Homes: the record of the log that holds a row whole. The first record that is some row's home is the first that is still needed."""

from __future__ import annotations

from array import array

_SPARE = 4096  # records that are forgotten before the columns are cut


class Homes:
    """Counts, for each record from the first needed one on, how many rows have it as their home; and how many bytes the records have.

    A step costs the same however many records there are: each is passed once, when nothing before it is needed any more.
    """

    def __init__(self, next: int = 1) -> None:
        """`next`: the sequence of the first record that will be noted."""
        self._base, self._passed = next, 0
        self._counts, self._sizes = array("I"), array("I")
        self.bytes = 0
        """Of the records from the first needed one on."""

    @property
    def first(self) -> int:
        """The sequence of the first record that is still needed; the next one where none is."""
        return self._base + self._passed

    @property
    def next(self) -> int:
        """The sequence of the next record."""
        return self._base + len(self._counts)

    @property
    def records(self) -> int:
        """How many records there are from the first needed one on."""
        return len(self._counts) - self._passed

    def note(self, count: int, size: int) -> None:
        """The next record is made: `count` rows have it as their home, and it has `size` bytes."""
        self._counts.append(count)
        self._sizes.append(size)
        self.bytes += size

    def add(self, sequence: int) -> None:
        """One more row needs a record that was noted. One before the first, in a log that begins late, is needed by none in the end."""
        if sequence >= self._base:
            self._counts[sequence - self._base] += 1

    def leave(self, sequence: int) -> None:
        """The opposite of `add`."""
        if sequence >= self._base:
            self._counts[sequence - self._base] -= 1

    def remove(self, sequence: int, count: int = 1) -> None:
        """Rows have it no longer."""
        self._counts[sequence - self._base] -= count

    def pass_unneeded(self) -> int:
        """Pass the records that no row needs; return `first`."""
        counts, passed, end = self._counts, self._passed, len(self._counts)
        while passed < end and not counts[passed]:
            self.bytes -= self._sizes[passed]
            passed += 1
        self._passed = passed
        if passed > _SPARE and passed * 2 > end:
            del self._counts[:passed], self._sizes[:passed]
            self._base, self._passed = self._base + passed, 0
        return self._base + self._passed

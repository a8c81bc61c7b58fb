"""The actions of one journal in a stretch of its partition, as columns of numbers: 40 bytes each, whatever their events hold."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator
from typing import NamedTuple, Self

from headwater.journal.action import ActionRecord, Append, Delete, Mark, Purge
from headwater.journal.head import Expiry, FirstAppend, HeadFold

_APPEND, _DELETE, _PURGE, _UNREADABLE = range(4)


class AppendPlace(NamedTuple):
    """An Append: its numbers, and where it lies."""

    first: int
    last: int
    offset: int


class TailActions:
    """Actions in the order of the log. Marks are left out: they change nothing. Not safe for several threads."""

    __slots__ = ("_first", "_kind", "_last", "_time", "offsets")

    def __init__(self) -> None:
        self._kind = bytearray()
        self.offsets, self._first, self._last, self._time = (array("q") for _ in range(4))

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, record: ActionRecord) -> bool:
        """Put an action behind the others. False for a Mark."""
        action = record.action
        if isinstance(action, Append):
            self._put(_APPEND, record.offset, action.first, action.last, record.timestamp)
        elif isinstance(action, Delete):
            self._put(_DELETE, record.offset, action.to, 0, record.timestamp)
        elif isinstance(action, Purge):
            self._put(_PURGE, record.offset, 0, 0, record.timestamp)
        else:
            assert isinstance(action, Mark)
            return False
        return True

    def add_unreadable(self, offset: int) -> None:
        """A record of this journal that cannot be decoded: `unreadable` names the first one."""
        self._put(_UNREADABLE, offset, 0, 0, 0)

    def _put(self, kind: int, offset: int, first: int, last: int, timestamp: int) -> None:
        self._kind.append(kind)
        self.offsets.append(offset)
        self._first.append(first)
        self._last.append(last)
        self._time.append(timestamp)

    def between(self, start: int, end: int) -> Self:
        """Those whose offsets lie in [start, end)."""
        low, high = bisect_left(self.offsets, start), bisect_left(self.offsets, end)
        part = type(self).__new__(type(self))  # empty columns would only be thrown away, at every look-up
        part._kind = self._kind[low:high]
        part.offsets, part._first, part._last, part._time = (
            self.offsets[low:high],
            self._first[low:high],
            self._last[low:high],
            self._time[low:high],
        )
        return part

    def extend(self, later: TailActions) -> None:
        """Put the actions of the stretch behind this one to its end."""
        self._kind += later._kind
        self.offsets += later.offsets
        self._first += later._first
        self._last += later._last
        self._time += later._time

    def without(self, offsets: Collection[int]) -> Self:
        """Those that lie at no one of these offsets."""
        if not len(self.offsets) or not any(offset in self.offsets for offset in offsets):
            return self
        part = type(self)()
        for at, offset in enumerate(self.offsets):
            if offset not in offsets:
                part._put(self._kind[at], offset, self._first[at], self._last[at], self._time[at])
        return part

    def unreadable(self) -> int | None:
        """The offset of the first record that cannot be decoded."""
        at = self._kind.find(_UNREADABLE)
        return None if at < 0 else self.offsets[at]

    def fold(self) -> HeadFold:
        """What they say together: the same as `HeadFold.then` over all of them. The expiry is not known here, nor is the origin."""
        purged, first, seq_nr, delete_to, capped = -1, -1, 0, 0, 0
        kinds, firsts, lasts = self._kind, self._first, self._last
        newest = -1
        for at, kind in enumerate(kinds):
            if kind == _APPEND:
                newest = at
                if first < 0:
                    first = at
                if lasts[at] > seq_nr:
                    seq_nr = lasts[at]
            elif kind == _DELETE:
                to = firsts[at]
                if purged < 0 and to > delete_to:
                    delete_to = to
                capped = max(capped, min(to, seq_nr))
            elif kind == _PURGE:
                purged, first, seq_nr, delete_to, capped, newest = at, -1, 0, 0, 0, -1
        if not kinds:
            return HeadFold()
        offsets, times = self.offsets, self._time
        return HeadFold(
            -1 if purged < 0 else offsets[purged],
            None if first < 0 else FirstAppend(offsets[first], firsts[first], times[first]),
            seq_nr,
            delete_to,
            capped,
            offsets[-1],
            times[-1],
            None if newest < 0 else Expiry(None, times[newest]),
        )

    def appends(self, start: int = 0) -> Iterator[AppendPlace]:
        """The Appends from an offset on."""
        for at in range(bisect_left(self.offsets, start), len(self.offsets)):
            if self._kind[at] == _APPEND:
                yield AppendPlace(self._first[at], self._last[at], self.offsets[at])

    def newest_append(self) -> int | None:
        """The offset of the newest Append behind the last Purge."""
        for at in range(len(self._kind) - 1, -1, -1):
            if self._kind[at] == _APPEND:
                return self.offsets[at]
            if self._kind[at] == _PURGE:
                break
        return None
